"""Finds users by the beginning of a name or id, and maintains the search fields of their rows (ADR 43)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import structlog
from pymongo import UpdateOne

from store.base.clock import Clock
from store.base.ids import UserId
from store.mongo.client import Document, Mongo
from store.mongo.collections import DEPLOYMENT, USERS
from store.mongo.index_fields import BY_ID, BY_SEARCH_KEY
from store.mongo.paced_reads import read_in_steps
from store.users.search_text import SearchQuery, search_fields, search_version
from store.users.user import User
from store.users.user_rows import PROFILE, set_fields, user_from_row

_log = structlog.get_logger()

IN_ORDER = (("s", 1),)
"""Order of results: by normalized name. No two users have the same s."""

FILL_INTERVAL_MS = 3_600_000
"""Time between two passes over all users in a deployment."""

_USERS_PER_READ = 20_000
"""Users that one query names: a query has 16 MiB at most."""

_ROWS_PER_STEP = 1_000


class FoundUser(NamedTuple):
    """A user who was found. `position`: s of the row, by which users are ordered."""

    user: User
    position: str


class SearchPage(NamedTuple):
    """A page of results. `has_more`: others follow."""

    found: list[FoundUser]
    has_more: bool


class UserSearch:
    """Searches the rows of users."""

    def __init__(
        self,
        mongo: Mongo,
        clock: Clock,
        *,
        has_directory: bool,
        refresh_members: Callable[[Sequence[UserId]], Awaitable[int]],
        refresh_workspaces: Callable[[], Awaitable[int]],
    ) -> None:
        """Create a search.

        refresh_members: updates the search fields of these users' memberships if necessary; refresh_workspaces: those
        of all open workspaces.
        """
        self._mongo = mongo
        self._clock = clock
        self._refresh_members = refresh_members
        self._refresh_workspaces = refresh_workspaces
        self.has_directory = has_directory

    async def find_among(
        self, users: Collection[UserId], query: SearchQuery | None, after: str | None, size: int
    ) -> SearchPage:
        """Return the matches among some users, in order of names, after a position. One round trip.

        The cost depends on the number of `users` only. query: None for all of them.
        """
        people = list(users)
        parts = [people[start : start + _USERS_PER_READ] for start in range(0, len(people), _USERS_PER_READ)]
        reads = (self._find(among_filter(part, query, after), query, size, BY_ID) for part in parts)
        pages: list[SearchPage] = await self._mongo.gather(*reads) if parts else []
        found = sorted((found for page in pages for found in page.found), key=lambda found: found.position)
        return SearchPage(found[:size], len(found) > size or any(page.has_more for page in pages))

    async def find_all(
        self, without: Collection[UserId], query: SearchQuery, after: str | None, size: int
    ) -> SearchPage:
        """Return matches among all users without some, in order of names, after a position. One round trip.

        The index returns them in order, so the cost depends on the size of the page. Needs the directory:
        Unreachable is raised until the index is built.
        """
        return await self._find(directory_filter(without, query, after), query, size, BY_SEARCH_KEY)

    async def _find(
        self, wanted: Mapping[str, Any], query: SearchQuery | None, size: int, index: Sequence[tuple[str, int]]
    ) -> SearchPage:
        projection = {**PROFILE, "s": 1, "sv": 1}
        rows = await self._mongo.find(USERS, wanted, projection=projection, sort=IN_ORDER, limit=size + 1, hint=index)
        found = [FoundUser(user_from_row(row), row["s"]) for row in rows[:size] if self._matches(row, query)]
        return SearchPage(found, len(rows) > size)

    def _matches(self, row: Document, query: SearchQuery | None) -> bool:
        """Return whether a row that was found matches. An older server may have changed the name only."""
        name = row.get("n")
        is_current = row["sv"] == search_version(name, has_directory=self.has_directory)
        return is_current or query is None or query.matches(name, row["_id"])

    async def fill_when_due(self) -> None:
        """Make the search fields that are missing or out of date, once an hour in the whole deployment.

        Such rows were written by older servers, or by servers with another setting. Open workspaces are included.
        """
        now = self._clock.now_ms()
        # Servers with another setting make other fields, so each setting has its own time.
        field = "directory_at" if self.has_directory else "searchable_at"
        due = {"_id": 1, field: {"$not": {"$gt": now - FILL_INTERVAL_MS}}}
        if await self._mongo.update_one(DEPLOYMENT, due, {"$set": {field: now}}):
            filled = await self.fill()
            if filled:
                _log.info("users_made_searchable", users=filled)
            await self._refresh_workspaces()

    async def fill(self) -> int:
        """Make the search fields of all users, and of their memberships, that lack current ones.

        Returns the number of users. Raises StoreError.
        """
        filled = 0
        async for rows in read_in_steps(self._mongo, USERS, {}, projection={"n": 1, "sv": 1}, size=_ROWS_PER_STEP):
            filled += await self._refresh(rows)
            await self._refresh_members([UserId(row["_id"]) for row in rows])
        return filled

    async def _refresh(self, rows: Sequence[Document]) -> int:
        """Update the rows whose search fields do not belong to their names."""
        updates = [
            # If the name has changed since it was read, that change has updated the fields.
            UpdateOne(
                {"_id": row["_id"], "n": row.get("n")},
                set_fields(search_fields(row.get("n"), row["_id"], has_directory=self.has_directory)),
            )
            for row in rows
            if row.get("sv") != search_version(row.get("n"), has_directory=self.has_directory)
        ]
        return await self._mongo.bulk_write(USERS, updates) if updates else 0


def among_filter(users: Collection[UserId], query: SearchQuery | None, after: str | None) -> dict[str, Any]:
    """Return the query for matches among some users, after a position."""
    wanted = {"_id": {"$in": list(users)}, "s": {"$gt": after or ""}}
    return wanted | _comparison(query) if query is not None else wanted


def directory_filter(without: Collection[UserId], query: SearchQuery, after: str | None) -> dict[str, Any]:
    """Return the query for matches among all users without some, after a position."""
    keys = query.keys
    wanted: dict[str, Any] = {"k": {"$in": keys} if len(keys) > 1 else keys[0], "s": {"$gt": after or ""}}
    wanted["_id"] = {"$nin": list(without)}
    return wanted if query.has_exact_keys else wanted | _comparison(query)


def _comparison(query: SearchQuery) -> dict[str, Any]:
    return {"$or": [{"s": {"$regex": query.name_pattern}}, {"i": {"$regex": query.id_pattern}}]}

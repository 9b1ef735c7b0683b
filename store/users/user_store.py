"""Users in MongoDB, with a cache of their profiles."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from store.base.ids import UserId
from store.base.request_user import SharedWork
from store.mongo.client import Mongo
from store.mongo.collections import USERS
from store.users.search_text import search_fields
from store.users.user import User
from store.users.user_rows import PROFILE, profile_update, set_fields, user_from_row

_MAX_CACHED = 100_000


class UserStore:
    """Reads and caches users' profiles.

    A cached profile is current until `invalidate` is called: the server that changes a user announces it to all.
    """

    def __init__(self, mongo: Mongo, *, has_directory: bool = False) -> None:
        """Create the store. has_directory: users may search the directory."""
        self._mongo = mongo
        self._has_directory = has_directory
        self._cached: dict[UserId, User] = {}
        self._unknown: dict[UserId, User] = {}
        self._invalidations = 0
        """Number of invalidations so far. A profile that was read during one may be out of date."""
        self._wanted: list[tuple[UserId, asyncio.Future[User | None]]] = []
        self._reading: asyncio.Task[None] | None = None

    def find_cached(self, user: UserId) -> User | None:
        """Return a user whose profile is cached."""
        return self._cached.get(user)

    async def find_many(self, users: Iterable[UserId]) -> dict[UserId, User]:
        """Return the users that exist. No round trip if all are cached."""
        wanted = set(users)
        found = {user_id: self._cached[user_id] for user_id in wanted if user_id in self._cached}
        missing = [user_id for user_id in wanted if user_id not in found]
        if missing:
            before = self._invalidations
            for row in await self._mongo.find(USERS, {"_id": {"$in": missing}}, projection=PROFILE):
                user = found[UserId(row["_id"])] = user_from_row(row)
                if before == self._invalidations and user.id not in self._cached:
                    _remember(self._cached, user)
        return found

    async def find(self, user: UserId) -> User | None:
        """Return one user, or None."""
        return (await self.find_many((user,))).get(user)

    def find_shown(self, user: UserId) -> User | None:
        """Return the cached profile of a user, or the cached placeholder if the user does not exist."""
        return self._cached.get(user) or self._unknown.get(user)

    async def list_shown(self, users: Sequence[UserId]) -> list[User]:
        """Return the profiles to show, with placeholders for users that do not exist.

        Unlike other reads, this one remembers users that do not exist, and reads them again only after an announcement.
        """
        before = self._invalidations
        found = await self.find_many(user for user in users if user not in self._unknown)
        shown = [found.get(user) or User(user, None, None, False) for user in users]
        if before == self._invalidations:
            for user in shown:
                if user.id not in found and user.id not in self._cached:
                    _remember(self._unknown, user)
        return shown

    async def ensure(self, user: UserId, name: str | None, avatar_url: str | None) -> bool:
        """Create a user if needed, and fill a name and an avatar that are not set. Return whether anything changed.

        Costs a read if the user is not cached, which concurrent calls share, and a write only for a change.
        """
        known = self._cached.get(user) or await self._find_with_others(user)
        if known and (known.name or not name) and (known.avatar_url or not avatar_url):
            return False
        # The first two stages compare the name as it was before the update.
        is_unnamed = {"$eq": [{"$ifNull": ["$n", None]}, None]}
        search = search_fields(name, user, has_directory=self._has_directory)
        made = {field: {"$cond": [is_unnamed, {"$literal": value}, f"${field}"]} for field, value in search.items()}
        update: list[dict[str, Any]] = [
            {"$set": made},
            {
                "$set": {
                    "n": {"$ifNull": ["$n", {"$literal": name}]},
                    "av": {"$ifNull": ["$av", {"$literal": avatar_url}]},
                    "bot": {"$ifNull": ["$bot", False]},
                }
            },
        ]
        before = await self._mongo.find_one_and_update(USERS, {"_id": user}, update, upsert=True)
        old = user_from_row(before) if before else None
        new = User(
            user,
            (old.name if old else None) or name,
            (old.avatar_url if old else None) or avatar_url,
            old.is_bot if old else False,
            old.metadata if old else None,
        )
        self._changed([new])
        return old != new

    async def _find_with_others(self, user: UserId) -> User | None:
        """Return one user, or None. Calls that are made during a read share the next one."""
        found: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()
        self._wanted.append((user, found))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_wanted())
        return await found

    async def _read_wanted(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, []
                try:
                    with SharedWork():
                        users = await self.find_many(user for user, _ in wanted)
                except Exception as error:
                    for _, waiting in wanted:
                        if not waiting.done():
                            waiting.set_exception(error)
                else:
                    for user, waiting in wanted:
                        if not waiting.done():
                            waiting.set_result(users.get(user))
        finally:
            self._reading = None

    async def upsert_many(self, users: Sequence[User]) -> None:
        """Create the users, or replace their profiles: one round trip."""
        updates = [profile_update(user, has_directory=self._has_directory) for user in users]
        await self._mongo.bulk_write(USERS, updates)
        self._changed(users)

    async def remove(self, user: UserId) -> None:
        """Remove a user's profile: one round trip. The caller announces it to other servers."""
        await self._mongo.delete_one(USERS, {"_id": user})
        self.invalidate([user])

    async def mark_as_bot(self, user: UserId) -> None:
        """Make a user, who exists, a bot: one round trip."""
        await self._mongo.update_one(USERS, {"_id": user}, {"$set": {"bot": True}})
        self.invalidate([user])

    async def update(
        self, user: UserId, *, name: str | None, avatar_url: str | None, metadata: str | None
    ) -> tuple[User, bool]:
        """Change fields of a profile, and return it with whether anything changed: one round trip.

        None leaves a field as it is; avatar_url "" removes the picture.
        """
        fields: dict[str, Any] = {}
        if name is not None:
            fields |= {"n": name} | search_fields(name, user, has_directory=self._has_directory)
        if avatar_url is not None:
            fields["av"] = avatar_url or None
        if metadata is not None:
            fields["md"] = metadata
        if not fields:
            return await self.find(user) or User(user, None, None, False), False
        # MongoDB writes nothing if all values are the same.
        before = await self._mongo.find_one_and_update(USERS, {"_id": user}, set_fields(fields), upsert=True)
        row = before or {"_id": user}
        old, new = user_from_row(row), user_from_row(row | fields)
        self._changed([new])
        return new, before is None or old != new

    def invalidate(self, users: Iterable[UserId] | None) -> None:
        """Drop cached profiles that another process changed. None: any may have changed."""
        self._invalidations += 1
        if users is None:
            self._unknown.clear()
            self._cached.clear()
        for user in users or ():
            self._cached.pop(user, None)
            self._unknown.pop(user, None)

    def _changed(self, users: Iterable[User]) -> None:
        """Remember profiles that this process wrote."""
        for user in users:
            self._unknown.pop(user.id, None)
            self._cached.pop(user.id, None)
            _remember(self._cached, user)


def _remember(cache: dict[UserId, User], user: User) -> None:
    if len(cache) >= _MAX_CACHED:
        cache.pop(next(iter(cache)))
    cache[user.id] = user

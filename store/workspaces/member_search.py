"""Lists the members of a workspace by name, and maintains the search fields of their rows (ADR 60).

A member is listed by nickname, or by display name without one. The search fields are made from the user's name, id and
nickname. The summary row of each user has the version of the name from which they were made (`user_workspaces`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pymongo import UpdateOne

from store.base.ids import UserId
from store.base.workspace_ids import RoleId, WorkspaceId
from store.mongo.client import Document, Mongo
from store.mongo.collections import USERS, WORKSPACE_MEMBERS, WORKSPACES_OF, rows_of_workspace, workspace_row_id
from store.mongo.index_fields import BY_MEMBER_KEY, BY_MEMBER_NAME, BY_MEMBER_ROLE, BY_NICKNAMED_USER
from store.users.search_text import SearchQuery, id_keys, name_keys, normalize, search_fields, search_version
from store.workspaces.changing.proposed_change import Operation, set_or_remove
from store.workspaces.documents import facts_from
from store.workspaces.policy import MemberFacts
from store.workspaces.user_workspaces import UserWorkspaces, summary_id, update_of_summary
from store.workspaces.workspace_fields import WorkspaceMemberField

_USERS_PER_CHECK = 1_000

F = WorkspaceMemberField

SEARCH_FIELDS = (F.SORT_NAME, F.SEARCH_KEYS, F.SEARCH_NAMES, F.SEARCH_ID, F.USER_SORT_NAME)


class MemberSearchFields(NamedTuple):
    """Search fields of one member's row. `name_version`: the version of the name from which they were made."""

    sort_name: str
    fields: Document
    name_version: int


class FoundMember(NamedTuple):
    """A member who was found. `position`: the sort name of the member, or of the user for `find_users`."""

    facts: MemberFacts
    position: str


class MemberPage(NamedTuple):
    """A page of members. `has_more`: others follow."""

    found: list[FoundMember]
    has_more: bool


class MemberSearch:
    """Searches the rows of members."""

    def __init__(self, mongo: Mongo, user_workspaces: UserWorkspaces) -> None:
        self._mongo = mongo
        self._user_workspaces = user_workspaces

    async def list(
        self,
        workspace: WorkspaceId,
        query: SearchQuery | None,
        role: RoleId | None,
        after: str | None,
        size: int,
        *,
        without: Collection[UserId] = (),
    ) -> MemberPage:
        """Return members in the order of the names that are shown, after a position. One round trip.

        The indexes return them in order, so the cost depends on the size of the page. role: members with this role.
        without: users to leave out.
        """
        wanted = members_filter(workspace, query) | {F.SORT_NAME: {"$gt": after or ""}}
        if without:
            wanted["_id"] |= {"$nin": [workspace_row_id(workspace, user) for user in without]}
        index = BY_MEMBER_NAME if query is None else BY_MEMBER_KEY
        if role is not None:
            wanted[F.ROLES] = role
            index = BY_MEMBER_ROLE if query is None else BY_MEMBER_KEY
        rows = await self._mongo.find(WORKSPACE_MEMBERS, wanted, sort=[(F.SORT_NAME, 1)], limit=size + 1, hint=index)
        return MemberPage([_found(row, F.SORT_NAME) for row in rows[:size]], len(rows) > size)

    async def list_among(
        self,
        workspace: WorkspaceId,
        users: Sequence[UserId],
        query: SearchQuery | None,
        after: str | None,
        size: int,
        role: RoleId | None = None,
    ) -> MemberPage:
        """Like `list`, among some users, whose rows are all read. Those who are not members are left out."""
        if not users:
            return MemberPage([], False)
        ids = [workspace_row_id(workspace, user) for user in users]
        wanted = members_filter(workspace, query) | {"_id": {"$in": ids}, F.SORT_NAME: {"$gt": after or ""}}
        if role is not None:
            wanted[F.ROLES] = role
        rows = await self._mongo.find(
            WORKSPACE_MEMBERS, wanted, sort=[(F.SORT_NAME, 1)], limit=size + 1, hint=[("_id", 1)]
        )
        return MemberPage([_found(row, F.SORT_NAME) for row in rows[:size]], len(rows) > size)

    async def find_users(
        self,
        workspace: WorkspaceId,
        without: Collection[UserId],
        query: SearchQuery | None,
        after: str | None,
        size: int,
    ) -> MemberPage:
        """Return members without some users, in the order of their own names, as users are listed elsewhere.

        One round trip.

        Without a nickname the order is the same as that of `list`; the others have an index of their own, a small one.
        """
        wanted, position = members_filter(workspace, query), {"$gt": after or ""}
        wanted["_id"] |= {"$nin": [workspace_row_id(workspace, user) for user in without]}
        plain = wanted | {F.SORT_NAME: position, F.USER_SORT_NAME: None}
        nicknamed = wanted | {F.USER_SORT_NAME: position}
        plain_index = BY_MEMBER_NAME if query is None else BY_MEMBER_KEY
        pages: list[list[Document]] = await self._mongo.gather(
            self._mongo.find(WORKSPACE_MEMBERS, plain, sort=[(F.SORT_NAME, 1)], limit=size + 1, hint=plain_index),
            self._mongo.find(
                WORKSPACE_MEMBERS, nicknamed, sort=[(F.USER_SORT_NAME, 1)], limit=size + 1, hint=BY_NICKNAMED_USER
            ),
        )
        found = [
            _found(row, name) for name, rows in zip((F.SORT_NAME, F.USER_SORT_NAME), pages, strict=True) for row in rows
        ]
        found.sort(key=lambda member: member.position)
        return MemberPage(found[:size], len(found) > size)

    async def refresh_changed(self, users: Sequence[UserId]) -> int:
        """Update the rows of users whose names have changed since their search fields were made.

        One round trip if there are none. Returns the number of users whose rows were updated.
        """
        refreshed = 0
        for start in range(0, len(users), _USERS_PER_CHECK):
            part = users[start : start + _USERS_PER_CHECK]
            summaries, names = await self._mongo.gather(
                self._mongo.find(WORKSPACES_OF, {"_id": {"$in": [summary_id(user) for user in part]}}),
                self._mongo.find(USERS, {"_id": {"$in": list(part)}}, projection={"n": 1}),
            )
            versions = {row["_id"]: _version(row.get("n")) for row in names}
            for summary in summaries:
                user = UserId(summary["_id"][:-1])
                if summary["n"] and summary["sv"] != versions.get(user, summary["sv"]):
                    await self._refresh(user)
                    refreshed += 1
        return refreshed

    async def _refresh(self, user: UserId) -> None:
        """Make the search fields of all rows of a user, from the name that the user has now.

        A transaction: users who join or rename meanwhile change the summary too, and one of the two repeats.
        """

        async def work(session: Any) -> None:
            summary = {"_id": summary_id(user)}
            row = await self._mongo.find_one(USERS, {"_id": user}, session=session) or {}
            version = _version(row.get("n"))
            # The count of refreshes changes the row even if the version is the same, so that two of them conflict.
            change = {"$set": {"sv": version}, "$inc": {"rf": 1}}
            if await self._mongo.find_one_and_update(WORKSPACES_OF, summary, change, session=session) is None:
                return
            joined = await self._user_workspaces.list_joined(user, session)
            ids = [workspace_row_id(workspace, user) for workspace, _ in joined]
            rows = await self._mongo.find(WORKSPACE_MEMBERS, {"_id": {"$in": ids}}, session=session)
            updates = [
                UpdateOne({"_id": member["_id"]}, update_of_search_fields(user, row.get("n"), member.get(F.NICKNAME)))
                for member in rows
            ]
            if updates:
                await self._mongo.bulk_write(WORKSPACE_MEMBERS, updates, session=session)

        await self._mongo.transaction(work)


def _found(row: Document, position: str) -> FoundMember:
    return FoundMember(facts_from(row, 0), row[position])


def members_filter(workspace: WorkspaceId, query: SearchQuery | None) -> dict[str, Any]:
    """Return the query for members of a workspace. query: the beginning of a word of a name, or of the id."""
    wanted = rows_of_workspace(workspace) | {F.WORKSPACE: workspace}
    if query is None:
        return wanted
    keys = query.keys
    wanted[F.SEARCH_KEYS] = {"$in": keys} if len(keys) > 1 else keys[0]
    if not query.has_exact_keys:
        names, id_ = {F.SEARCH_NAMES: {"$regex": query.name_pattern}}, {F.SEARCH_ID: {"$regex": query.id_pattern}}
        wanted["$or"] = [names, id_]
    return wanted


def search_fields_of(
    workspace: WorkspaceId, user: UserId, name: str | None, nickname: str | None
) -> MemberSearchFields:
    """Return the search fields of a new member."""
    fields = {F.WORKSPACE: workspace} | _made_fields(user, name, nickname)
    return MemberSearchFields(fields[F.SORT_NAME], fields, _version(name))


def update_of_search_fields(user: UserId, name: str | None, nickname: str | None) -> Document:
    """Return the update of a row for another name."""
    return set_or_remove(_all_fields(user, name, nickname))


def changed_search_fields(
    user: UserId, name: str | None, nickname: str | None
) -> tuple[Document, list[tuple[str, list[Operation]]]]:
    """Return the fields of a row for another nickname (None: absent), and what else the same transaction writes."""
    return _all_fields(user, name, nickname), [(WORKSPACES_OF, [update_of_summary(user, _version(name))])]


def _all_fields(user: UserId, name: str | None, nickname: str | None) -> Document:
    return dict.fromkeys(SEARCH_FIELDS) | _made_fields(user, name, nickname)


def _made_fields(user: UserId, name: str | None, nickname: str | None) -> Document:
    names = [normalize(text) for text in (nickname, name or user) if text]
    keys = {key for text in names for key in name_keys(text)}
    users_own = search_fields(name, user, has_directory=False)
    fields: Document = {
        F.SORT_NAME: f"{names[0]}\t{user}",
        F.SEARCH_KEYS: sorted(keys | set(id_keys(user))),
        F.SEARCH_NAMES: list(dict.fromkeys(names)),
        F.SEARCH_ID: users_own["i"],
    }
    return fields | {F.USER_SORT_NAME: users_own["s"]} if nickname else fields


def _version(name: str | None) -> int:
    return search_version(name, has_directory=False)

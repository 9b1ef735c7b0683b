"""Checks of the rows by which users find their workspaces, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pymongo import DeleteOne, InsertOne, UpdateOne

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.checking.check import Difference, Objects, Scope
from store.checking.workspaces.workspace_counts import members_of_workspace
from store.mongo.collections import (
    WORKSPACE_MEMBERS,
    WORKSPACES_OF,
    workspace_of_user_row_id,
    workspace_row_id,
    workspaces_of_user,
)
from store.store import Store
from store.workspaces.changing.proposed_change import Operation
from store.workspaces.copies.membership_stamps import MembershipStamps
from store.workspaces.user_workspaces import summary_id
from store.workspaces.workspace_fields import WorkspaceMemberField

_COUNT, _LISTED, _MEMBER = "number of workspaces", "entry of workspace ", "entry of member "
_ROWS = 2_000


class UserWorkspaceRows:
    """A user's list of workspaces has no workspace that the user is not a member of, and the list's number is right."""

    name: ClassVar[str] = "users"
    scope: ClassVar[Scope] = Scope(Objects.USER)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some users."""
        found = []
        for user in map(UserId, ids):
            count, listed = await _read(self._store, user)
            rows = [workspace_row_id(workspace, user) for workspace in listed]
            members = await self._store.mongo.find(WORKSPACE_MEMBERS, {"_id": {"$in": rows}}, projection={"_id": 1})
            extra = set(rows) - {row["_id"] for row in members}
            for row in sorted(extra):
                workspace = row.partition(" ")[0]
                found.append(Difference(self.name, user, f"{_LISTED}{workspace}", True, False))
            if count != len(listed):
                found.append(Difference(self.name, user, _COUNT, count, len(listed)))
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Remove the entries, and count again."""
        user = UserId(object_id)
        extra = [difference.field.removeprefix(_LISTED) for difference in differences if difference.field != _COUNT]
        await _repair(self._store, user, [WorkspaceId(workspace) for workspace in extra])


class MemberRows:
    """Each member of a workspace has the workspace in their list."""

    name: ClassVar[str] = "memberships"
    scope: ClassVar[Scope] = Scope(Objects.WORKSPACE)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some workspaces."""
        found = []
        for workspace in map(WorkspaceId, ids):
            users = list[UserId]()
            async for row in members_of_workspace(self._store.mongo, workspace):
                users.append(UserId(row["_id"].partition(" ")[2]))
                if len(users) == _ROWS:
                    found += await self._find_missing(workspace, users)
                    users.clear()
            found += await self._find_missing(workspace, users)
        return found

    async def _find_missing(self, workspace: WorkspaceId, users: Sequence[UserId]) -> list[Difference]:
        ids = {workspace_of_user_row_id(user, workspace): user for user in users}
        rows = await self._store.mongo.find(WORKSPACES_OF, {"_id": {"$in": list(ids)}}, projection={"_id": 1})
        missing = ids.keys() - {row["_id"] for row in rows}
        return [Difference(self.name, workspace, f"{_MEMBER}{ids[id]}", False, True) for id in sorted(missing)]

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Add the workspace to the lists of members, and count again."""
        for difference in differences:
            await _repair(self._store, UserId(difference.field.removeprefix(_MEMBER)), [WorkspaceId(object_id)])


async def _read(store: Store, user: UserId, session: Any = None) -> tuple[int, set[WorkspaceId]]:
    """Return the number in a user's summary, and the workspaces in the user's list."""
    rows = await store.mongo.find(WORKSPACES_OF, workspaces_of_user(user), session=session)
    counts = [row.get("n", 0) for row in rows if row["_id"] == summary_id(user)]
    listed = {WorkspaceId(row["_id"].partition(" ")[2]) for row in rows if row["_id"] != summary_id(user)}
    return sum(counts), listed


async def _repair(store: Store, user: UserId, workspaces: Sequence[WorkspaceId]) -> None:
    """Make a user's list agree with the memberships of some workspaces, and count it, in one transaction."""

    async def work(session: Any) -> None:
        _, listed = await _read(store, user, session)
        ids = {workspace_row_id(workspace, user): workspace for workspace in workspaces}
        rows = await store.mongo.find(WORKSPACE_MEMBERS, {"_id": {"$in": list(ids)}}, session=session)
        joined = {ids[row["_id"]]: row[WorkspaceMemberField.JOINED_AT] for row in rows}
        writes = list[Operation]()
        for workspace in workspaces:
            row = {"_id": workspace_of_user_row_id(user, workspace)}
            if workspace in joined and workspace not in listed:
                writes.append(InsertOne(row | {"j": joined[workspace]}))
            elif workspace in listed and workspace not in joined:
                writes.append(DeleteOne(row))
        present = (listed - set(workspaces)) | set(joined)
        # Every change of the user's memberships writes this row, so it conflicts with this transaction.
        writes.append(UpdateOne({"_id": summary_id(user)}, {"$set": {"n": len(present)}}, upsert=True))
        await store.mongo.bulk_write(WORKSPACES_OF, writes, session=session)

    async with MembershipStamps(store.cache, store.keys, store.clock).changing([user], workspaces):
        await store.mongo.transaction(work)

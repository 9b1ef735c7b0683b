"""Check of the numbers of members and invitations in the documents of workspaces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from store.base.workspace_ids import WorkspaceId
from store.checking.check import Difference, Objects, Scope
from store.mongo.client import Document, Mongo
from store.mongo.collections import INVITES, WORKSPACE_MEMBERS, WORKSPACES, rows_of_workspace
from store.mongo.index_fields import BY_ID
from store.store import Store
from store.workspaces.copies.membership_stamps import MembershipStamps
from store.workspaces.workspace_fields import WorkspaceField, WorkspaceMemberField
from store.workspaces.workspace_store import existing

_FIELDS = {WorkspaceField.MEMBER_COUNT: "number of members", WorkspaceField.INVITE_COUNT: "number of invitations"}
_ROWS = 2_000


class WorkspaceCounts:
    """A workspace has the number of its members, and that of its invitations."""

    name: ClassVar[str] = "workspaces"
    scope: ClassVar[Scope] = Scope(Objects.WORKSPACE)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some workspaces."""
        found = []
        for workspace in map(WorkspaceId, ids):
            for row in await self._store.mongo.find(
                WORKSPACES, existing(workspace), projection=dict.fromkeys(_FIELDS, 1)
            ):
                numbers = await self._count(workspace)
                found += [
                    Difference(self.name, workspace, text, row.get(field, 0), numbers[field])
                    for field, text in _FIELDS.items()
                    if row.get(field, 0) != numbers[field]
                ]
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Count again, in a transaction that conflicts with those that change members and invitations."""
        workspace = WorkspaceId(object_id)

        async def work(session: Any) -> None:
            numbers = {"$set": await self._count(workspace, session)}
            await self._store.mongo.find_one_and_update(WORKSPACES, existing(workspace), numbers, session=session)

        async with MembershipStamps(self._store.cache, self._store.keys, self._store.clock).changing((), [workspace]):
            await self._store.mongo.transaction(work)

    async def _count(self, workspace: WorkspaceId, session: Any = None) -> dict[str, int]:
        """Return the numbers that the rows give, by stored name."""
        mongo = self._store.mongo
        members = sum([1 async for _ in members_of_workspace(mongo, workspace, session)])
        invites = await mongo.find(INVITES, rows_of_workspace(workspace), projection={"_id": 1}, session=session)
        return {WorkspaceField.MEMBER_COUNT: members, WorkspaceField.INVITE_COUNT: len(invites)}


async def members_of_workspace(mongo: Mongo, workspace: WorkspaceId, session: Any = None) -> AsyncIterator[Document]:
    """Yield the rows of all members with their roles and times, by id. One round trip for each 2,000."""
    query = rows_of_workspace(workspace)
    fields = {WorkspaceMemberField.ROLES: 1, WorkspaceMemberField.JOINED_AT: 1}
    while True:
        rows = await mongo.find(WORKSPACE_MEMBERS, query, projection=fields, sort=BY_ID, limit=_ROWS, session=session)
        for row in rows:
            yield row
        if len(rows) < _ROWS:
            return
        query = {"_id": {"$gt": rows[-1]["_id"], "$lt": f"{workspace}!"}}

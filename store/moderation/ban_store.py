"""Bans in MongoDB: `bans` {_id: "<workspace or -> <user>", …} (ADR 96).

A ban that has ended by itself keeps its row until the user is banned or unbanned again. No reader returns it.

The row of a user also keeps a time-out that lasts longer than the membership, so that nobody ends one by leaving and
joining again. A row with a time-out only is no ban.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pymongo import DeleteMany, DeleteOne, UpdateMany, UpdateOne

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.moderation.ban import Ban
from store.mongo.client import Document, Mongo
from store.mongo.collections import BANS, REVOCATIONS, ban_row_id, bans_from
from store.mongo.index_fields import BY_ID
from store.users.revocation_store import revocation_write
from store.workspaces.changing.proposed_change import Operation, set_or_remove
from store.workspaces.policy import MemberFacts


class BanField:
    """Stored names of the fields of `bans`. Empty fields are left out."""

    BY = "b"
    REASON = "r"
    UNTIL = "t"
    """(ms)"""
    CREATED = "ct"
    """(ms)"""
    TIMED_OUT_UNTIL = "to"
    """End of a time-out that the user has again after joining (ms)."""


_F = BanField

Writes = Sequence[tuple[str, Sequence[Operation]]]
"""Collections, each with the operations on it."""


class BeforeJoining(NamedTuple):
    """Users who are banned from a workspace, and ends of time-outs (ms) that users have again after joining."""

    banned: list[UserId]
    timed_out_until_ms: dict[UserId, int]


class BanStore:
    """Reads bans, and makes the writes of changes. Bans from workspaces are changed through `PolicyChanges`."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find(self, workspace: WorkspaceId | None, user: UserId, now_ms: int) -> Ban | None:
        """Return the ban of a user that is in force. workspace: None: the whole deployment. One round trip."""
        row = await self._mongo.find_one(BANS, {"_id": ban_row_id(workspace, user)})
        ban = _ban_from(row) if row is not None and _F.BY in row else None
        return ban if ban is not None and ban.is_in_force(now_ms) else None

    async def list_banned(self, workspace: WorkspaceId, users: Sequence[UserId], now_ms: int) -> list[UserId]:
        """Return those of some users who are banned from a workspace. One round trip."""
        return (await self.find_for_joining(workspace, users, now_ms)).banned

    async def find_for_joining(
        self, workspace: WorkspaceId, users: Sequence[UserId], now_ms: int, session: Any = None
    ) -> BeforeJoining:
        """Return what prevents or limits some users who join a workspace. One round trip."""
        query = {"_id": {"$in": [ban_row_id(workspace, user) for user in users]}}
        found = BeforeJoining([], {})
        for row in await self._mongo.find(BANS, query, session=session):
            user = _user_of(row)
            if _F.BY in row and _ban_from(row).is_in_force(now_ms):
                found.banned.append(user)
            if row.get(_F.TIMED_OUT_UNTIL, 0) > now_ms:
                found.timed_out_until_ms[user] = row[_F.TIMED_OUT_UNTIL]
        return found

    def timeout_writes(self, workspace: WorkspaceId, members: Iterable[MemberFacts], now_ms: int) -> Writes:
        """Return the writes that keep the time-outs of members whose memberships end, for a transaction."""
        kept = [
            UpdateOne(
                {"_id": ban_row_id(workspace, member.user)},
                {"$set": {_F.TIMED_OUT_UNTIL: member.timed_out_until_ms}},
                upsert=True,
            )
            for member in members
            if member.timed_out_until_ms > now_ms
        ]
        return [(BANS, kept)] if kept else []

    async def forget_timeouts(self, workspace: WorkspaceId, users: Iterable[UserId], session: Any) -> None:
        """Forget the kept time-outs of users who have joined, and have them as members again."""
        ids = [ban_row_id(workspace, user) for user in users]
        if ids:
            only: Document = {"_id": {"$in": ids}, _F.BY: {"$exists": False}}
            kept: Document = {"_id": {"$in": ids}}
            operations = [DeleteMany(only), UpdateMany(kept, {"$unset": {_F.TIMED_OUT_UNTIL: ""}})]
            await self._mongo.bulk_write(BANS, operations, session=session)

    async def list(self, workspace: WorkspaceId | None, after: UserId | None, limit: int, now_ms: int) -> list[Ban]:
        """Return bans that are in force, in the order of user ids, after a user. One round trip."""
        query = bans_from(workspace, after) | _in_force(now_ms)
        return [_ban_from(row) for row in await self._mongo.find(BANS, query, sort=BY_ID, limit=limit, hint=BY_ID)]

    def writes(self, ban: Ban) -> Writes:
        """Return the writes that store a ban in place of an earlier one of the same user, for a transaction."""
        update = set_or_remove(
            {
                _F.BY: ban.by,
                _F.REASON: ban.reason,
                _F.UNTIL: ban.until_ms,
                _F.CREATED: ban.created_at_ms,
            }
        )
        return [(BANS, [UpdateOne({"_id": ban_row_id(ban.workspace, ban.user)}, update, upsert=True)])]

    def removal_writes(self, workspace: WorkspaceId | None, user: UserId) -> Writes:
        """Return the writes that remove a ban, and a time-out that was kept, for a transaction."""
        return [(BANS, [DeleteOne({"_id": ban_row_id(workspace, user)})])]

    async def change_deployment(self, writes: Writes, *, revoked: tuple[UserId, int] | None = None) -> None:
        """Store changes of bans from the deployment, all or nothing. Raises Unreachable.

        revoked: A user, and the time (ms) before which tokens of that user were issued that are refused from now on.
        """

        async def work(session: Any) -> None:
            for collection, operations in writes:
                if operations:
                    await self._mongo.bulk_write(collection, operations, session=session)
            if revoked is not None:
                await self._mongo.bulk_write(REVOCATIONS, [revocation_write(*revoked)], session=session)

        await self._mongo.transaction(work)

    async def remove_some(self, workspace: WorkspaceId, limit: int) -> bool:
        """Delete some bans from a workspace. Return whether there were any."""
        rows = await self._mongo.find(BANS, bans_from(workspace, None), projection={"_id": 1}, limit=limit)
        if rows:
            await self._mongo.delete_ids(BANS, [row["_id"] for row in rows])
        return bool(rows)


def _in_force(now_ms: int) -> Document:
    return {_F.BY: {"$exists": True}, _F.UNTIL: {"$not": {"$lte": now_ms}}}


def _user_of(row: Document) -> UserId:
    return UserId(row["_id"].partition(" ")[2])


def _ban_from(row: Document) -> Ban:
    workspace = row["_id"].partition(" ")[0]
    return Ban(
        workspace=WorkspaceId(workspace) if workspace != "-" else None,
        user=_user_of(row),
        by=UserId(row[_F.BY]),
        created_at_ms=int(row[_F.CREATED]),
        until_ms=row.get(_F.UNTIL),
        reason=row.get(_F.REASON),
    )

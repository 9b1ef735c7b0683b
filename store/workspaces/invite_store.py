"""Invitations to workspaces. A code has the workspace's number, and 96 random bits (ADR 60).

Fields of a row of `invites` (`_id`: "<workspace> <secret>"), where times are in ms:
    by  the user who created it
    ct  when it was created
    x   when it expires; absent: never
    u   number of times that it was used
    m   how often it may be used; 0: without limit

The document of the workspace has the number of rows (`WorkspaceField.INVITE_COUNT`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from store.base.errors import Superseded
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id
from store.mongo.client import Document, Mongo
from store.mongo.collections import AUDIT, INVITES, WORKSPACES, rows_of_workspace, workspace_row_id
from store.workspaces.workspace_fields import WorkspaceField
from store.workspaces.workspace_store import existing

_SECRET_BYTES = 12
_CODE = re.compile(r"(?P<workspace>0|[1-9][0-9]{0,18})-(?P<secret>[A-Za-z0-9_-]{16})\Z")


class InviteCode(NamedTuple):
    """The parts of a code. The secret cannot be guessed."""

    workspace: WorkspaceId
    secret: str

    def __str__(self) -> str:
        """Return the code as the API has it."""
        return f"{self.workspace[2:]}-{self.secret}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the parts of a well-formed code."""
        found = _CODE.match(text)
        workspace = f"w_{found['workspace']}" if found else ""
        return cls(WorkspaceId(workspace), found["secret"]) if found and is_workspace_id(workspace) else None

    @classmethod
    def make(cls, workspace: WorkspaceId) -> Self:
        """Return a new code."""
        return cls(workspace, secrets.token_urlsafe(_SECRET_BYTES))

    @property
    def row_id(self) -> str:
        """The `_id` of its row."""
        return workspace_row_id(self.workspace, self.secret)


@dataclass(frozen=True, slots=True)
class InviteRecord:
    """An invitation. `expires_at_ms`: None: never. `max_uses`: 0: without limit."""

    code: InviteCode
    created_by: UserId
    created_at_ms: int
    expires_at_ms: int | None
    max_uses: int
    uses: int = 0

    def is_usable(self, now_ms: int) -> bool:
        """Return whether a user may join with it."""
        is_current = self.expires_at_ms is None or self.expires_at_ms > now_ms
        return is_current and not (self.max_uses and self.uses >= self.max_uses)


class TooManyInvites(Exception):
    """The workspace has as many codes as allowed."""


class InviteStore:
    """Invitations in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def insert(self, invite: InviteRecord, version: int, most: int, audit: Sequence[Document] = ()) -> None:
        """Store a new invitation. One awaited transaction; if there are too many, unusable ones are removed first.

        version: the policy version under which its creator may do this. audit: rows of the audit log.

        Raises TooManyInvites, and Superseded if there is another version now: nothing was stored.
        """
        try:
            await self._insert(invite, version, most, audit)
        except TooManyInvites:
            if not await self._remove_useless(invite.code.workspace, invite.created_at_ms):
                raise
            await self._insert(invite, version, most, audit)

    async def _insert(self, invite: InviteRecord, version: int, most: int, audit: Sequence[Document]) -> None:
        unchanged = existing(invite.code.workspace) | {WorkspaceField.POLICY_VERSION: version}

        async def work(session: Any) -> None:
            await self._mongo.insert_one(INVITES, _row_of(invite), session=session)
            if audit:
                await self._mongo.insert_many(AUDIT, audit, session=session)
            counted = {"$inc": {WorkspaceField.INVITE_COUNT: 1}}
            before = await self._mongo.find_one_and_update(WORKSPACES, unchanged, counted, session=session)
            if before is None:
                raise Superseded("the rights of the creator may have changed")
            if before.get(WorkspaceField.INVITE_COUNT, 0) >= most:
                raise TooManyInvites

        await self._mongo.transaction(work)

    async def find(self, code: InviteCode) -> InviteRecord | None:
        """Return an invitation, unusable ones too. One round trip."""
        row = await self._mongo.find_one(INVITES, {"_id": code.row_id})
        return _invite_from(row) if row is not None else None

    async def list_created(self, user: UserId, workspace: WorkspaceId) -> list[InviteRecord]:
        """Return the invitations of a workspace that a user created. Reads all of the workspace. One round trip."""
        rows = await self._mongo.find(INVITES, rows_of_workspace(workspace))
        return [invite for invite in map(_invite_from, rows) if invite.created_by == user]

    async def delete(self, code: InviteCode, version: int, audit: Sequence[Document] = ()) -> bool:
        """Remove an invitation. Return whether it was there. One awaited transaction.

        version: the policy version under which the caller may do this. audit: rows of the audit log. Raises Superseded
        if there is another version now.
        """
        unchanged = existing(code.workspace) | {WorkspaceField.POLICY_VERSION: version}
        return await self._delete(unchanged, [code.row_id], audit) > 0

    async def _remove_useless(self, workspace: WorkspaceId, now_ms: int) -> int:
        rows = await self._mongo.find(INVITES, rows_of_workspace(workspace))
        unusable = [row["_id"] for row in rows if not _invite_from(row).is_usable(now_ms)]
        return await self._delete(existing(workspace), unusable)

    async def _delete(self, workspace: Document, ids: list[str], audit: Sequence[Document] = ()) -> int:
        deleted = 0

        async def work(session: Any) -> None:
            nonlocal deleted
            deleted = await self._mongo.delete_ids(INVITES, ids, session=session)
            if deleted and audit:
                await self._mongo.insert_many(AUDIT, audit, session=session)
            if deleted:
                counted = {"$inc": {WorkspaceField.INVITE_COUNT: -deleted}}
                if await self._mongo.find_one_and_update(WORKSPACES, workspace, counted, session=session) is None:
                    raise Superseded("the rights of the caller may have changed")

        if ids:
            await self._mongo.transaction(work)
        return deleted


def usable_filter(code: InviteCode, now_ms: int) -> dict[str, Any]:
    """Return the query for an invitation that a user may join with."""
    unlimited, unused = {"m": 0}, {"$expr": {"$lt": ["$u", "$m"]}}
    return {"_id": code.row_id, "$and": [{"$or": [unlimited, unused]}, {"$or": [{"x": None}, {"x": {"$gt": now_ms}}]}]}


def use_update() -> dict[str, Any]:
    """Return the update of an invitation that is used."""
    return {"$inc": {"u": 1}}


def _row_of(invite: InviteRecord) -> Document:
    row: Document = {
        "_id": invite.code.row_id,
        "by": invite.created_by,
        "ct": invite.created_at_ms,
        "u": invite.uses,
        "m": invite.max_uses,
    }
    return row | ({"x": invite.expires_at_ms} if invite.expires_at_ms is not None else {})


def _invite_from(row: Document) -> InviteRecord:
    workspace, _, secret = row["_id"].partition(" ")
    code = InviteCode(WorkspaceId(workspace), secret)
    return InviteRecord(code, UserId(row["by"]), row["ct"], row.get("x"), row["m"], row["u"])

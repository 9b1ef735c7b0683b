"""Removes the rows of deleted workspaces in the background, in small steps (ADR 60).

A deleted workspace keeps its document until everything else is removed, so any server can continue after any step: each
step reads what is left. Channels are removed with their messages and sessions, then the workspace. Every step may be
repeated.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.channels.channel_contents import ChannelContents
from store.content_rules.content_rules import ContentRules
from store.moderation.ban_store import BanStore
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    AUDIT,
    CHANNELS,
    INVITES,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    WORKSPACES_OF,
    rows_of_workspace,
)
from store.mongo.index_fields import BY_DELETION
from store.reports.report_store import ReportStore
from store.webhooks.webhook_store import WebhookStore
from store.workspaces import user_workspaces
from store.workspaces.workspace_fields import WorkspaceField

_log = structlog.get_logger()

GRACE_MS = 60_000
"""Time after the deletion before rows are removed: requests that had begun before have ended then."""

LEASE_MS = 30_000
"""Other processes continue the work of one that has done nothing for this time."""

_PAUSE_RATIO = 4.0
"""Seconds of pause for each second of work, so that servers can use the database."""

MEMBERS_PER_STEP = 50
ROWS_PER_STEP = 500


class WorkspaceRemoval:
    """Removes deleted workspaces, one at a time in each process."""

    def __init__(
        self,
        mongo: Mongo,
        clock: Clock,
        contents: ChannelContents,
        webhooks: WebhookStore,
        bans: BanStore,
        reports: ReportStore,
        content_rules: ContentRules,
    ) -> None:
        self._mongo = mongo
        self._bans = bans
        self._rules = content_rules
        self._webhooks = webhooks
        self._reports = reports
        self._clock = clock
        self._contents = contents

    async def run(self) -> int:
        """Remove all workspaces whose turn it is. Returns their number. Raises StoreError; may be repeated."""
        loop = asyncio.get_running_loop()
        removed = 0
        while (workspace := await self._claim()) is not None:
            while True:
                began = loop.time()
                if not await self.step(workspace):
                    break
                await asyncio.sleep(_PAUSE_RATIO * (loop.time() - began))
                if not await self._renew(workspace):
                    return removed
            _log.info("workspace_removed", workspace=workspace)
            removed += 1
        return removed

    async def step(self, workspace: WorkspaceId) -> bool:
        """Remove some rows of a deleted workspace. Return false if that was the last one, its own document."""
        if await self._remove_members(workspace):
            return True
        if await self._remove_rows(INVITES, workspace) or await self._remove_rows(AUDIT, workspace):
            return True
        if await self._bans.remove_some(workspace, ROWS_PER_STEP):
            return True
        if (channel := await self._first_channel(workspace)) is not None:
            if not await self._contents.remove_some(channel):
                await self._mongo.delete_one(CHANNELS, {"_id": f"{workspace} {channel}"})
            return True
        if await self._reports.remove_some(workspace, ROWS_PER_STEP):
            return True
        await self._webhooks.delete_of_workspace(workspace, self._clock.now_ms())
        await self._rules.remove(workspace)
        await self._mongo.delete_one(WORKSPACES, {"_id": workspace})
        return False

    async def _claim(self) -> WorkspaceId | None:
        """Return a deleted workspace that no other process works on."""
        now_ms = self._clock.now_ms()
        nothing_pending: Document = {"$in": [None, []]}
        due = {WorkspaceField.DELETED_AT: {"$lte": now_ms - GRACE_MS}, WorkspaceField.PENDING: nothing_pending}
        rows = await self._mongo.find(
            WORKSPACES, due, projection={"_id": 1}, sort=BY_DELETION, limit=10, hint=BY_DELETION
        )
        for row in rows:
            free = {"_id": row["_id"], WorkspaceField.REMOVED_UNTIL: {"$not": {"$gt": now_ms}}}
            if await self._mongo.update_one(WORKSPACES, free, self._lease(now_ms)):
                return WorkspaceId(row["_id"])
        return None

    async def _renew(self, workspace: WorkspaceId) -> bool:
        return await self._mongo.update_one(WORKSPACES, {"_id": workspace}, self._lease(self._clock.now_ms())) > 0

    def _lease(self, now_ms: int) -> Document:
        return {"$set": {WorkspaceField.REMOVED_UNTIL: now_ms + LEASE_MS}}

    async def _remove_members(self, workspace: WorkspaceId) -> bool:
        """Remove some members. Return whether there were any."""
        found: list[Document] = []

        async def work(session: Any) -> None:
            # Read in the transaction: of two processes that remove the same member, one repeats, and counts nothing.
            nonlocal found
            found = await self._mongo.find(
                WORKSPACE_MEMBERS,
                rows_of_workspace(workspace),
                projection={"_id": 1},
                limit=MEMBERS_PER_STEP,
                session=session,
            )
            users = [_second(row) for row in found]
            if users:
                ends = [write for user in users for write in user_workspaces.user_row_removals(UserId(user), workspace)]
                await self._mongo.bulk_write(WORKSPACES_OF, ends, session=session)
                await self._mongo.delete_ids(WORKSPACE_MEMBERS, [row["_id"] for row in found], session=session)

        rows = await self._mongo.find(
            WORKSPACE_MEMBERS, rows_of_workspace(workspace), projection={"_id": 1}, limit=MEMBERS_PER_STEP
        )
        if rows:
            await self._mongo.transaction(work)
        return bool(rows)

    async def _remove_rows(self, collection: str, workspace: WorkspaceId) -> bool:
        """Remove some rows of a collection. Return whether there were any."""
        query = rows_of_workspace(workspace)
        rows = await self._mongo.find(collection, query, projection={"_id": 1}, limit=ROWS_PER_STEP)
        if rows:
            await self._mongo.delete_ids(collection, [row["_id"] for row in rows])
        return bool(rows)

    async def _first_channel(self, workspace: WorkspaceId) -> ConversationId | None:
        rows = await self._mongo.find(CHANNELS, rows_of_workspace(workspace), projection={"_id": 1}, limit=1)
        return ConversationId(_second(rows[0])) if rows else None


def _second(row: Document) -> str:
    """Return the second part of the `_id` of a row."""
    return str(row["_id"]).partition(" ")[2]

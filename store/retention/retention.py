"""Lets messages expire: when the time of a workspace is set, and whenever messages become older (ADR 99)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.clock import Clock
from store.base.ids import ConversationId, ConversationKind
from store.base.workspace_ids import WorkspaceId
from store.conversations.conversation_fields import ConversationField
from store.mongo.client import Mongo
from store.mongo.collections import CHANNELS, CONVERSATIONS, WORKSPACES, rows_of_workspace
from store.mongo.index_fields import BY_OLDEST, BY_RETENTION_DUE
from store.retention.expired_rows import ExpiredRows
from store.retention.floor_store import FloorStore
from store.retention.floors import Floor, FloorFinder
from store.retention.session_floors import SessionFloors
from store.workspaces.workspace_fields import WorkspaceField

DAY_MS = 24 * 3600 * 1000

INTERVAL_SECONDS = 15.0
"""Time between two searches for messages that expire."""

_AGAIN_MS = 15_000
"""A workspace is not looked at again for this time, so that each search finds some messages at once."""

_WORKSPACES, _CONVERSATIONS = 20, 250
_KINDS = {ConversationKind.PRIVATE: "P", ConversationKind.GROUP: "G"}


class Retention:
    """Raises the floors of conversations in which messages have become older than their time.

    Threads have no floor: a thread exists as long as its parent message.
    """

    def __init__(
        self,
        mongo: Mongo,
        clock: Clock,
        finder: FloorFinder,
        floors: FloorStore,
        sessions: SessionFloors,
        expired: ExpiredRows,
        days: int,
    ) -> None:
        """Expire messages of private conversations and groups after some days; 0: never."""
        self._expired = expired
        self._mongo = mongo
        self._clock = clock
        self._finder = finder
        self._floors = floors
        self._sessions = sessions
        self._days = days

    async def apply_to_workspace(self, workspace: WorkspaceId) -> None:
        """Let the messages of a workspace expire that are older than its time.

        When this returns, no server shows them. Raises StoreError; the search continues then.
        """
        row = await self._mongo.find_one(WORKSPACES, {"_id": workspace})
        days = row.get(WorkspaceField.RETENTION_DAYS) if row is not None else None
        if days is None:
            return
        now_ms = self._clock.now_ms()
        rows = await self._mongo.find(CHANNELS, rows_of_workspace(workspace), projection={"_id": 1})
        channels = [ConversationId(row["_id"].partition(" ")[2]) for row in rows]
        floors = await self._finder.find_many(channels, now_ms - days * DAY_MS)
        await self._floors.raise_many({name: floor.place for name, floor in floors.items() if floor.is_raised})
        # A message that is sent from now on expires later than that.
        oldest_ms = min((f.oldest_ms for f in floors.values() if f.oldest_ms is not None), default=now_ms)
        due = max(min(oldest_ms, now_ms) + days * DAY_MS, now_ms + _AGAIN_MS)
        await self._mongo.update_one(
            WORKSPACES,
            {"_id": workspace, WorkspaceField.RETENTION_DAYS: days},
            {"$set": {WorkspaceField.RETENTION_DUE: due}},
        )

    async def expire_due(self) -> int:
        """Let messages expire wherever it is time, if no other server does. Returns the number of conversations.

        If nothing is due: one query for workspaces, and two for each kind of conversation that has a time. Raises
        StoreError; the next call continues.
        """
        if not await self._expired.lease_search():
            return 0
        raised = 0
        looked_at = set[WorkspaceId]()
        started_ms = self._clock.now_ms()
        # Each one that was looked at is due later than now.
        while found_now := [w for w in await self._find_due_workspaces(started_ms) if w not in looked_at]:
            for workspace in found_now:
                looked_at.add(workspace)
                await self.apply_to_workspace(workspace)
            raised += len(found_now)
            if not await self._expired.lease_search():
                return raised
        if self._days:
            for kind in _KINDS.values():
                while found := await self._find_due(kind):
                    await self._expire(found)
                    raised += len(found)
                    if not await self._expired.lease_search():
                        return raised
        return raised

    async def _find_due_workspaces(self, now_ms: int) -> list[WorkspaceId]:
        """Return some workspaces in which messages expire, those that are due longest first."""
        due = {WorkspaceField.RETENTION_DUE: {"$lte": now_ms}, WorkspaceField.DELETED_AT: None}
        rows = await self._mongo.find(
            WORKSPACES, due, projection={"_id": 1}, sort=BY_RETENTION_DUE, limit=_WORKSPACES, hint=BY_RETENTION_DUE
        )
        return [WorkspaceId(row["_id"]) for row in rows]

    async def _find_due(self, kind: str) -> list[ConversationId]:
        """Return conversations of a kind in which messages expire, or that were never looked at."""
        before_ms = self._clock.now_ms() - self._days * DAY_MS
        found: list[ConversationId] = []
        for condition in ({"$lt": before_ms}, None):
            query: dict[str, Any] = {ConversationField.KIND: kind, ConversationField.OLDEST_AT: condition}
            rows = await self._mongo.find(
                CONVERSATIONS, query, projection={"_id": 1}, limit=_CONVERSATIONS, hint=BY_OLDEST
            )
            found += [ConversationId(row["_id"]) for row in rows]
        return found

    async def _expire(self, conversations: Sequence[ConversationId]) -> None:
        now_ms = self._clock.now_ms()
        floors = await self._finder.find_many(conversations, now_ms - self._days * DAY_MS)
        raised = {name: floor.place for name, floor in floors.items() if floor.is_raised}
        await self._floors.raise_many(raised)
        await self._sessions.apply(list(raised))
        await self._save_oldest(floors, now_ms)

    async def _save_oldest(self, floors: Mapping[ConversationId, Floor], now_ms: int) -> None:
        """Store when each conversation is due again. Last: a server that continues after another one finds them."""
        updates = []
        for name, floor in floors.items():
            # A message that is sent from now on is later.
            oldest_ms = floor.oldest_ms if floor.oldest_ms is not None else now_ms
            updates.append(UpdateOne({"_id": name}, {"$set": {ConversationField.OLDEST_AT: oldest_ms}}))
        if updates:
            await self._mongo.bulk_write(CONVERSATIONS, updates)

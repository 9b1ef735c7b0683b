"""Removes what is expired in the background (ADR 99).

A row in `expired` is stored before a floor is raised, and is removed after the last message up to the floor. Each step
reads what is left, so any server can continue after any step.
"""

from __future__ import annotations

import asyncio

import structlog

from store.base.ids import ConversationId
from store.conversations.conversation_fields import ConversationField
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS
from store.retention.expired_messages import ExpiredMessages
from store.retention.expired_rows import ExpiredRow, ExpiredRows
from store.retention.floor_store import FloorStore
from store.retention.session_floors import SessionFloors
from store.sessions.session_lists import is_channel

_log = structlog.get_logger()

_PAUSE_RATIO = 4.0
"""Seconds of pause for each second of work, so that servers can use the database."""


class ExpiredRemoval:
    """Removes the expired messages of conversations, one at a time in each process."""

    def __init__(
        self,
        mongo: Mongo,
        rows: ExpiredRows,
        floors: FloorStore,
        sessions: SessionFloors,
        messages: ExpiredMessages,
        *,
        pause_ratio: float = _PAUSE_RATIO,
    ) -> None:
        self._mongo = mongo
        self._rows = rows
        self._floors = floors
        self._sessions = sessions
        self._messages = messages
        self._pause_ratio = pause_ratio

    async def run(self) -> int:
        """Remove expired messages of all conversations that are due. Return the number of conversations.

        Raises StoreError; may be repeated.
        """
        removed = 0
        while (row := await self._rows.claim()) is not None:
            await self._remove(row)
            removed += 1
        return removed

    async def _remove(self, row: ExpiredRow) -> None:
        name, loop = row.conversation, asyncio.get_running_loop()
        # A server may have died after it had raised the floor in MongoDB.
        await self._floors.raise_in_redis([name])
        if not is_channel(name):
            await self._sessions.apply([name])
        head = await self._find_head(name)
        while head is not None and ConversationField.FLOOR_SEQ in head:
            began = loop.time()
            if not await self._messages.remove_some(head):
                break
            await self._rows.renew(row)
            await asyncio.sleep(self._pause_ratio * (loop.time() - began))
        if head is not None and ConversationField.FLOOR_SEQ in head and not is_channel(name):
            await self._messages.remove_receipts(name, head[ConversationField.FLOOR_SEQ])
        await self._rows.remove(row)
        _log.info("expired_messages_removed", conversation=name)

    async def _find_head(self, conversation: ConversationId) -> Document | None:
        fields = (ConversationField.FLOOR_SEQ, ConversationField.FLOOR_N)
        rows = await self._mongo.find(CONVERSATIONS, {"_id": conversation}, projection=dict.fromkeys(fields, 1))
        return rows[0] if rows else None

"""Hints that a room may have changed. They go to the server that owns its workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from resolvers.voice.media.owned_states import ring_key
from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.base.tasks import end_tasks
from store.base.workspace_ids import workspace_of_channel
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.realtime.server_calls import ServerCalls

_log = structlog.get_logger(__name__)

_QUESTION = "voice_rooms"

SECONDS_BETWEEN = 0.25
"""Time between two frames with hints of this server."""

MOST_CHANNELS = 1_000
"""Channels with hints that wait. More hints are dropped."""


class RoomHints:
    """Sends hints about channels to their owners: many at once, and those about one channel together.

    A hint may be lost. Each room is looked at once a minute without hints too.
    """

    def __init__(
        self,
        ring: ServerRing,
        calls: ServerCalls,
        note: Callable[[ConversationId], None],
    ) -> None:
        """note: takes the hints about channels of this server."""
        self._ring = ring
        self._note = note
        self._waiting: set[ConversationId] = set()
        self._task: asyncio.Task[None] | None = None
        calls.answer_kind(_QUESTION, self._answer)

    def send(self, channel: ConversationId) -> None:
        """Send a hint soon. Returns at once."""
        if len(self._waiting) < MOST_CHANNELS:
            self._waiting.add(channel)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_all())

    async def close(self) -> None:
        """Stop. Hints that wait are dropped."""
        if self._task is not None:
            await end_tasks([self._task])

    async def _send_all(self) -> None:
        while self._waiting:
            by_owner: dict[str, list[ConversationId]] = {}
            for channel in self._waiting:
                owner = self._ring.owner_of(ring_key(workspace_of_channel(channel)))
                by_owner.setdefault(owner, []).append(channel)
            self._waiting.clear()
            for owner, channels in by_owner.items():
                try:
                    await self._ring.ask(owner, {_QUESTION: channels})
                except Unreachable as error:
                    _log.info("voice_hints_lost", channels=len(channels), reason=str(error))
            await asyncio.sleep(SECONDS_BETWEEN)

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        for channel in question[_QUESTION]:
            self._note(channel)
        return {}

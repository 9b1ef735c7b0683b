"""Viewers of channels: whether a visible user looks at a channel, on any server (ADR 81)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId
from store.base.tasks import end_tasks
from store.presence.visibility import Visibility
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.ring.server_ring import ServerRing

_QUESTION = "channel_viewers"

ANSWER_SECONDS = 0.3
"""Time in which other servers answer. Without a visible viewer the answer takes exactly this time.

So it does not tell whether another server has a viewer, who would be INVISIBLE.
"""

_VIEWERS_AT_ONCE = 32
"""Viewers whose presence is read first. Usually one of them is visible."""

ListViewers = Callable[[ConversationId, UserId], Collection[UserId]]
"""Returns the users on this process who look at a channel and see it, without a user."""


class ChannelViewers:
    """Finds out whether a visible user looks at a channel, or at a thread in one."""

    def __init__(self, visibility: Visibility, bus: Bus, ring: ServerRing, list_here: ListViewers) -> None:
        """Begin to answer other servers. `list_here` must not block."""
        self._visibility = visibility
        self._bus = bus
        self._ring = ring
        self._list_here = list_here
        bus.calls.answer_kind(_QUESTION, self._answer)

    def sample(self, channel: ConversationId, user: UserId) -> Sequence[UserId]:
        """Return some viewers on this process without a user, whose presence `is_any_visible` takes."""
        return tuple(islice(self._list_here(channel, user), _VIEWERS_AT_ONCE))

    async def is_any_visible(
        self,
        channel: ConversationId,
        user: UserId,
        presences: Mapping[UserId, Sequence[bytes]],
        servers: Collection[str],
    ) -> bool:
        """Return whether a visible user looks at a channel.

        Args:
            channel: The channel.
            user: A user who does not count.
            presences: The presence of the sample.
            servers: Those that look at the workspace.

        Raises:
            StoreError: A database is unavailable.
        """
        if await self._visibility.is_any_visible(presences):
            return True
        others = [viewer for viewer in self._list_here(channel, user) if viewer not in presences]
        if others and await self._visibility.find_any_visible(others):
            return True
        other_servers = [server for server in servers if server != self._ring.server]
        if self._ring.is_alone and not other_servers:
            return False
        return await self._ask(other_servers, channel, user)

    async def _ask(self, servers: Collection[str], channel: ConversationId, user: UserId) -> bool:
        pending = {asyncio.create_task(self._ask_one(server, channel, user)) for server in servers}
        # Ends when the time is over.
        timer = asyncio.create_task(asyncio.sleep(ANSWER_SECONDS, False))
        pending.add(timer)
        try:
            while not timer.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() for task in done):
                    return True
            return False
        finally:
            await end_tasks(pending)

    async def _ask_one(self, server: str, channel: ConversationId, user: UserId) -> bool:
        with suppress(StoreError):
            question = {_QUESTION: [channel, user]}
            answer = await self._bus.calls.ask(server, question, timeout_seconds=ANSWER_SECONDS)
            return bool(answer["has_viewer"])
        return False

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        channel, user = question[_QUESTION]
        viewers = tuple(self._list_here(channel, user))
        return {"has_viewer": await self._visibility.find_any_visible(viewers)}

"""Changes of blocks, on all servers (ADR 95)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from store.base.ids import UserId
from store.blocks.block_rows import Block
from store.blocks.block_store import ChangedBlock
from subscriptions.realtime.bus import Bus

_FRAME = "block"


class BlockChanges:
    """Announces changes to all servers, and calls listeners in this process for changes of all servers."""

    def __init__(self, bus: Bus) -> None:
        """Listen to the bus."""
        self._bus = bus
        self._listeners: list[Callable[[ChangedBlock], None]] = []
        bus.on_frame(_FRAME, self._receive)

    def listen(self, call: Callable[[ChangedBlock], None]) -> None:
        """Call `call` with each change, at least once, in any order. It must not block. Frames may get lost."""
        self._listeners.append(call)

    async def announce(self, changed: ChangedBlock) -> None:
        """Notify this process, then all servers. They get the change before later events.

        Raises Unreachable: some servers may not know it.
        """
        block = changed.block
        times = [block.at_ms, block.seen_ms] if block is not None else None
        body = [changed.blocker, changed.user, changed.revision, times]
        self._receive(body)
        await self._bus.notify_all(_FRAME, body)

    def _receive(self, body: Any) -> None:
        blocker, user, revision, times, *_ = body
        block = Block(UserId(user), *times) if times is not None else None
        change = ChangedBlock(UserId(blocker), UserId(user), revision, block)
        for call in self._listeners:
            call(change)

"""The fan-out of several messages in one round trip to Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from store.redis.cache import Call
from store.sessions.apply_messages import FanoutCalls, FanoutResult, Run
from store.store import Store
from subscriptions.delivery.recipients import RecipientSlice

SliceResult = tuple[Sequence[FanoutResult], FanoutResult]
"""The effects of a slice's membership updates, in order, and of its message."""


class FanoutBatch:
    """Slices of recipients of messages, applied in the given order: a slice's membership updates before its message."""

    def __init__(self, store: Store, slices: Sequence[RecipientSlice]) -> None:
        self._calls = FanoutCalls(store.cache, store.clock.now_ms())
        self.results: list[SliceResult] = []
        """For each slice; filled in by `run`."""
        for part in slices:
            updates = [self._calls.add_change(update.change, update.user) for update in part.updates]
            self.results.append((updates, self._calls.add_message(part.message_delta())))

    async def run(self, run: Run, first: Sequence[Call] = ()) -> list[Any]:
        """Apply all slices: see `FanoutCalls.run`."""
        return await self._calls.run(run, first)

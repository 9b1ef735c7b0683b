"""The fan-out of several messages in one round trip to Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from store.base.ids import UserId
from store.redis.cache import Call
from store.sessions.apply_messages import FanoutCalls, FanoutResult, Run
from store.store import Store
from subscriptions.delivery.recipients import RecipientSlice


class SliceResult(NamedTuple):
    """The effects of a slice's membership updates, in order, of its message, and of the notice to `notified`."""

    updates: Sequence[FanoutResult]
    message: FanoutResult
    notice: FanoutResult


class FanoutBatch:
    """Slices of recipients of messages, applied in the given order.

    In each slice membership updates come first, then the message, then the notice.
    """

    def __init__(self, store: Store, slices: Sequence[RecipientSlice]) -> None:
        self._calls = FanoutCalls(store.cache, store.clock.now_ms())
        self.results: list[SliceResult] = []
        """For each slice; filled in by `run`."""
        for part in slices:
            updates = [self._calls.add_change(update.change, (update.user,)) for update in part.updates]
            message = self._calls.add_message(part.message_delta())
            notice = self._calls.add_change(part.notice(), part.notified) if part.notified else FanoutResult()
            self.results.append(SliceResult(updates, message, notice))

    @property
    def unreached(self) -> Sequence[UserId]:
        """Users whose shard of Redis did not answer: see `FanoutCalls.unreached`."""
        return self._calls.unreached

    async def run(self, run: Run, first: Sequence[Call] = ()) -> list[Any]:
        """Apply all slices: see `FanoutCalls.run`."""
        return await self._calls.run(run, first)

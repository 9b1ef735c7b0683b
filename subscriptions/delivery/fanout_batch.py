"""The fan-out of several messages in one round trip to Redis."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from store.redis.cache import Call
from store.sessions.apply_messages import ApplyMessages, FanoutResult
from store.store import Store
from subscriptions.delivery.recipients import RecipientSlice

_MESSAGES_PER_CALL = 32
"""Messages that one call applies to a user at most: Redis does nothing else meanwhile."""


class FanoutBatch:
    """Slices of recipients of messages, applied in the given order.

    The messages of one conversation share calls, unless one of them changes memberships. Then each message is applied
    alone: after its own membership updates, and before those of the next.
    """

    def __init__(self, store: Store, slices: Sequence[RecipientSlice]) -> None:
        self._slices = slices
        self._steps: list[tuple[Sequence[int], int, ApplyMessages]] = []
        """The numbers of the slices that a step applies, the number of its membership updates, and its messages."""
        self.calls: list[Call] = []
        """The calls, to be made in this order. `read` takes their answers."""
        now = store.clock.now_ms()
        for numbers in self._group():
            updates = [update for number in numbers for update in slices[number].updates]
            apply = ApplyMessages(store.keys, now, [slices[number].message_delta() for number in numbers])
            self._steps.append((numbers, len(updates), apply))
            self.calls += [update.call(store) for update in updates] + apply.calls()

    def _group(self) -> list[list[int]]:
        """Return the numbers of the slices that are applied together."""
        apart = {part.conversation for part in self._slices if part.updates}
        groups: dict[Hashable, list[int]] = {}
        counts: dict[Hashable, int] = {}
        for number, part in enumerate(self._slices):
            place = counts.get(part.conversation, 0)
            counts[part.conversation] = place + 1
            group = place if part.conversation in apart else place // _MESSAGES_PER_CALL
            groups.setdefault((part.conversation, group), []).append(number)
        return list(groups.values())

    def read(self, answers: Sequence[Any]) -> list[tuple[Sequence[Any], FanoutResult]]:
        """Return for each slice the answers to its membership updates, in their order, and what its message changed."""
        results: list[tuple[Sequence[Any], FanoutResult]] = [((), FanoutResult())] * len(self._slices)
        start = 0
        for numbers, updates, apply in self._steps:
            first = start + updates
            applied = apply.read(answers[first : first + apply.size])
            for number, result in zip(numbers, applied, strict=True):
                # A slice with updates is alone in its step.
                results[number] = (answers[start:first], result)
            start = first + apply.size
        return results

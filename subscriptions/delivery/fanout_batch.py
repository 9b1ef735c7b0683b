"""The fan-out of several messages in one round trip to Redis."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from store.redis.cache import Call
from store.sessions.apply_messages import FanoutResult, MessageApplier
from store.store import Store
from subscriptions.delivery.recipients import RecipientSlice

_MESSAGES_PER_CALL = 32
"""Largest number of messages that one call applies to a user: Redis executes nothing else at the same time."""


class FanoutBatch:
    """Slices of recipients of messages, applied in the given order.

    The messages of one conversation share calls, unless one of them changes memberships. Then each message is applied
    alone: after its own membership updates, and before those of the next.
    """

    def __init__(self, store: Store, slices: Sequence[RecipientSlice]) -> None:
        self._slices = slices
        self._steps: list[tuple[Sequence[int], int, MessageApplier]] = []
        """The numbers of the slices that a step applies, the number of its membership updates, and its messages."""
        self.calls: list[Call] = []
        """The calls, to be made in this order. `read` parses their answers."""
        now = store.clock.now_ms()
        for numbers in self._group():
            updates = [update for number in numbers for update in slices[number].updates]
            applier = MessageApplier(store.keys, now, [slices[number].message_delta() for number in numbers])
            self._steps.append((numbers, len(updates), applier))
            self.calls += [update.call(store) for update in updates] + applier.calls()

    def _group(self) -> list[list[int]]:
        """Return the numbers of the slices that are applied together."""
        with_updates = {part.conversation for part in self._slices if part.updates}
        groups: dict[Hashable, list[int]] = {}
        counts: dict[Hashable, int] = {}
        for number, part in enumerate(self._slices):
            index = counts.get(part.conversation, 0)
            counts[part.conversation] = index + 1
            group = index if part.conversation in with_updates else index // _MESSAGES_PER_CALL
            groups.setdefault((part.conversation, group), []).append(number)
        return list(groups.values())

    def read(self, answers: Sequence[Any]) -> list[tuple[Sequence[Any], FanoutResult]]:
        """Return for each slice the answers to its membership updates, in order, and the result of its message."""
        results: list[tuple[Sequence[Any], FanoutResult]] = [((), FanoutResult())] * len(self._slices)
        start = 0
        for numbers, updates, applier in self._steps:
            first = start + updates
            applied = applier.read(answers[first : first + applier.size])
            for number, result in zip(numbers, applied, strict=True):
                # A slice with updates is alone in its step.
                results[number] = (answers[start:first], result)
            start = first + applier.size
        return results

"""What is done in one round trip to the states of those whom several messages reach."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from store.redis.cache import Call
from store.sessions.apply_messages import ApplyMessages, FanoutResult
from store.store import Store
from subscriptions.delivery.recipients import RecipientSlice

_AT_ONCE = 32
"""Messages that go to a user in one call: Redis does nothing else meanwhile."""


class FanoutBatch:
    """Parts of messages, in the order they are to be shown in. Those of one conversation are shown together, unless one of them does
    more than that: then each comes after what it does, and before what the next does."""

    def __init__(self, store: Store, parts: Sequence[RecipientSlice]) -> None:
        self._parts = parts
        self._steps: list[tuple[Sequence[int], int, ApplyMessages]] = []
        self.calls: list[Call] = []
        """To be made in this order. `read` reads what they answer."""
        now = store.clock.now_ms()
        for numbers in self._together():
            effects = [effect for number in numbers for effect in parts[number].effects]
            showing = ApplyMessages(store.keys, now, [parts[number].show for number in numbers])
            self._steps.append((numbers, len(effects), showing))
            self.calls += [effect.call(store) for effect in effects] + showing.calls()

    def _together(self) -> list[list[int]]:
        apart = {part.conversation for part in self._parts if part.effects}
        together: dict[Hashable, list[int]] = {}
        seen: dict[Hashable, int] = {}
        for number, part in enumerate(self._parts):
            place = seen[part.conversation] = seen.get(part.conversation, -1) + 1
            key = place if part.conversation in apart else place // _AT_ONCE
            together.setdefault((part.conversation, key), []).append(number)
        return list(together.values())

    def read(self, answers: Sequence[Any]) -> list[tuple[Sequence[Any], FanoutResult]]:
        """For each part what its effects answered, in their order, and what became of its message."""
        results: list[tuple[Sequence[Any], FanoutResult]] = [((), FanoutResult())] * len(self._parts)
        start = 0
        for numbers, effects, showing in self._steps:
            first = start + effects
            those = showing.read(answers[first : first + showing.size])
            for number, shown in zip(numbers, those, strict=True):
                # Where there are effects, the part is alone.
                results[number] = (answers[start:first], shown)
            start = first + showing.size
        return results

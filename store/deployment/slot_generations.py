"""The generation of each slot of a Redis Cluster (ADR 105).

Stored form in the row of the deployment: the field `slots`, a document with `gen`, the generation with which it was
written, and `starts`: [first slot, generation] of each range of slots, in order. The field is ignored in two cases:

- Its `gen` is not that of the row. A generation for all slots began afterwards: servers that do not know the field
  begin one without changing the field.
- Only servers that do not know the field have run lately. They have used the newest generation for all slots.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Any

from store.redis.keys import SLOTS

MOST_RANGES = 1_000
"""Largest number of ranges with different generations. Instead of more, a generation begins for all slots."""

_OUTDATED_AFTER_MS = 10_000
"""Greatest difference between `seen` and `noted` while servers that know the field `slots` run."""


def is_outdated(row: Mapping[str, Any]) -> bool:
    """Return whether only servers that do not know the field `slots` have run lately."""
    return bool(row.get("seen", 0) - row.get("noted", row.get("seen", 0)) > _OUTDATED_AFTER_MS)


class SlotGenerations:
    """The generations of all slots at one moment. Immutable."""

    __slots__ = ("_by_slot",)

    def __init__(self, by_slot: tuple[int, ...]) -> None:
        """by_slot: the generation of each slot."""
        self._by_slot = by_slot

    @classmethod
    def uniform(cls, generation: int) -> SlotGenerations:
        """Return the state in which all slots have one generation."""
        return cls((generation,) * SLOTS)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> SlotGenerations:
        """Return the state in the row of the deployment."""
        generation, stored = row.get("gen", 0), row.get("slots")
        if stored is None or stored["gen"] != generation or is_outdated(row):
            return cls.uniform(generation)
        starts = [(first, number) for first, number in stored["starts"]]
        by_slot: list[int] = []
        for (first, number), (end, _) in zip(starts, [*starts[1:], (SLOTS, 0)], strict=True):
            by_slot += [number] * (end - first)
        return cls(tuple(by_slot))

    def begin(self, slots: Collection[int], generation: int) -> SlotGenerations:
        """Return the state after a generation has begun for some slots."""
        chosen = frozenset(slots)
        return SlotGenerations(tuple(generation if s in chosen else n for s, n in enumerate(self._by_slot)))

    def to_field(self, generation: int) -> dict[str, Any] | None:
        """Return the stored form, written with a generation; None if there would be too many ranges."""
        starts: list[list[int]] = []
        first = 0
        for number, slots in groupby(self._by_slot):
            starts.append([first, number])
            first += sum(1 for _ in slots)
        return {"gen": generation, "starts": starts} if len(starts) <= MOST_RANGES else None

    def of(self, slot: int) -> int:
        """Return the generation of a slot."""
        return self._by_slot[slot]

    def by_slot(self, newest: int) -> tuple[int, ...] | None:
        """Return the generation of each slot; None if all have the newest one."""
        return None if set(self._by_slot) == {newest} else self._by_slot

"""The generation of each slot of a Redis Cluster (ADR 105).

Stored form in the row of the deployment: the field `slots`, a document with `gen`, the generation with which it was
written, and `starts`: [first slot, generation] of each range of slots, in order. If `gen` is not the row's own
generation, a whole generation began afterwards, and the field has no meaning: so a server of a version that does not
know the field can begin one. Nor has it a meaning if only servers of such a version have run meanwhile: they have used
the newest generation for all slots.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Any

from store.redis.keys import SLOTS

MOST_RANGES = 1_000
"""Ranges of slots that may have different generations. If there would be more, a generation begins for all slots."""


_OLDER_ALONE_MS = 10_000


def is_outdated(row: Mapping[str, Any]) -> bool:
    """Return whether only servers that do not know the field have run lately: they write `seen` without `noted`."""
    return bool(row.get("seen", 0) - row.get("noted", row.get("seen", 0)) > _OLDER_ALONE_MS)


class SlotGenerations:
    """The generations of all slots at one moment. Immutable."""

    __slots__ = ("_by_slot",)

    def __init__(self, by_slot: tuple[int, ...]) -> None:
        """Take the generation of each slot."""
        self._by_slot = by_slot

    @classmethod
    def equal(cls, generation: int) -> SlotGenerations:
        """Return the state in which all slots have one generation."""
        return cls((generation,) * SLOTS)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> SlotGenerations:
        """Return the state in the row of the deployment."""
        generation, stored = row.get("gen", 0), row.get("slots")
        if stored is None or stored["gen"] != generation or is_outdated(row):
            return cls.equal(generation)
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

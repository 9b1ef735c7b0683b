"""What a run finds out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

DATABASES = ("mongo", "redis")
PROCESSES = ("server", *DATABASES)


@dataclass
class Figures:
    """One operation of one contestant. Times in seconds; None: not measured, or without meaning here."""

    scenario: str
    """Its key; with `size`, what is measured."""
    contestant: str
    size: int | None = None
    """What the operation grows with: members, sessions."""
    rate: float | None = None
    """Operations a second at saturation."""
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    """Until the answer, at half that rate; of operations that are made alone, alone."""
    delivered_p50: float | None = None
    delivered_p99: float | None = None
    """From the sending of a message until a subscriber had it, likewise."""
    cpu: dict[str, float] = field(default_factory=dict)
    """CPU an operation, by process (PROCESSES)."""
    per: int = 1
    """Deliveries an operation: what its CPU is divided by where that says more."""
    trips: tuple[int, int] | None = None
    """Round trips an operation waits for, to MongoDB and to Redis, when it is alone."""
    size_bytes: float | None = None
    """Of the answer."""
    count: int = 0
    """Operations that were measured."""
    more: dict[str, float] = field(default_factory=dict)

    @property
    def cpu_all(self) -> float:
        """CPU an operation, of all processes."""
        return sum(self.cpu.values())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Figures:
        trips = value["trips"]
        return cls(**{**value, "trips": None if trips is None else tuple(trips)})


@dataclass(frozen=True, slots=True)
class Topic:
    """How the figures of a scenario are told."""

    key: str
    title: str
    grows_with: str = ""
    """What `size` counts."""
    note: str = ""

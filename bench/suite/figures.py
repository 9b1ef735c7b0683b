"""The results of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

DATABASES = ("mongo", "redis")
PROCESSES = ("server", *DATABASES)


@dataclass
class Figures:
    """One operation of one server. Times in seconds; None: not measured, or without meaning here."""

    scenario: str
    """Its key. With `size` it identifies the measurement."""
    contestant: str
    size: int | None = None
    """The quantity that the operation grows with: members, sessions."""
    rate: float | None = None
    """Operations a second at saturation."""
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    """Until the answer, at half that rate; alone for operations that are measured alone."""
    delivered_p50: float | None = None
    delivered_p99: float | None = None
    """From sending a message until a subscriber has it, likewise."""
    cpu: dict[str, float] = field(default_factory=dict)
    """CPU per operation, by process (PROCESSES)."""
    per: int = 1
    """Deliveries per operation: the divisor of its CPU if that is more useful."""
    trips: tuple[int, int] | None = None
    """Round trips an operation waits for, to MongoDB and to Redis, when it is alone."""
    size_bytes: float | None = None
    """Size of the answer."""
    count: int = 0
    """Number of measured operations."""
    more: dict[str, float] = field(default_factory=dict)

    @property
    def cpu_all(self) -> float:
        """Return the CPU per operation, of all processes."""
        return sum(self.cpu.values())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Figures:
        trips = value["trips"]
        return cls(**{**value, "trips": None if trips is None else tuple(trips)})


@dataclass(frozen=True, slots=True)
class Topic:
    """The presentation of a scenario's figures."""

    key: str
    title: str
    grows_with: str = ""
    """The unit of `size`."""
    note: str = ""

"""Work that no request waits for. Its round trips to the databases are counted apart."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

_is_background: ContextVar[bool] = ContextVar("is_background", default=False)


class RoundTrips(Protocol):
    """Counts the round trips that callers wait for, and the others."""

    trips: int
    background_trips: int


def mark_as_background() -> None:
    """Note that no request waits for the work of this task, and of tasks that it starts."""
    _is_background.set(True)


def count_trips(counters: RoundTrips, number: int = 1) -> None:
    """Count round trips of this task."""
    if _is_background.get():
        counters.background_trips += number
    else:
        counters.trips += number

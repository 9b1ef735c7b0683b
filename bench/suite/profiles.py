"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """Of a run. Times in seconds."""

    name: str
    rounds: int
    """How often each contestant has its turn."""
    seconds: float
    """At saturation, a turn."""
    half_seconds: float
    """At half of it, once."""
    lone: int
    """Messages that are sent alone."""
    groups: tuple[int, ...]
    baseline_group: int
    """The largest group that the baseline is asked to tell."""
    sessions: tuple[int, ...]
    connections: int
    rest_seconds: float


QUICK = Profile(
    name="quick",
    rounds=2,
    seconds=1.0,
    half_seconds=1.2,
    lone=50,
    groups=(200, 1_000),
    baseline_group=1_000,
    sessions=(50, 1_000, 7_000),
    connections=2_000,
    rest_seconds=6.0,
)

FULL = Profile(
    name="full",
    rounds=4,
    seconds=3.0,
    half_seconds=5.0,
    lone=200,
    groups=(200, 1_000, 5_000),
    baseline_group=5_000,
    sessions=(50, 1_000, 7_000),
    connections=2_000,
    rest_seconds=30.0,
)

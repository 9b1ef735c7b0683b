"""The amount of measuring."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """The parameters of a run. Times in seconds."""

    name: str
    rounds: int
    """Turns of each server."""
    seconds: float
    """Duration of a turn at saturation."""
    half_seconds: float
    """Duration of the one turn at half the rate."""
    lone_rounds: int
    lone: int
    """Turns with lone requests, and the number of requests in one."""
    groups: tuple[int, ...]
    sessions: tuple[int, ...]
    owners: int
    """Users with each number of sessions."""
    connections: tuple[int, ...]
    rest_seconds: float


QUICK = Profile(
    name="quick",
    rounds=3,
    seconds=1.0,
    half_seconds=1.2,
    lone_rounds=5,
    lone=16,
    groups=(200,),
    sessions=(1_000, 7_000),
    owners=3,
    connections=(1_000,),
    rest_seconds=25.0,
)

FULL = Profile(
    name="full",
    rounds=4,
    seconds=3.0,
    half_seconds=5.0,
    lone_rounds=9,
    lone=30,
    groups=(200, 1_000, 5_000),
    sessions=(50, 1_000, 7_000),
    owners=3,
    connections=(1_000,),
    rest_seconds=30.0,
)

GROWTH = Profile(
    name="growth",
    rounds=2,
    seconds=1.0,
    half_seconds=1.0,
    lone_rounds=5,
    lone=8,
    groups=(20, 200, 1_000, 5_000),
    sessions=(50, 1_000, 7_000, 50_000),
    owners=1,
    connections=(1_000, 10_000),
    rest_seconds=50.0,
)

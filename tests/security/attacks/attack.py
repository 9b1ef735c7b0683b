"""One attack on a server: its program, its strength, and the limits within which the server must hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.security.attacks.attacker import Attacker
from tests.security.attacks.world import World

Json = dict[str, Any]
Prepare = Callable[[World], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that hold for both forms of an attack. None: no bound."""

    codes: frozenset[str] | None = None
    """The only codes and statuses with which the attacker may be answered."""
    refused_with: str | None = None
    """A code that the attacker must get at least once."""
    answer_bytes: int | None = None
    """The largest answer."""
    cpu_ms: float | None = None
    """CPU time of the server for each request of the attacker, on a quiet machine. The short form allows more."""
    kept_mb: float = 60.0
    """Growth of the server's memory that stays after the attack."""
    peak_mb: float = 250.0
    """Growth of the server's memory during the attack."""
    open_after: int | None = None
    """The attacker's connections that are still open at the end of the attack."""


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack, bounded in count and time."""

    summary: str
    run: Callable[[Attacker], Awaitable[None]]
    """The program, in a process of its own."""
    full: int
    """Number of requests, connections or subscriptions. Their kind depends on the attack."""
    short: int
    """The number in the short form."""
    rate: float = 50.0
    """Requests a second. The short form does not wait."""
    prepare: Prepare | None = None
    """Creates the state that the attack needs. Its result is `given` of the attacker."""
    limits: Limits = Limits()
    max_files: int | None = None
    """Limit on open files of the server in the long form."""
    has_key_set: bool = False
    """In the long form, the server takes its keys from an identity provider, which it may ask once in ten seconds."""
    short_seconds: float = 10.0
    """Longest time of the short form. Only a very busy machine needs all of it."""
    extra_seconds: float = 0.0
    """Time in addition to that of the other attacks in the long form."""

"""Heads that arrive one byte a second."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.connections.slow_bytes import run_slowly


async def run(attacker: Attacker) -> None:
    await run_slowly(attacker, b"GET /graphql HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ", b"x")


ATTACK = Attack(
    "600 heads of a byte a second",
    run,
    full=600,
    short=60,
    short_seconds=3,
    rate=300,
    limits=Limits(open_after=0),
    extra_seconds=15,
)

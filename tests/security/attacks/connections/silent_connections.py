"""Connections that send nothing at all."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.connections.slow_bytes import run_slowly


async def run(attacker: Attacker) -> None:
    await run_slowly(attacker, b"", b"")


ATTACK = Attack(
    "1,100 silent connections, ulimit 1024",
    run,
    full=1_100,
    short=100,
    short_seconds=3,
    rate=400,
    limits=Limits(open_after=0),
    max_files=1_024,
    extra_seconds=35,
)

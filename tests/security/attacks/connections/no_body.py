"""Requests with a complete head and no body: each holds a connection."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.connections.slow_bytes import run_slowly
from tests.security.attacks.http_client import post_head


async def run(attacker: Attacker) -> None:
    await run_slowly(attacker, post_head(None, 100), b"")


ATTACK = Attack(
    "M1 1,100 heads without a body, ulimit 1024",
    run,
    full=1_100,
    short=100,
    short_seconds=3,
    rate=400,
    limits=Limits(open_after=0),
    max_files=1_024,
    extra_seconds=35,
)

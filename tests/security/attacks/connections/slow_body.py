"""Bodies that arrive one byte a second, with a token."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.connections.slow_bytes import run_slowly
from tests.security.attacks.http_client import post_head


async def run(attacker: Attacker) -> None:
    await run_slowly(attacker, post_head(attacker.token, 10_000) + b"{", b" ")


ATTACK = Attack(
    "600 bodies of a byte a second",
    run,
    full=600,
    short=60,
    short_seconds=3,
    rate=300,
    limits=Limits(open_after=0),
    extra_seconds=35,
)

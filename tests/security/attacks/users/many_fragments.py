"""Documents with many fragments of a signed-in user: validating them counts."""

from __future__ import annotations

from tests.security.attacks.anonymous.many_fragments import document
from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body


async def run(attacker: Attacker) -> None:
    await attacker.flood(lambda number: graphql_body(document(number)), token=attacker.token)


ATTACK = Attack(
    "300 fragments with a token",
    run,
    full=10_000,
    short=10,
    rate=8,
    limits=Limits(cpu_ms=30, answer_bytes=4_000),
)

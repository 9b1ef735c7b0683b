"""Different mutations with long literals and without a token: nothing of them may stay in memory."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body


def document(number: int) -> str:
    """Return a mutation of 6 KB that differs from all others, with as many values as a document may have."""
    ids = ",".join(["1"] * 2_900)
    return f'mutation {{ createGroup(input: {{name: "{number}", memberIds: [{ids}]}}) {{ id }} }}'


async def run(attacker: Attacker) -> None:
    await attacker.flood(lambda number: graphql_body(document(number)), token=None)


ATTACK = Attack(
    "H3 1,100 mutations with long literals, no token",
    run,
    full=1_100,
    short=60,
    rate=110,
    limits=Limits(codes=frozenset({"UNAUTHENTICATED"}), cpu_ms=10, answer_bytes=4_000, kept_mb=30),
    extra_seconds=15,
)

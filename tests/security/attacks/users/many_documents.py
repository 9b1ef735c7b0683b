"""Legal documents that are all different: what the server remembers of them is bounded."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body


def document(number: int) -> str:
    """Return a document of 8 KB with a long list."""
    ids = ",".join(["1"] * 2_000)
    return f'query Q{number} {{ me {{ id }} users(ids: ["{number}"]) {{ id }} session(conversationId: "x") {{ id }} ' \
           f'more: users(ids: [{ids}]) {{ displayName }} }}'  # fmt: skip


async def run(attacker: Attacker) -> None:
    await attacker.flood(lambda number: graphql_body(document(number)), token=attacker.token)


ATTACK = Attack(
    "documents that are all different",
    run,
    full=3_000,
    short=8,
    rate=100,
    limits=Limits(kept_mb=50, cpu_ms=120, answer_bytes=10_000),
)

"""Lists inside lists, in documents and in variables."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body


def body(number: int) -> bytes:
    """Return a request with brackets far inside one another, in the document or in its variables."""
    if number % 2:
        depth = 20_000
        return graphql_body(f"{{ users(ids: {'[' * depth}{number}{']' * depth}) {{ id }} }}")
    levels = b"[" * 100_000 + b"]" * 100_000
    return b'{"query": "mutation ($v: JSON) { updateMe(metadata: $v) { id } }", "variables": {"v": %s}}' % levels


async def run(attacker: Attacker) -> None:
    await attacker.flood(body, token=attacker.token)


ATTACK = Attack(
    "100,000 brackets",
    run,
    full=10_000,
    short=40,
    limits=Limits(
        codes=frozenset({"INVALID_INPUT", "QUERY_TOO_COMPLEX", "RATE_LIMITED"}), cpu_ms=40, answer_bytes=4_000
    ),
)

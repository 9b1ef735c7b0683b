"""Many fragments in a document without a token: parsing and validating it costs far more than sending it."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body

_FRAGMENTS = 300


def document(number: int) -> str:
    """Return a document of 10 KB that differs from all others, and whose fragments are compared with each other."""
    names = [f"F{number}x{each}" for each in range(_FRAGMENTS)]
    fragments = " ".join(f"fragment {name} on User {{ id }}" for name in names)
    return f"{{ me {{ {' '.join(f'...{name}' for name in names)} }} }} {fragments}"


async def run(attacker: Attacker) -> None:
    await attacker.flood(lambda number: graphql_body(document(number)), token=None)


ATTACK = Attack(
    "H2 300 fragments, no token",
    run,
    full=10_000,
    short=10,
    rate=8,
    limits=Limits(codes=frozenset({"UNAUTHENTICATED"}), cpu_ms=10, answer_bytes=4_000),
)

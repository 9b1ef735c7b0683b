"""Documents whose errors would repeat long names many times."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body


def document(number: int) -> str:
    """Return a document of 48 KB with four long unknown names."""
    name = f"a{number}x" + "y" * 12_000
    return f"query ($v: {name}) {{ {name}({name}: $v) {{ id }} ...{name} }}"


async def run(attacker: Attacker) -> None:
    await attacker.flood(lambda number: graphql_body(document(number)), token=None)


ATTACK = Attack(
    "errors that repeat the document, no token",
    run,
    full=10_000,
    short=40,
    rate=20,
    limits=Limits(codes=frozenset({"UNAUTHENTICATED"}), cpu_ms=10, answer_bytes=4_000, kept_mb=20),
)

"""Documents with hundreds of aliases, each document different."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body


def document(number: int) -> str:
    aliases = " ".join(f"a{number}x{each}: totalUnread" for each in range(700))
    return f"{{ {aliases} }}"


async def run(attacker: Attacker) -> None:
    await attacker.flood(lambda number: graphql_body(document(number)), token=attacker.token)


ATTACK = Attack(
    "700 aliases",
    run,
    full=10_000,
    short=15,
    limits=Limits(codes=frozenset({"QUERY_TOO_COMPLEX", "RATE_LIMITED"}), cpu_ms=40, answer_bytes=4_000, kept_mb=20),
)

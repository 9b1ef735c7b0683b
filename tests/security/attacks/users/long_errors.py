"""Documents of a signed-in user whose errors would repeat long names many times."""

from __future__ import annotations

from tests.security.attacks.anonymous.long_errors import document
from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body


async def run(attacker: Attacker) -> None:
    await attacker.flood(lambda number: graphql_body(document(number)), token=attacker.token)


ATTACK = Attack(
    "errors that repeat the document",
    run,
    full=10_000,
    short=20,
    rate=20,
    limits=Limits(
        codes=frozenset({"INVALID_INPUT", "QUERY_TOO_COMPLEX", "RATE_LIMITED"}), cpu_ms=30, answer_bytes=20_000
    ),
)

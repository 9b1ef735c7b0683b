"""Introspection without a token, each document different: nothing of it may be executed or kept."""

from __future__ import annotations

from graphql import get_introspection_query

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body

_QUERY = get_introspection_query().replace("query IntrospectionQuery", "")


async def run(attacker: Attacker) -> None:
    await attacker.flood(lambda number: graphql_body(f"query Q{number} {_QUERY}"), token=None)


ATTACK = Attack(
    "introspection, no token",
    run,
    full=10_000,
    short=60,
    limits=Limits(codes=frozenset({"UNAUTHENTICATED"}), cpu_ms=10, answer_bytes=4_000, kept_mb=20),
)

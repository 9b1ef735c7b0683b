"""Variables of almost a megabyte: long lists of ids, which no operation takes."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body

_OPERATIONS = (
    "query ($ids: [ID!]!) { users(ids: $ids) { id } }",
    "mutation ($ids: [ID!]!) { markManyRead(conversationIds: $ids) { id } }",
    'mutation ($ids: [ID!]!) { createGroup(input: {name: "x", memberIds: $ids}) { id } }',
    "mutation ($ids: [ID!]!) { assignCategory(conversationIds: $ids) { id } }",
)


async def run(attacker: Attacker) -> None:
    ids = [f"u{number:06}" for number in range(90_000)]
    bodies = [graphql_body(operation, {"ids": ids}) for operation in _OPERATIONS]
    await attacker.flood(lambda number: bodies[number % len(bodies)], token=attacker.token, at_once=5)


ATTACK = Attack(
    "lists of 90,000 ids",
    run,
    full=10_000,
    short=12,
    rate=10,
    limits=Limits(
        codes=frozenset({"INVALID_INPUT", "GROUP_FULL", "RATE_LIMITED", "QUERY_TOO_COMPLEX"}),
        cpu_ms=400,
        answer_bytes=4_000,
    ),
)

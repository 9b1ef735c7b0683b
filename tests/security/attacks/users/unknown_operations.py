"""Ids of persisted operations that do not exist."""

from __future__ import annotations

import hashlib

import orjson

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker


def body(number: int) -> bytes:
    """Return a request with the hash of no operation."""
    return orjson.dumps({"documentId": f"sha256:{hashlib.sha256(str(number).encode()).hexdigest()}"})


async def run(attacker: Attacker) -> None:
    await attacker.flood(body, token=attacker.token)


ATTACK = Attack(
    "unknown persisted operations",
    run,
    full=20_000,
    short=100,
    rate=200,
    limits=Limits(codes=frozenset({"INVALID_INPUT", "RATE_LIMITED"}), cpu_ms=10, answer_bytes=4_000, kept_mb=20),
)

"""Large answers that nobody reads: they stay in the server's memory until the connection ends."""

from __future__ import annotations

import asyncio

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import HOST, graphql_body, post_head
from tests.security.attacks.users import metadata_pages

_QUERY = """query ($id: ID!) { messages(conversationId: $id, last: 100) { edges { node {
    a: metadata b: metadata c: metadata } } } }"""


async def run(attacker: Attacker) -> None:
    body = graphql_body(_QUERY, attacker.given)
    connections = []
    async for _ in attacker.turns():
        attacker.report.requests += 1
        try:
            reader, writer = await asyncio.open_connection(HOST, attacker.port, limit=4_096)
        except OSError:
            attacker.report.codes["lost"] += 1
            continue
        # Paused before the answer comes: the kernel's buffers fill, and the rest stays with the server.
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(post_head(attacker.token, len(body)) + body)
        connections.append((reader, writer))
    await asyncio.sleep(max(0.0, attacker.seconds_left) if attacker.rate else 2.0)
    for _, writer in connections:
        writer.close()


ATTACK = Attack(
    "M3 150 answers of 2 MB, never read",
    run,
    full=150,
    short=40,
    rate=50,
    prepare=metadata_pages.prepare,
    limits=Limits(peak_mb=60),
    extra_seconds=10,
)

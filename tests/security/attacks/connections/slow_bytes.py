"""Connections that send a part of a request, and then nothing or one byte after another."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import HOST


async def run_slowly(attacker: Attacker, start: bytes, drop: bytes, end: bytes | None = None) -> None:
    """Open connections that send a start and then one more drop each second, and count those that stay open."""
    readers, writers = [], []
    async for _ in attacker.turns():
        attacker.report.requests += 1
        try:
            reader, writer = await asyncio.open_connection(HOST, attacker.port)
        except OSError:
            attacker.report.codes["lost"] += 1
            continue
        writer.write(start)
        readers.append(reader)
        writers.append(writer)

    async def send_drops() -> None:
        while drop:
            await asyncio.sleep(1)
            for writer in writers:
                with suppress(OSError):
                    writer.write(drop)

    dropping = asyncio.create_task(send_drops())
    await attacker.hold(readers, end)
    dropping.cancel()
    for writer in writers:
        writer.close()

"""A user who sends a private message every 50 ms, to see what other work costs everybody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from bench.api_client import InsideAsker
from tests.security.attacks.measurement import percentile

SEND_TO_USER = """mutation ($id: ID!, $text: String!) {
    sendMessage(input: {toUserId: $id, content: $text}) { message { id seq } } }"""

_PER_SECOND = 20


class OtherSender:
    """Sends to `bob`. Times are in seconds."""

    def __init__(self, asker: InsideAsker) -> None:
        """Send as the user of an asker."""
        self._asker = asker

    async def send_for(self, seconds: float) -> list[float]:
        """Send for a while, and return how long each message took."""
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        return await self.send_until(stop)

    async def send_until(self, stop: asyncio.Event) -> list[float]:
        """Send until an event is set, and return how long each message took."""
        delays = []
        while not stop.is_set():
            start = time.perf_counter()
            await self._asker.ask(SEND_TO_USER, id="bob", text="hello")
            delays.append(time.perf_counter() - start)
            await asyncio.sleep(1 / _PER_SECOND)
        return delays


def print_delays(name: str, seconds: Sequence[float]) -> None:
    """Print the median, the 99th percentile and the longest."""
    p50, p99 = (1000 * percentile(seconds, share) for share in (0.5, 0.99))
    print(f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {1000 * max(seconds):.0f} ms")

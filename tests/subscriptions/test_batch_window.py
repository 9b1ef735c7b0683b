"""The batch window: a commit waits a moment for messages that are being reserved."""

from __future__ import annotations

import asyncio
import time

from subscriptions.delivery.batch_window import BatchWindow
from tests.waiting import TIMEOUT_SECONDS

EVER = 30.0


async def test_without_reservations_there_is_no_wait() -> None:
    window = BatchWindow()
    waiting = asyncio.create_task(window.wait(EVER))
    await asyncio.sleep(0)
    assert waiting.done()


async def test_the_wait_ends_with_the_last_reservation_failed_or_not() -> None:
    window = BatchWindow()
    arrivals = [asyncio.Event() for _ in range(2)]

    async def come(arrival: asyncio.Event) -> None:
        with window:
            await arrival.wait()
            raise LookupError

    tasks = [asyncio.create_task(come(arrival)) for arrival in arrivals]
    await asyncio.sleep(0)
    waiting = asyncio.create_task(window.wait(EVER))
    arrivals[0].set()
    await asyncio.wait(tasks[:1])
    assert not waiting.done()
    arrivals[1].set()
    await asyncio.wait_for(waiting, TIMEOUT_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait_for(window.wait(EVER), TIMEOUT_SECONDS)


async def test_waiting_for_a_missing_reservation_stops_at_the_deadline() -> None:
    window = BatchWindow()
    with window:
        began = time.monotonic()
        await asyncio.wait_for(window.wait(0.005), TIMEOUT_SECONDS)
        assert time.monotonic() - began >= 0.004

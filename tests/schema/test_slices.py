"""Slices of long executions: users take turns, and other tasks run between two slices."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from schema.execution.slices import Slices
from tests.waiting import TIMEOUT_SECONDS


async def test_users_take_turns_and_other_tasks_run_between_slices() -> None:
    slices, order = Slices(), list[str]()

    async def execute(user: str, count: int) -> None:
        for _ in range(count):
            await slices.next(user)
            order.append(user)

    async def send() -> None:
        for _ in range(8):
            await asyncio.sleep(0)
            order.append("step")

    await asyncio.gather(*(execute("flood", 4) for _ in range(5)), execute("one", 4), send())
    assert order.count("flood") == 20 and order.count("one") == 4
    assert order[: order.index("step", 10)].count("flood") <= 4
    first = [user for user in order if user != "step"][:9]
    assert first.count("one") == 4
    # Another slice never begins before others had their step.
    assert all("step" in order[at : at + 2] for at in range(10))


async def test_a_cancelled_wait_does_not_block_the_others() -> None:
    slices = Slices()
    tasks = [asyncio.create_task(slices.next("a")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait_for(slices.next("b"), TIMEOUT_SECONDS)


async def test_a_pause_follows_each_slice_while_operations_of_others_are_in_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slices, pauses, loop = Slices(), list[float](), asyncio.get_running_loop()
    call_later = loop.call_later

    def note(delay: float, *call: Any) -> asyncio.TimerHandle:
        if call[0] == slices._queue.leave:
            pauses.append(delay)
        return call_later(delay, *call)

    async def execute() -> None:
        for _ in range(3):
            await slices.next("flood")
            time.sleep(0.002)  # noqa: ASYNC251 - a slice uses the event loop
        await asyncio.sleep(0)

    monkeypatch.setattr(loop, "call_later", note)
    with slices.operation("flood"), slices.operation("flood"):
        await execute()
    assert pauses == []
    with slices.operation("flood"), slices.operation("other"):
        await execute()
    assert len(pauses) == 3 and min(pauses) >= 0.002
    assert slices._operations == {}

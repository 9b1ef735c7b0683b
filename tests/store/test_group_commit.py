"""Group commit: batches follow each other without timers."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from store.base import group_commit
from store.base.group_commit import GroupCommit
from tests.waiting import TIMEOUT_SECONDS

_request: ContextVar[str] = ContextVar("request", default="none")


class Writer:
    """Notes batches. Each waits until it is released."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.releases: list[asyncio.Event] = []
        self.contexts: list[str] = []
        self.queue = GroupCommit(self._write, 3)

    async def _write(self, batch: list[int]) -> None:
        self.batches.append(batch)
        self.contexts.append(_request.get())
        self.releases.append(asyncio.Event())
        await self.releases[-1].wait()


@pytest.fixture
def writer() -> Writer:
    return Writer()


async def _turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_lone_item_is_written_in_the_next_turn_of_the_loop(writer: Writer) -> None:
    writer.queue.push([1])
    await _turns(1)
    assert writer.batches == [[1]]
    await writer.queue.close()


async def test_no_timer_is_between_arrival_and_write(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, events = asyncio.get_running_loop(), list[str]()
    call_later, test = loop.call_later, asyncio.current_task()

    def note(*args: Any, **options: Any) -> asyncio.TimerHandle:
        # Other tasks of the process set timers too.
        if asyncio.current_task() in (test, *writer.queue._tasks):
            events.append(f"timer after {len(writer.batches)} batches")
        return call_later(*args, **options)

    monkeypatch.setattr(loop, "call_later", note)
    writer.queue.push([1])
    writer.queue.push([2])
    await _turns(1)
    # The only timer is the one that stops a slow write from delaying others.
    assert (writer.batches, events) == ([[1, 2]], ["timer after 0 batches"])
    await writer.queue.close()


async def test_items_that_arrive_during_a_write_are_the_next_batches_in_order(writer: Writer) -> None:
    writer.queue.push([1])
    await _turns()
    for item in range(2, 7):
        writer.queue.push([item])
    await _turns()
    assert (writer.batches, len(writer.queue)) == ([[1]], 5)
    for expected in ([2, 3, 4], [5, 6]):
        writer.releases[-1].set()
        await _turns()
        assert writer.batches[-1] == expected
    await writer.queue.close()


async def test_a_discarded_item_is_not_written(writer: Writer) -> None:
    writer.queue.push([1])
    writer.queue.discard(1)
    await _turns()
    assert writer.batches == []
    writer.queue.push([2])
    await _turns()
    assert writer.batches == [[2]]
    await writer.queue.close()


async def test_a_slow_batch_delays_the_next_one_only_for_a_time(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "SLOW_SECONDS", 0.01)
    writer.queue.push([1])
    await _turns()
    # The second batch is not slow, however slow the machine is.
    monkeypatch.setattr(group_commit, "SLOW_SECONDS", 60.0)
    writer.queue.push([2])
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(writer.batches) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    writer.queue.push([3])
    writer.releases[0].set()
    await _turns()
    assert writer.batches == [[1], [2]]
    writer.releases[1].set()
    await _turns()
    assert writer.batches == [[1], [2], [3]]
    await writer.queue.close()


async def test_a_batch_has_the_context_of_no_request(writer: Writer) -> None:
    _request.set("first")
    writer.queue.push([1])
    await _turns()
    assert writer.contexts == ["none"]
    await writer.queue.close()


async def test_after_closing_nothing_is_written(writer: Writer) -> None:
    writer.queue.push([1])
    await _turns()
    writer.queue.push([2])
    await writer.queue.close()
    writer.queue.push([3])
    await _turns()
    assert writer.batches == [[1]]

"""The fair queue: who goes first, who waits, and what a cancelled wait leaves behind."""

from __future__ import annotations

import asyncio

import pytest

from store.base.fair_queue import FairQueue, QueueFull


class Workers:
    """Work of users that ends when a test says so."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.started: list[str] = []

    async def start(self, *users: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self._enter(user)) for user in users]
        await asyncio.sleep(0)
        return tasks

    async def end(self, *users: str) -> None:
        for user in users:
            self.queue.leave(user)
            await asyncio.sleep(0)

    async def _enter(self, user: str) -> None:
        await self.queue.enter(user)
        self.started.append(user)


async def test_work_starts_at_once_while_it_may() -> None:
    queue = FairQueue(lambda own, running: running < 2)
    assert queue.try_enter("a") and queue.try_enter("a") and not queue.try_enter("b")
    assert (queue.running, queue.waiting, queue.active_users) == (2, 0, 1)
    queue.leave("a")
    assert queue.try_enter("b") and queue.active_users == 2


async def test_the_user_with_least_running_work_goes_first_and_equal_users_take_turns() -> None:
    workers = Workers(FairQueue(lambda own, running: running < 3))
    await workers.start("flood", "flood", "flood", "flood", "flood", "flood", "late", "late", "other")
    assert workers.started == ["flood"] * 3
    await workers.end("flood", "flood", "flood")
    # When the last of them had ended, `flood` had nothing running and `late` had.
    assert workers.started[3:] == ["late", "other", "flood"]
    await workers.end("late", "other", "flood")
    assert sorted(workers.started[6:]) == ["flood", "flood", "late"]
    assert (workers.queue.running, workers.queue.waiting) == (3, 0)


async def test_waiting_users_take_turns_however_much_each_has_waiting() -> None:
    workers = Workers(FairQueue(lambda own, running: running == 0))
    await workers.start("a", "a", "a", "a", "b", "b", "c")
    for _ in range(6):
        await workers.end(workers.started[-1])
    assert workers.started == ["a", "a", "b", "c", "a", "b", "a"]


async def test_newcomers_pass_users_with_more_running_work_only() -> None:
    queue = FairQueue(lambda own, running: own == 0 or running < 2)
    workers = Workers(queue)
    await workers.start("a", "a", "a")
    assert workers.started == ["a", "a"]
    assert queue.try_enter("b")
    assert not queue.try_enter("a") and not queue.try_enter("b")


async def test_a_user_with_too_much_waiting_is_refused_and_others_are_not() -> None:
    queue = FairQueue(lambda own, running: running == 0, max_waiting_per_user=2)
    workers = Workers(queue)
    await workers.start("a", "a", "a")
    with pytest.raises(QueueFull):
        await queue.enter("a")
    await workers.start("b")
    assert (queue.waiting, queue.refused, queue.count_work("a"), queue.count_work("b")) == (3, 1, 3, 1)


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    queue = FairQueue(lambda own, running: running == 0)
    workers = Workers(queue)
    _, waiting, next_waiting = await workers.start("a", "b", "b")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert queue.waiting == 1
    # Admitted and cancelled before its task runs again: the place goes to the next.
    (last,) = await workers.start("c")
    queue.leave("a")
    next_waiting.cancel()
    await asyncio.gather(next_waiting, last, return_exceptions=True)
    assert workers.started == ["a", "c"] and (queue.running, queue.waiting) == (1, 0)
    queue.leave("c")
    assert (queue.running, queue.active_users, queue.count_work("b")) == (0, 0, 0)

"""Long documents are prepared in a thread: the event loop runs meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from schema.execution.cpu_budgets import PreparationThread
from schema.execution.prepared_operations import OperationCache
from schema.execution.query_limits import QueryLimits
from store.base.ids import UserId
from subscriptions.transport.engine import GraphQLRequest

ALICE, BOB = UserId("alice"), UserId("bob")


async def test_the_event_loop_runs_while_the_thread_works() -> None:
    may_end = threading.Event()
    work = asyncio.create_task(PreparationThread().run(lambda: may_end.wait(30)))
    await asyncio.sleep(0)
    may_end.set()
    assert await work is True


async def test_a_failure_of_the_work_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await PreparationThread().run(lambda: 1 // 0)


async def test_a_cancelled_caller_waits_for_the_end_of_its_work() -> None:
    may_end, steps = threading.Event(), list[str]()

    def work() -> None:
        may_end.wait(30)
        steps.append("worked")

    async def call() -> None:
        try:
            await PreparationThread().run(work)
        finally:
            steps.append("released")

    caller = asyncio.create_task(call())
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    assert steps == [] and not caller.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert steps == ["worked", "released"]


async def test_a_document_that_several_callers_send_at_once_is_cached_once() -> None:
    cache, request = OperationCache(QueryLimits()), GraphQLRequest("{ me { id } }")
    prepared = await asyncio.gather(*(cache.prepare(request, user) for user in (ALICE, BOB, ALICE)))
    assert len({id(each) for each in prepared}) == 1
    again = OperationCache(QueryLimits())
    await again.prepare(request, ALICE)
    assert cache._documents.size == again._documents.size

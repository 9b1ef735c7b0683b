"""Budgets of CPU time, turns and a thread for work on documents that are not cached."""

from __future__ import annotations

import asyncio
import math
import time
import types
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from resolvers.base.errors import A_MOMENT_MS, RateLimited
from schema.base.errors import refusal_for
from store.base.fair_queue import FairQueue, QueueFull
from store.base.ids import UserId

Result = TypeVar("Result")

_BURST_SECONDS = 10.0
"""A user's budget that was not used for this time is full."""

_TURNS_BURST_SECONDS = 0.4
"""The same for the budget of all users together."""

_MAX_WAITING_PER_USER = 100
"""Documents of a user that may wait for their turn."""

_MAX_WAIT_SECONDS = 10.0
"""Time after which a waiting document is refused."""

_MARGIN_SECONDS = 0.001
"""Added to the time until a budget is filled, so that it is positive."""

_TOO_MANY = "Too many different documents. Put values that change into variables, and try again later."

_MAX_USERS = 10_000
"""Users whose budget is remembered. Forgotten users begin with a full one."""


class CpuBudget:
    """A share of one core. Time that is not used is kept, up to the share of `burst_seconds`.

    Work is measured and not estimated, so a budget can be overdrawn by the work that it admitted last.
    """

    def __init__(
        self,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        burst_seconds: float = _BURST_SECONDS,
    ) -> None:
        """Create a full budget. A share of 0 means no limit. Both clocks return seconds."""
        self._burst = share * burst_seconds
        self._share = share
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._left = self._burst
        self._filled_at = clock()

    def check(self) -> None:
        """Raise RateLimited, with the time to wait, if the budget is used up."""
        wait_seconds = self.wait_seconds()
        if wait_seconds:
            wait_ms = math.ceil(wait_seconds * 1000)
            raise RateLimited(_TOO_MANY, retry_after_ms=wait_ms)

    def wait_seconds(self) -> float:
        """Return the time until work is allowed; 0 if it is allowed now."""
        if not self._share:
            return 0.0
        self._fill()
        return -self._left / self._share + _MARGIN_SECONDS if self._left <= 0 else 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Take the CPU time of a block from the budget. The block must not wait."""
        began = self._cpu_clock()
        try:
            yield
        finally:
            self._left -= self._cpu_clock() - began

    @types.coroutine
    def measure_steps(self, awaitable: Awaitable[Result]) -> Generator[Any, Any, Result]:
        """Await something, and take the CPU time of its steps from the budget, without the time between them."""
        steps = awaitable.__await__()
        step = partial(next, steps)
        while True:
            with self.measure():
                try:
                    waits_for = step()
                except StopIteration as end:
                    return end.value
            try:
                yield waits_for
                step = partial(next, steps)
            except BaseException as failure:
                step = partial(steps.throw, failure)

    def _fill(self) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._filled_at) * self._share)
        self._filled_at = now


class UserCpuBudgets:
    """A budget for each user."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._budgets: OrderedDict[UserId, CpuBudget] = OrderedDict()

    def of(self, user: UserId) -> CpuBudget:
        """Return the user's budget."""
        budget = self._budgets.get(user)
        if budget is None:
            budget = self._budgets[user] = CpuBudget(self._share)
            if len(self._budgets) > _MAX_USERS:
                self._budgets.popitem(last=False)
        else:
            self._budgets.move_to_end(user)
        return budget


class DocumentTurns:
    """Turns for documents that are not cached. One is prepared at a time, and users take turns.

    Preparing a document takes up to 50 ms of CPU. So all users together may use only a share of one core for it, and
    0.4 seconds of this share at once.
    """

    def __init__(self, share: float) -> None:
        """Create the turns. A share of 0 means no limit: documents do not wait."""
        self._has_limit = share > 0
        self._budget = CpuBudget(share, cpu_clock=time.monotonic, burst_seconds=_TURNS_BURST_SECONDS)
        self._queue = FairQueue(lambda _own, running: running == 0, _MAX_WAITING_PER_USER)

    @asynccontextmanager
    async def turn(self, user: UserId) -> AsyncIterator[None]:
        """Wait for a turn. Raises RequestRefused if too many documents of the user wait.

        All of the time that the block takes is counted, so it should wait only for the preparation.
        """
        if not self._has_limit:
            yield
            return
        if not self._queue.try_enter(user):
            try:
                async with asyncio.timeout(_MAX_WAIT_SECONDS):
                    await self._queue.enter(user)
            except (QueueFull, TimeoutError):
                raise refusal_for(RateLimited(_TOO_MANY, retry_after_ms=A_MOMENT_MS)) from None
        try:
            with self._budget.measure():
                yield
        finally:
            # The next turn begins later if the budget is used up.
            asyncio.get_running_loop().call_later(self._budget.wait_seconds(), self._queue.leave, user)


class PreparationThread:
    """A thread for work that takes much CPU time. It does one thing at a time.

    The thread and the event loop share one interpreter lock, which changes hands after at most the switch interval
    (`server.process.interpreter_tuning`). So each step of the event loop waits so long, and not for all of the work.
    """

    def __init__(self) -> None:
        """Create the thread. It starts with the first work, and ends when this object is released."""
        self._executor = ThreadPoolExecutor(1, "documents")

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return the result of a function that runs in the thread.

        If the caller is cancelled, this waits for the end of the function, so that the work is counted as its own.
        """
        result = asyncio.get_running_loop().run_in_executor(self._executor, function)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            while not result.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([result])
            # Nobody else reads the failure.
            result.cancelled() or result.exception()
            raise

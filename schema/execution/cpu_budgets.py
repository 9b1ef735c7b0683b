"""Budgets of CPU time, for work on documents that are not cached."""

from __future__ import annotations

import math
import time
import types
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from resolvers.base.errors import RateLimited
from store.base.ids import UserId

Result = TypeVar("Result")

_BURST_SECONDS = 10.0
"""A budget that was not used for this time is full."""

_MAX_USERS = 10_000
"""Users whose budget is remembered. Forgotten users begin with a full one."""


class CpuBudget:
    """A share of one core. Time that is not used is kept, up to the share of ten seconds.

    Work is measured and not estimated, so a budget can be overdrawn by the work that it admitted last.
    """

    def __init__(
        self,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Create a full budget. A share of 0 means no limit. Both clocks return seconds."""
        self._share = share
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._left = share * _BURST_SECONDS
        self._filled_at = clock()

    def check(self) -> None:
        """Raise RateLimited, with the time to wait, if the budget is used up."""
        if not self._share:
            return
        self._fill()
        if self._left <= 0:
            wait_ms = math.ceil(-self._left / self._share * 1000) + 1
            raise RateLimited("Too many new documents. Send fewer different ones.", retry_after_ms=wait_ms)

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
        self._left = min(self._share * _BURST_SECONDS, self._left + (now - self._filled_at) * self._share)
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

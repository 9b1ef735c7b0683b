"""Measures changes of policies, for the metrics of a process."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from store.base.counters import SECONDS, Histogram
from store.base.errors import StoreError

P = ParamSpec("P")
R = TypeVar("R")


class ChangeMeter:
    """Durations of changes from the request to the answer, and the number of those that failed."""

    __slots__ = ("failed", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(SECONDS)
        self.failed = 0


class _Metered(Protocol):
    @property
    def meter(self) -> ChangeMeter: ...


S = TypeVar("S", bound=_Metered)


def metered(
    change: Callable[Concatenate[S, P], Awaitable[R]],
) -> Callable[Concatenate[S, P], Awaitable[R]]:
    """Measure a method that makes changes with the meter of its object."""

    async def measured(self: S, /, *args: P.args, **options: P.kwargs) -> R:
        began = time.monotonic()
        try:
            return await change(self, *args, **options)
        except StoreError:
            self.meter.failed += 1
            raise
        finally:
            self.meter.seconds.observe(time.monotonic() - began)

    update_wrapper(measured, change)
    return measured

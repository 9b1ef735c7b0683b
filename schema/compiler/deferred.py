"""A value that follows from a future: what a resolver returns that has to wait for a loader and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

R = TypeVar("R")


class Deferred(Generic[R]):
    """What a function makes of a future's result. Can be awaited by anybody, once; needs no task, as a coroutine does."""

    __slots__ = ("function", "future")

    def __init__(self, future: asyncio.Future[Any], function: Callable[[Any], Any]) -> None:
        self.future = future
        self.function = function

    def __await__(self) -> Generator[Any, Any, R]:
        value = self.function((yield from self.future.__await__()))
        if isinstance(value, Deferred | asyncio.Future):
            value = yield from value.__await__()
        return cast(R, value)


def then(value: Any, function: Callable[[Any], Any]) -> Any:
    """What a function makes of a value: at once if it is there; an `Eventual` where it is a future (as loaders answer) or one
    itself. The function may answer a future or an Eventual as well."""
    if isinstance(value, asyncio.Future):
        return Deferred(value, function)
    if isinstance(value, Deferred):
        first = value.function
        return Deferred(value.future, lambda result: then(first(result), function))
    return function(value)

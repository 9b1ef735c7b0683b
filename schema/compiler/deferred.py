"""A field's value that is available when a loader has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

R = TypeVar("R")


class Deferred(Generic[R]):
    """A function applied to a future's result. It can be awaited once and, unlike a coroutine, needs no task."""

    __slots__ = ("function", "future")

    def __init__(self, future: asyncio.Future[Any], function: Callable[[Any], Any]) -> None:
        self.future = future
        self.function = function

    def __await__(self) -> Generator[Any, Any, R]:
        value = self.function((yield from self.future.__await__()))
        if isinstance(value, Deferred | asyncio.Future):
            value = yield from value.__await__()
        return cast(R, value)


_LATER = (Deferred, asyncio.Future)


def then(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to a value, or to the result of a future.

    Args:
        value: A plain value, a future (as loaders return), or a Deferred.
        function: May return a plain value, a future or a Deferred.

    Returns:
        The function's result for a plain value; otherwise a Deferred of it.
    """
    if not isinstance(value, _LATER):
        return function(value)
    if isinstance(value, Deferred):
        first = value.function
        return Deferred(value.future, lambda result: then(first(result), function))
    return Deferred(value, function)

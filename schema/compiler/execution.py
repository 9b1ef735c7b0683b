"""The state of one execution of a compiled operation: values to await, and errors."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, TypeAlias

from graphql import FieldNode, GraphQLError, located_error
from graphql.execution.values import VariableValues
from graphql.pyutils import Path, is_awaitable

from schema.compiler.deferred import Deferred

ResponsePath: TypeAlias = "tuple[ResponsePath | None, str | int, str | None, Any, bool]"
"""A position in the response: parent path, key or index, the type that has it as a field, the dict or list that holds
the value, and whether the value may be null. A plain tuple, because one is made for every object."""

Complete: TypeAlias = "Callable[[Any, ResponsePath, ExecutionState], Any]"
"""Returns the response's form of a value at a path, or PENDING if it must be awaited. Raises any exception."""

PendingResult: TypeAlias = tuple[Awaitable[Any], ResponsePath, Sequence[FieldNode], Complete]

UnfinishedList: TypeAlias = tuple[Any, ResponsePath, Sequence[FieldNode], Complete]
"""The iterator of the items that are not completed yet, the list's path and nodes, and the function for the rest."""

YieldControl: TypeAlias = Callable[[], Awaitable[None]]
"""Lets other tasks of the event loop run, and returns when the execution may continue."""

PENDING: Any = object()

SLICE_SECONDS = 0.002
"""Time after which an execution yields to other tasks. Not CPU time: reading the CPU clock takes 1.7 us, this 0.14."""

_ITEMS_PER_CHECK = 16
"""Items of lists that are completed between two reads of the clock."""

UNLIMITED_VALUES = 10**9

_NEEDS_NO_TASK = (Deferred, asyncio.Future)


def error_path(path: ResponsePath) -> list[str | int]:
    """Return the path in the form of errors in the response."""
    keys: list[str | int] = []
    ancestor: ResponsePath | None = path
    while ancestor is not None:
        keys.append(ancestor[1])
        ancestor = ancestor[0]
    keys.reverse()
    return keys


def resolver_path(path: ResponsePath) -> Path:
    """Return the path in the form of `info.path` of resolvers."""
    parent = path[0]
    return Path(resolver_path(parent) if parent is not None else None, path[1], path[2])


class TooManyValues(BaseException):
    """Raised to stop an execution whose result has more values than allowed. Only `CompiledOperation` catches it.

    Not an Exception: the handlers of errors in fields must not catch it, or the execution would continue.
    """


class ExecutionState:
    """The inputs of one execution, its pending values, its errors, and the number of values it has produced.

    When the execution has used its slice of time, the list that is being completed is continued later. Executions
    with few items never use up their slice.

    Each completed object adds its fields to `values`, each list of scalars its items. The execution is stopped with
    TooManyValues soon after there are more than `max_values`.
    """

    __slots__ = (
        "_nulled",
        "_slice_ends",
        "_yield_control",
        "context",
        "errors",
        "is_data_null",
        "items_left",
        "max_values",
        "pending",
        "root",
        "unfinished",
        "values",
        "variables",
    )

    def __init__(
        self,
        root: Any,
        context: Any,
        variables: VariableValues,
        yield_control: YieldControl | None = None,
        max_values: int = UNLIMITED_VALUES,
    ) -> None:
        self._yield_control = yield_control or _yield_control
        self._slice_ends: float | None = None
        self.items_left = _ITEMS_PER_CHECK
        """Items until `must_yield` is called again. Negative when the slice is over."""
        self.unfinished: deque[UnfinishedList] = deque()
        self.root = root
        self.context = context
        self.variables = variables
        self.pending: list[PendingResult] = []
        self.errors: list[GraphQLError] = []
        self.values = 0
        self.max_values = max_values
        self.is_data_null = False
        """True if an error made the whole `data` null."""
        self._nulled: dict[int, ResponsePath] = {}

    def record_error(self, raw: Exception, nodes: Sequence[FieldNode], path: ResponsePath) -> None:
        """Record an error if its position may be null.

        Raises:
            GraphQLError: The position may not be null, so the error belongs to the parent.
        """
        error = located_error(raw, nodes, error_path(path))
        if not path[4]:
            raise error
        self._add_error(error, path)

    def null_data(self, error: GraphQLError) -> None:
        """Record an error that makes the whole `data` null."""
        self._add_error(error, None)
        self.is_data_null = True

    def _record_late_error(self, raw: Exception, nodes: Sequence[FieldNode], path: ResponsePath) -> None:
        """Record an error of an awaited value, and set the nearest nullable ancestor to null."""
        error = located_error(raw, nodes, error_path(path))
        nullable: ResponsePath | None = path
        while nullable is not None and not nullable[4]:
            nullable = nullable[0]
        if nullable is None:
            self.null_data(error)
        else:
            self._add_error(error, nullable)
            nullable[3][nullable[1]] = None

    def _add_error(self, error: GraphQLError, path: ResponsePath | None) -> None:
        if path is not None:
            if self._is_nulled(path):
                return
            self._nulled[id(path)] = path
        elif self.is_data_null:
            return
        self.errors.append(error)

    def _is_nulled(self, path: ResponsePath) -> bool:
        """Return True if an error set this position or one of its ancestors to null."""
        if self.is_data_null:
            return True
        ancestor: ResponsePath | None = path if self._nulled else None
        while ancestor is not None:
            if id(ancestor) in self._nulled:
                return True
            ancestor = ancestor[0]
        return False

    def must_yield(self) -> bool:
        """Return True if the execution has used its slice. For negative `items_left`. Raises TooManyValues."""
        if self.values > self.max_values:
            raise TooManyValues
        now = monotonic()
        if self._slice_ends is None:
            self._slice_ends = now + SLICE_SECONDS
        elif now >= self._slice_ends:
            return True
        self.items_left = _ITEMS_PER_CHECK
        return False

    def _begin_slice(self) -> None:
        self._slice_ends = None
        self.items_left = _ITEMS_PER_CHECK

    async def _yield_if_due(self) -> None:
        if self.items_left < 0 and self.must_yield():
            await self._yield_control()
            self._begin_slice()

    async def await_pending(self) -> None:
        """Complete unfinished lists. Await all pending values, level by level, until completing them leaves none."""
        while True:
            while self.unfinished:
                await self._yield_if_due()
                self._complete_late(*self.unfinished.popleft())
            if not self.pending:
                return
            batch, self.pending = self.pending, []
            if len(batch) == 1:
                await self._await_one(*batch[0])
            else:
                await self._await_all(batch)

    async def _await_one(
        self, awaitable: Awaitable[Any], path: ResponsePath, nodes: Sequence[FieldNode], complete: Complete
    ) -> None:
        try:
            value = await awaitable
            self._begin_slice()
        except Exception as raw:
            self._record_late_error(raw, nodes, path)
        else:
            self._complete_late(value, path, nodes, complete)

    async def _await_all(self, batch: Sequence[PendingResult]) -> None:
        futures: list[asyncio.Future[Any]] = []
        tasks: list[asyncio.Future[Any]] = []
        try:
            for awaitable, *_ in batch:
                if isinstance(awaitable, Deferred):
                    futures.append(awaitable.future)
                elif isinstance(awaitable, asyncio.Future):
                    futures.append(awaitable)
                else:
                    task: asyncio.Future[Any] = asyncio.ensure_future(awaitable)
                    tasks.append(task)
                    futures.append(task)
            for future in futures:
                if not future.done():
                    # Its exception is recorded below, at its own path.
                    with suppress(Exception):
                        await future
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        self._begin_slice()
        for future, (awaitable, path, nodes, complete) in zip(futures, batch, strict=True):
            self.items_left -= 1
            if self.items_left < 0:
                await self._yield_if_due()
            try:
                value = future.result()
                if isinstance(awaitable, Deferred):
                    value = awaitable.function(value)
            except Exception as raw:
                self._record_late_error(raw, nodes, path)
                continue
            if isinstance(value, _NEEDS_NO_TASK) and value is not awaitable:
                self.pending.append((value, path, nodes, complete))
            else:
                self._complete_late(value, path, nodes, complete)

    def _complete_late(self, value: Any, path: ResponsePath, nodes: Sequence[FieldNode], complete: Complete) -> None:
        """Complete an awaited value and put it into the response."""
        if self.values > self.max_values:
            raise TooManyValues
        if self._is_nulled(path):
            return
        try:
            completed = complete(value, path, self)
            if completed is not PENDING:
                path[3][path[1]] = completed
        except Exception as raw:
            self._record_late_error(raw, nodes, path)

    def abandon_pending(self) -> None:
        """Let pending values run to their end in the background; their results are not needed."""
        self.unfinished.clear()
        batch, self.pending = self.pending, []
        if batch:
            finish_in_background([awaitable for awaitable, *_ in batch])

    def discard_pending(self) -> None:
        """Drop pending values whose execution was stopped. Resolvers that have not begun do not run."""
        batch, self.pending = self.pending, []
        for awaitable, *_ in batch:
            if isinstance(awaitable, Coroutine):
                awaitable.close()


async def _yield_control() -> None:
    await asyncio.sleep(0)


_BACKGROUND: set[asyncio.Future[Any]] = set()


def finish_in_background(values: Sequence[Any]) -> None:
    """Run the awaitables among the values to their end; their results and exceptions are ignored."""
    awaitables = [value for value in values if is_awaitable(value)]
    if awaitables:
        future = asyncio.gather(*awaitables, return_exceptions=True)
        _BACKGROUND.add(future)
        future.add_done_callback(_BACKGROUND.discard)

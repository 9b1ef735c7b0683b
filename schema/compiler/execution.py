"""One execution of a compiled operation: what waits, and what failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from graphql import FieldNode, GraphQLError, located_error
from graphql.execution.values import VariableValues
from graphql.pyutils import Path, is_awaitable

from schema.compiler.deferred import Deferred

ResponsePath: TypeAlias = "tuple[ResponsePath | None, str | int, str | None, Any, bool]"
"""A place of the response: the one around it, its key there, the type that has it as a field, the dict or list that holds it, and whether
null may stand there. A plain tuple, as one is made for every object."""

Complete: TypeAlias = "Callable[[Any, ResponsePath, Run], Any]"
"""Makes what the response shows of a value at a spot; PENDING where that is still to come. Raises what makes it fail."""

PendingResult: TypeAlias = tuple[Awaitable[Any], ResponsePath, Sequence[FieldNode], Complete]

PENDING: Any = object()

_TO_COME = (Deferred, asyncio.Future)


def keys_of(spot: ResponsePath) -> list[str | int]:
    """The path to a spot, as errors tell it."""
    keys: list[str | int] = []
    around: ResponsePath | None = spot
    while around is not None:
        keys.append(around[1])
        around = around[0]
    keys.reverse()
    return keys


def path_of(spot: ResponsePath) -> Path:
    """The path to a spot, as resolvers are told it."""
    around = spot[0]
    return Path(path_of(around) if around is not None else None, spot[1], spot[2])


class Run:
    """What is known of one execution."""

    __slots__ = ("_nulled", "context", "errors", "is_void", "pending", "root", "variables")

    def __init__(self, root: Any, context: Any, variables: VariableValues) -> None:
        self.root = root
        self.context = context
        self.variables = variables
        self.pending: list[PendingResult] = []
        self.errors: list[GraphQLError] = []
        self.is_void = False
        """Whether an error left nothing of the response."""
        self._nulled: dict[int, ResponsePath] = {}

    def fail(self, raw: Exception, nodes: Sequence[FieldNode], spot: ResponsePath) -> None:
        """Notes an error where null may stand in its place. Raises it where it may not."""
        error = located_error(raw, nodes, keys_of(spot))
        if not spot[4]:
            raise error
        self._add(error, spot)

    def void(self, error: GraphQLError) -> None:
        """An error that nothing of the response stands up to."""
        self._add(error, None)
        self.is_void = True

    def _fail_late(self, raw: Exception, nodes: Sequence[FieldNode], spot: ResponsePath) -> None:
        """An error of what was waited for: null goes to the nearest place around it where it may stand."""
        error = located_error(raw, nodes, keys_of(spot))
        around: ResponsePath | None = spot
        while around is not None and not around[4]:
            around = around[0]
        if around is None:
            self.void(error)
        else:
            self._add(error, around)
            around[3][around[1]] = None

    def _add(self, error: GraphQLError, spot: ResponsePath | None) -> None:
        if spot is not None:
            if self._is_nulled(spot):
                return
            self._nulled[id(spot)] = spot
        elif self.is_void:
            return
        self.errors.append(error)

    def _is_nulled(self, spot: ResponsePath) -> bool:
        """Whether null stands here or somewhere around, by an error."""
        if self.is_void:
            return True
        around: ResponsePath | None = spot if self._nulled else None
        while around is not None:
            if id(around) in self._nulled:
                return True
            around = around[0]
        return False

    async def drain(self) -> None:
        """Waits for what is pending, and for what that leads to, level by level."""
        while self.pending:
            batch, self.pending = self.pending, []
            if len(batch) == 1:
                await self._alone(*batch[0])
            else:
                await self._together(batch)

    async def _alone(
        self, awaitable: Awaitable[Any], spot: ResponsePath, nodes: Sequence[FieldNode], complete: Complete
    ) -> None:
        try:
            value = await awaitable
        except Exception as raw:
            self._fail_late(raw, nodes, spot)
        else:
            self._arrive(value, spot, nodes, complete)

    async def _together(self, batch: Sequence[PendingResult]) -> None:
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
                    # What it fails with is told below, in its place.
                    with suppress(Exception):
                        await future
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        for future, (awaitable, spot, nodes, complete) in zip(futures, batch, strict=True):
            try:
                value = future.result()
                if isinstance(awaitable, Deferred):
                    value = awaitable.function(value)
            except Exception as raw:
                self._fail_late(raw, nodes, spot)
                continue
            if isinstance(value, _TO_COME) and value is not awaitable:
                self.pending.append((value, spot, nodes, complete))
            else:
                self._arrive(value, spot, nodes, complete)

    def _arrive(self, value: Any, spot: ResponsePath, nodes: Sequence[FieldNode], complete: Complete) -> None:
        """Puts what was waited for into its place."""
        if self._is_nulled(spot):
            return
        try:
            done = complete(value, spot, self)
            if done is not PENDING:
                spot[3][spot[1]] = done
        except Exception as raw:
            self._fail_late(raw, nodes, spot)

    def abandon(self) -> None:
        """Has what is pending run to its end, though nobody waits for it."""
        batch, self.pending = self.pending, []
        if batch:
            settle([awaitable for awaitable, *_ in batch])


_BACKGROUND: set[asyncio.Future[Any]] = set()


def settle(values: Sequence[Any]) -> None:
    """Has those of the values that can be awaited run to their ends in the background, whatever becomes of them."""
    awaitables = [value for value in values if is_awaitable(value)]
    if awaitables:
        future = asyncio.gather(*awaitables, return_exceptions=True)
        _BACKGROUND.add(future)
        future.add_done_callback(_BACKGROUND.discard)

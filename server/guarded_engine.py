"""The engine as the transports are given it: no more operations at a time than the process can take, and none for ever."""

from __future__ import annotations

import asyncio

from resolvers.errors import Unavailable
from server.mutations import Mutations
from server.shedding import Shedding
from subscriptions.engine import (
    ConnectionContext,
    EventStream,
    GraphQLEngine,
    GraphQLRequest,
    Json,
    Prepared,
    RequestRefused,
    error,
)

OVERLOADED = "The server has more to do than it can, please try again."
_TOO_LATE = "The service takes too long, please try again."


def _unavailable(message: str) -> list[Json]:
    return [error(message, Unavailable.code, retryable=Unavailable.retryable)]


class GuardedEngine:
    """A GraphQLEngine in front of another. What is refused is told as UNAVAILABLE.

    A mutation that takes too long goes on to its end, as one does whose client has gone: with an idempotencyKey it is safe to
    try again. Events of subscriptions don't count: what makes them was counted.
    """

    def __init__(self, engine: GraphQLEngine, shedding: Shedding, mutations: Mutations, seconds: float) -> None:
        """seconds: what an operation may take in all, until the client is told something."""
        self._engine = engine
        self._shedding = shedding
        self._mutations = mutations
        self._seconds = seconds

    def prepare(self, request: GraphQLRequest) -> Prepared:
        """See GraphQLEngine. Where the process is full the document is not even parsed."""
        if self._shedding.is_full:
            raise self._refused()
        return self._engine.prepare(request)

    async def execute(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """See GraphQLEngine."""
        if not self._shedding.enter():
            raise self._refused()
        execution = self._counted(prepared, request, context)
        try:
            async with asyncio.timeout(self._seconds):
                if prepared.kind == "mutation":
                    return await asyncio.shield(self._mutations.begin(execution))
                return await execution
        except TimeoutError:
            return {"data": None, "errors": _unavailable(_TOO_LATE)}

    async def _counted(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> Json:
        try:
            return await self._engine.execute(prepared, request, context)
        finally:
            self._shedding.leave()

    async def subscribe(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> EventStream:
        """See GraphQLEngine."""
        if not self._shedding.enter():
            raise self._refused()
        try:
            async with asyncio.timeout(self._seconds):
                return await self._engine.subscribe(prepared, request, context)
        except TimeoutError as late:
            raise RequestRefused(_unavailable(_TOO_LATE)) from late
        finally:
            self._shedding.leave()

    def _refused(self) -> RequestRefused:
        self._shedding.shed.operations += 1
        return RequestRefused(_unavailable(OVERLOADED))

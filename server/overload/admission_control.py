"""The engine as the transports are given it: no more operations at a time than the process can take, and none for ever."""

from __future__ import annotations

import asyncio
import time

from resolvers.base.errors import Unavailable
from server.overload.deadlines import Deadlines
from server.overload.load_shedding import LoadShedding
from server.overload.operation_meter import OK, OperationMeter, code_of, code_of_errors
from server.overload.shielded_mutations import ShieldedMutations
from subscriptions.transport.engine import (
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
_LEFT = "LEFT"
"""How an operation ended for whose outcome nobody waited."""

_TOO_LATE = "The service takes too long, please try again."


class Overloaded(RequestRefused):
    """The process has too much to do. Whoever asked may come back in a second."""


def _unavailable(message: str) -> list[Json]:
    return [error(message, Unavailable.code, retryable=Unavailable.retryable)]


class AdmissionControl:
    """A GraphQLEngine in front of another. What is refused is told as UNAVAILABLE.

    A mutation that takes too long goes on to its end, as one does whose client has gone: with an idempotencyKey it is safe to
    try again. Events of subscriptions don't count: what makes them was counted.
    """

    def __init__(
        self,
        engine: GraphQLEngine,
        shedding: LoadShedding,
        mutations: ShieldedMutations,
        seconds: float,
        meter: OperationMeter | None = None,
    ) -> None:
        """seconds: what an operation may take in all, until the client is told something. All are counted at the meter."""
        self._engine = engine
        self._shedding = shedding
        self._mutations = mutations
        self._deadlines = Deadlines(seconds)
        self._meter = meter or OperationMeter()

    def prepare(self, request: GraphQLRequest) -> Prepared:
        """See GraphQLEngine. Where the process is full the document is not even parsed."""
        if self._shedding.is_full:
            raise self._refused()
        try:
            return self._engine.prepare(request)
        except RequestRefused as refusal:
            self._meter.refuse(code_of_errors(refusal.errors))
            raise

    async def execute(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """See GraphQLEngine."""
        if not self._shedding.enter():
            raise self._refused()
        is_mutation = prepared.kind == "mutation"
        began, code = time.perf_counter(), _LEFT
        try:
            with self._deadlines.begin():
                execution = self._engine.execute(prepared, request, context)
                if is_mutation:
                    work = self._mutations.begin(execution)
                    work.add_done_callback(self._leave)
                    response = await asyncio.shield(work)
                else:
                    response = await execution
            code = code_of(response)
            return response
        except TimeoutError:
            code = Unavailable.code
            return {"data": None, "errors": _unavailable(_TOO_LATE)}
        except RequestRefused as refusal:
            code = code_of_errors(refusal.errors)
            raise
        except Exception:
            code = "INTERNAL"
            raise
        finally:
            if not is_mutation:
                self._shedding.leave()
            self._meter.take(prepared.root, prepared.kind, code, time.perf_counter() - began)

    def _leave(self, _ended: object) -> None:
        self._shedding.leave()

    async def subscribe(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> EventStream:
        """See GraphQLEngine."""
        if not self._shedding.enter():
            raise self._refused()
        began, code = time.perf_counter(), _LEFT
        try:
            with self._deadlines.begin():
                stream = await self._engine.subscribe(prepared, request, context)
            code = OK
            return stream
        except TimeoutError as late:
            code = Unavailable.code
            raise RequestRefused(_unavailable(_TOO_LATE)) from late
        except RequestRefused as refusal:
            code = code_of_errors(refusal.errors)
            raise
        except Exception:
            code = "INTERNAL"
            raise
        finally:
            self._shedding.leave()
            self._meter.take(prepared.root, prepared.kind, code, time.perf_counter() - began)

    def _refused(self) -> Overloaded:
        self._shedding.shed.operations += 1
        return Overloaded(_unavailable(OVERLOADED))

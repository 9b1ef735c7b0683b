"""Limits how many operations run at once, and how long each may take."""

from __future__ import annotations

import asyncio
import time

from resolvers.base.errors import Unavailable
from resolvers.users.callers import Caller
from server.overload.deadlines import Deadlines
from server.overload.load_shedding import LoadShedding
from server.overload.operation_meter import OK, OperationMeter, code_of, code_of_errors
from server.overload.operation_queue import OperationQueue
from server.overload.shielded_mutations import ShieldedMutations
from store.base.ids import UserId
from subscriptions.transport.engine import (
    ConnectionContext,
    GraphQLEngine,
    GraphQLRequest,
    Json,
    LiveResponses,
    OperationHandle,
    RequestRefused,
    make_error,
)

OVERLOADED = "The server is overloaded, please try again."
_TIMED_OUT = "The operation took too long, please try again."
_LEFT = "LEFT"
"""Result of an operation whose client disconnected."""


class Overloaded(RequestRefused):
    """Raised when the process is overloaded. Clients may retry after a second."""


def _unavailable(message: str) -> list[Json]:
    return [make_error(message, Unavailable.code, retryable=Unavailable.retryable)]


class AdmissionControl:
    """A GraphQLEngine in front of another one. Refuses operations with UNAVAILABLE while the process is overloaded.

    Operations of users with many running operations wait until it is their turn (`OperationQueue`).

    A mutation that takes too long, or whose client disconnects, runs to its end. With an idempotencyKey it is safe to
    retry. Events of subscriptions do not count: the operations that cause them were counted.
    """

    def __init__(
        self,
        engine: GraphQLEngine,
        load_shedding: LoadShedding,
        queue: OperationQueue,
        mutations: ShieldedMutations,
        timeout_seconds: float,
        meter: OperationMeter | None = None,
    ) -> None:
        """Create an engine that answers each operation within `timeout_seconds`, and counts it in `meter`."""
        self._engine = engine
        self._load_shedding = load_shedding
        self._queue = queue
        self._mutations = mutations
        self._deadlines = Deadlines(timeout_seconds)
        self._meter = meter or OperationMeter()

    def check_caller(self, caller: object | None) -> None:
        """See GraphQLEngine."""
        try:
            self._engine.check_caller(caller)
        except RequestRefused as refusal:
            self._meter.record_refusal(code_of_errors(refusal.errors))
            raise

    async def prepare(self, request: GraphQLRequest, caller: object | None) -> OperationHandle:
        """See GraphQLEngine. An overloaded process refuses the document without parsing it."""
        if self._load_shedding.is_full:
            raise self._refuse()
        try:
            return await self._engine.prepare(request, caller)
        except RequestRefused as refusal:
            self._meter.record_refusal(code_of_errors(refusal.errors))
            raise

    async def execute(self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """See GraphQLEngine."""
        if self._load_shedding.is_full:
            raise self._refuse()
        user = _user_of(context)
        is_mutation = prepared.kind == "mutation"
        began, code = time.perf_counter(), _LEFT
        has_entered = False
        try:
            with self._deadlines.begin():
                await self._queue.enter(user)
                has_entered = True
                execution = self._engine.execute(prepared, request, context)
                if is_mutation:
                    task = self._mutations.start(execution)
                    # A mutation counts until its end, even if its client has disconnected.
                    has_entered = False
                    task.add_done_callback(lambda _: self._queue.leave(user))
                    response = await asyncio.shield(task)
                else:
                    response = await execution
            code = code_of(response)
            return response
        except TimeoutError:
            code = Unavailable.code
            return {"data": None, "errors": _unavailable(_TIMED_OUT)}
        except RequestRefused as refusal:
            code = code_of_errors(refusal.errors)
            raise
        except Exception:
            code = "INTERNAL"
            raise
        finally:
            if has_entered:
                self._queue.leave(user)
            self._meter.record(prepared.root, prepared.kind, code, time.perf_counter() - began)

    async def subscribe(
        self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext
    ) -> LiveResponses:
        """See GraphQLEngine."""
        if self._load_shedding.is_full:
            raise self._refuse()
        user = _user_of(context)
        began, code = time.perf_counter(), _LEFT
        has_entered = False
        try:
            with self._deadlines.begin():
                await self._queue.enter(user)
                has_entered = True
                stream = await self._engine.subscribe(prepared, request, context)
            code = OK
            return stream
        except TimeoutError as timeout:
            code = Unavailable.code
            raise RequestRefused(_unavailable(_TIMED_OUT)) from timeout
        except RequestRefused as refusal:
            code = code_of_errors(refusal.errors)
            raise
        except Exception:
            code = "INTERNAL"
            raise
        finally:
            if has_entered:
                self._queue.leave(user)
            self._meter.record(prepared.root, prepared.kind, code, time.perf_counter() - began)

    def _refuse(self) -> Overloaded:
        self._load_shedding.refused.operations += 1
        return Overloaded(_unavailable(OVERLOADED))


def _user_of(context: ConnectionContext) -> UserId | None:
    return context.caller.user_id if isinstance(context.caller, Caller) else None

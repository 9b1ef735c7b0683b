"""Refuses operations of users who do not read their answers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from resolvers.users.callers import Caller
from server.overload.operation_meter import OperationMeter, code_of_errors
from subscriptions.realtime.unsent_answers import LARGE_BYTES, UnsentAnswers
from subscriptions.transport.engine import (
    AnswerRefused,
    ConnectionContext,
    GraphQLEngine,
    GraphQLRequest,
    Json,
    LiveResponses,
    OperationHandle,
)


class UnreadAnswersEngine:
    """A GraphQLEngine in front of another one. An operation counts until its client has accepted the answer."""

    def __init__(self, engine: GraphQLEngine, unsent: UnsentAnswers, meter: OperationMeter) -> None:
        """Create an engine that refuses users without room in `unsent`, and counts the refusals in `meter`."""
        self._engine = engine
        self._unsent = unsent
        self._meter = meter

    def check_caller(self, caller: object | None) -> None:
        """See GraphQLEngine."""
        self._engine.check_caller(caller)

    async def prepare(self, request: GraphQLRequest, caller: object | None) -> OperationHandle:
        """See GraphQLEngine."""
        return await self._engine.prepare(request, caller)

    def execute(
        self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext
    ) -> Coroutine[Any, Any, Json]:
        """See GraphQLEngine. Raises AnswerRefused at once."""
        self._check(context)
        return self._engine.execute(prepared, request, context)

    def subscribe(
        self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext
    ) -> Coroutine[Any, Any, LiveResponses]:
        """See GraphQLEngine. Raises AnswerRefused at once."""
        self._check(context)
        return self._engine.subscribe(prepared, request, context)

    def _check(self, context: ConnectionContext) -> None:
        # Usually no answers wait, so the user is not looked up.
        if self._unsent.total and not self._unsent.has_room(user_of(context.caller), LARGE_BYTES):
            self._unsent.refused += 1
            refusal = AnswerRefused()
            self._meter.record_refusal(code_of_errors(refusal.errors))
            raise refusal


def user_of(caller: object | None) -> str | None:
    """Return the user whose answers are counted; None for anonymous clients."""
    return caller.user_id if isinstance(caller, Caller) else None

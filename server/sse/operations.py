"""Operations of event streams: subscriptions, and queries and mutations with a single response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from server.http.response import should_retry
from server.overload.shielded_mutations import ShieldedMutations
from subscriptions.realtime.unsent_answers import LARGE_BYTES, HeldBytes, UnsentAnswers
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLEngine,
    GraphQLRequest,
    Json,
    OperationHandle,
    RequestRefused,
    StreamEnded,
    encode,
    unread_answers_error,
)


async def start_operation(
    engine: GraphQLEngine,
    prepared: OperationHandle,
    request: GraphQLRequest,
    context: ConnectionContext,
    mutations: ShieldedMutations,
) -> EventStream:
    """Start an operation. A subscription receives events from the moment this returns.

    A refused subscription is returned as a stream with the errors as its single response. Raises RequestRefused if
    clients should retry.
    """
    if prepared.kind == "subscription":
        try:
            return await engine.subscribe(prepared, request, context)
        except RequestRefused as refusal:
            if should_retry(refusal.errors):
                raise
            return error_stream(refusal.errors)
    execution = engine.execute(prepared, request, context)
    if prepared.kind == "mutation":
        return SingleResponseStream(mutations.start(execution), on_close=lambda: None)
    query = asyncio.create_task(execution)
    query.add_done_callback(_retrieve_exception)
    return SingleResponseStream(query, on_close=query.cancel)


class SingleResponseStream:
    """An EventStream with a single response."""

    def __init__(self, response: asyncio.Future[Json], on_close: Callable[[], object]) -> None:
        """Create the stream of a response. `on_close` is called when the stream is closed."""
        self._response: asyncio.Future[Json] | None = response
        self._on_close = on_close
        self._encoded: bytes | None = None
        self._unsent = UnsentAnswers()
        self._user: str | None = None
        self._held: HeldBytes | None = None

    def count_in(self, unsent: UnsentAnswers, user: str | None) -> None:
        """Count the response from its completion until it is taken. A user without room gets RATE_LIMITED instead."""
        self._unsent, self._user = unsent, user
        if self._response is not None:
            self._response.add_done_callback(self._hold)

    def _hold(self, response: asyncio.Future[Json]) -> None:
        if self._response is None or response.cancelled() or response.exception() is not None:
            return
        self._response = None
        self._encoded = encode(response.result())
        size = len(self._encoded)
        if size > LARGE_BYTES and not self._unsent.has_room(self._user, size):
            self._discard()
        else:
            self._held = self._unsent.hold(self._user, size, self._discard)

    def _discard(self) -> None:
        self._encoded = encode({"errors": [unread_answers_error()]})

    def take(self) -> bytes | None:
        """See EventStream. Raises the exception of the execution."""
        if self._response is not None:
            if not self._response.done():
                return None
            response, self._response = self._response, None
            return encode(response.result())
        if self._encoded is None:
            raise StreamEnded
        self._unsent.release(self._held)
        encoded, self._encoded = self._encoded, None
        return encoded

    def on_ready(self, call: Callable[[], None]) -> None:
        """See EventStream."""
        if self._response is None:
            asyncio.get_running_loop().call_soon(call)
        else:
            self._response.add_done_callback(lambda _response: call())

    def close(self) -> None:
        """See EventStream."""
        self._unsent.release(self._held)
        self._response = self._encoded = None
        self._on_close()


def error_stream(errors: list[Json]) -> EventStream:
    """Return a stream with the errors of an operation that did not begin."""
    response: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
    response.set_result({"errors": errors})
    return SingleResponseStream(response, on_close=lambda: None)


def _retrieve_exception(task: asyncio.Task[Json]) -> None:
    if not task.cancelled():
        task.exception()

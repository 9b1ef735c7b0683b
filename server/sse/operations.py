"""Operations whose responses go into an event stream: a subscription, or a query or mutation with its one response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from server.http.response import is_worth_another_try
from server.overload.shielded_mutations import ShieldedMutations
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLEngine,
    GraphQLRequest,
    Json,
    Prepared,
    RequestRefused,
    StreamEnded,
    encode,
)


async def begin(
    engine: GraphQLEngine,
    prepared: Prepared,
    request: GraphQLRequest,
    context: ConnectionContext,
    mutations: ShieldedMutations,
) -> EventStream:
    """Starts an operation. A subscription is attached once this returns; where it is refused, that is its one response.

    Raises RequestRefused where clients should try again.
    """
    if prepared.kind == "subscription":
        try:
            return await engine.subscribe(prepared, request, context)
        except RequestRefused as refusal:
            if is_worth_another_try(refusal.errors):
                raise
            return refused(refusal.errors)
    execution = engine.execute(prepared, request, context)
    if prepared.kind == "mutation":
        return SingleResponseStream(mutations.begin(execution), abandoned=lambda: None)
    query = asyncio.create_task(execution)
    query.add_done_callback(_seen)
    return SingleResponseStream(query, abandoned=query.cancel)


class SingleResponseStream:
    """An EventStream of a single response, once that is there."""

    def __init__(self, response: asyncio.Future[Json], abandoned: Callable[[], object]) -> None:
        """`abandoned` is called when nobody wants it any more."""
        self._response = response
        self._abandoned = abandoned
        self._taken = False

    def take(self) -> bytes | None:
        """See EventStream. Raises what the execution raised."""
        if self._taken:
            raise StreamEnded
        if not self._response.done():
            return None
        self._taken = True
        return encode(self._response.result())

    def on_ready(self, call: Callable[[], None]) -> None:
        """See EventStream."""
        self._response.add_done_callback(lambda _response: call())

    def close(self) -> None:
        """See EventStream."""
        self._abandoned()


def refused(errors: list[Json]) -> EventStream:
    """The response of an operation that never began."""
    response: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
    response.set_result({"errors": errors})
    return SingleResponseStream(response, abandoned=lambda: None)


def _seen(task: asyncio.Task[Json]) -> None:
    if not task.cancelled():
        task.exception()

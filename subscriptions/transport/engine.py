"""What the transports need of a GraphQL engine. `schema.execution.engine` implements it; HTTP and WebSocket speak to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import orjson

from subscriptions.realtime.mailboxes import QueueBudget

Json = dict[str, Any]
"""A GraphQL response map (`data`, `errors`, `extensions`), ready for a JSON encoder."""

OperationKind = Literal["query", "mutation", "subscription"]


@dataclass(frozen=True, slots=True)
class GraphQLRequest:
    """One request as it came, its shape checked by the transport and its meaning not yet. `document_id` names a document that was
    registered; `query` is empty then."""

    query: str
    variables: Json | None = None
    operation_name: str | None = None
    document_id: str | None = None


class LiveConnection(Protocol):
    """A connection that lasts on the strength of a token, as operations on it may change it."""

    async def judge(self, token: str) -> object:
        """Whom a token speaks for, as the authenticator says it. Changes nothing; raises whatever the authenticator does."""
        ...

    @property
    def caller(self) -> object | None:
        """Who starts operations now."""
        ...

    def asked_to_renew(self) -> int:
        """A number past that of every renewal asked for before."""
        ...

    def renew(self, expires_at: float | None, caller: object | None, asked: int | None = None) -> bool:
        """A new token: `caller` is who starts operations from now on, `expires_at` when the connection ends (seconds since
        the epoch; None: never). Operations at work go on.

        False, and nothing is changed, where that time has passed or the connection has ended. Nothing is changed either where
        one was renewed with that was asked for later than this one, by `asked`: the client's last word counts.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """Who asks, and on what. One per HTTP request or WebSocket connection.

    `caller` is whatever the authenticator returned (None: nobody); the transport never looks into it.
    `connection` is the WebSocket connection's own object, None over HTTP, server-sent events included. `room` is what all its
    subscriptions share for events that wait.
    """

    caller: object | None
    request_id: str
    connection: LiveConnection | None = None
    queue_budget: QueueBudget = field(default_factory=QueueBudget)


def error(message: str, code: str, *, retryable: bool = False, **more: str | int | None) -> Json:
    """A formatted GraphQL error with the contract's extensions. Those that are None are left out."""
    present = {name: value for name, value in more.items() if value is not None}
    return {"message": message, "extensions": {"code": code, "retryable": retryable, **present}}


class RequestRefused(Exception):
    """The operation never began: syntax, validation, limits, a bad variable. Carries formatted GraphQL errors."""

    def __init__(self, errors: list[Json]) -> None:
        super().__init__(errors)
        self.errors = errors


class Prepared(Protocol):
    """A parsed and validated operation. Shared between requests: immutable."""

    @property
    def kind(self) -> OperationKind: ...

    @property
    def root(self) -> str:
        """The name of its one root field; "several" where there are more."""
        ...


def encode(response: Json) -> bytes:
    """A response map as JSON in UTF-8."""
    try:
        return orjson.dumps(response)
    except orjson.JSONEncodeError:
        # Whole numbers past 64 bits, lone surrogates and depths past 254 are legal JSON all the same.
        return json.dumps(response, separators=(",", ":")).encode()


class StreamEnded(Exception):
    """A subscription is over: nothing follows."""


class EventStream(Protocol):
    """A subscription's responses, in order. They are taken, not awaited: who writes them does so as fast as they are read, and
    needs no task to wait for the next."""

    def take(self) -> bytes | None:
        """The next response, as JSON in UTF-8; None while there is none.

        Raises StreamEnded at the end, RequestRefused where it fails, once and for all.
        """
        ...

    def on_ready(self, call: Callable[[], None]) -> None:
        """`call` is made on the loop when `take` answered None and may have something now; perhaps once too often. Replaces the
        one given before."""
        ...

    def close(self) -> None:
        """End it at once. Idempotent; to be called by whoever was given the stream, also when it has ended by itself."""
        ...


async def responses(stream: EventStream) -> AsyncIterator[bytes]:
    """What a stream holds, one after the other, until its end; it is closed then. Raises RequestRefused."""
    ready = asyncio.Event()
    stream.on_ready(ready.set)
    try:
        while True:
            ready.clear()
            response = stream.take()
            if response is None:
                await ready.wait()
            else:
                yield response
    except StreamEnded:
        return
    finally:
        stream.close()


class GraphQLEngine(Protocol):
    """Executes operations. All methods are safe to call concurrently. What `prepare` answered is to be given to the same
    engine's other methods."""

    def prepare(self, request: GraphQLRequest) -> Prepared:
        """Parse, validate, pick the operation. Cached by document. Raises RequestRefused."""
        ...

    async def execute(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """Run a query or mutation to its end. Failures are in the response; raises RequestRefused for
        variables that don't fit their types (nothing has run then)."""
        ...

    async def subscribe(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> EventStream:
        """Start a subscription. Once this returns, no event that happens afterwards is missed. Raises RequestRefused when it
        can't start."""
        ...

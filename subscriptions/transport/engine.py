"""The interface between the transports and the GraphQL engine. `schema.execution.engine` implements it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import orjson

from subscriptions.presence.connected_devices import DeviceConnection
from subscriptions.realtime.mailboxes import QueueBudget

Json = dict[str, Any]
"""A GraphQL response map (`data`, `errors`, `extensions`) that can be encoded as JSON."""

OperationKind = Literal["query", "mutation", "subscription"]

_UNREAD_RETRY_AFTER_MS = 1_000
"""Sent with refusals of users whose answers wait to be read."""


@dataclass(frozen=True, slots=True)
class GraphQLRequest:
    """One request as the client sent it. The transport has checked its form, but not its meaning.

    `document_id` names a persisted operation; `query` is empty then.
    """

    query: str
    variables: Json | None = None
    operation_name: str | None = None
    document_id: str | None = None


class LiveConnection(Protocol):
    """A connection that lasts as long as its token, for operations that give it a new one."""

    async def authenticate_token(self, token: str) -> object:
        """Return the caller of a token. Changes nothing. Raises the authenticator's exceptions."""
        ...

    @property
    def caller(self) -> object | None:
        """The caller of operations that start from now on."""
        ...

    @property
    def device(self) -> DeviceConnection | None:
        """The connection as one of a user's device; None without a token."""
        ...

    def next_renewal_number(self) -> int:
        """Return a number greater than those of all earlier renewals."""
        ...

    def renew(self, expires_at: float | None, caller: object | None, number: int | None = None) -> bool:
        """Give the connection a new token. Running operations continue.

        Args:
            expires_at: Time at which the connection ends, in seconds since the Unix epoch; None: never.
            caller: The caller of operations that start from now on.
            number: From `next_renewal_number`. A renewal has no effect after one with a greater number, so that the
                client's last request counts.

        Returns:
            False if nothing was changed because `expires_at` has passed or the connection has ended.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """The caller and the connection of operations. There is one per HTTP request or WebSocket connection.

    Attributes:
        caller: The result of the authenticator, which transports do not inspect. None without a token.
        request_id: Names the request or connection in the log.
        connection: The WebSocket connection; None over HTTP and for server-sent events.
        queue_budget: The events that may wait, over all subscriptions of the connection.
    """

    caller: object | None
    request_id: str
    connection: LiveConnection | None = None
    queue_budget: QueueBudget = field(default_factory=QueueBudget)


def make_error(message: str, code: str, *, retryable: bool = False, **extensions: str | int | None) -> Json:
    """Return a formatted GraphQL error with the contract's extensions. Those that are None are left out."""
    present = {name: value for name, value in extensions.items() if value is not None}
    return {"message": message, "extensions": {"code": code, "retryable": retryable, **present}}


class RequestRefused(Exception):
    """Raised if an operation is not started: syntax, validation, limits, variables. Holds formatted GraphQL errors."""

    def __init__(self, errors: list[Json]) -> None:
        super().__init__(errors)
        self.errors = errors


def unread_answers_error() -> Json:
    """Return the error for a user who does not read the answers."""
    message = "Earlier answers of this user wait to be read. Read them, or close their connections, and try again."
    return make_error(message, "RATE_LIMITED", retryable=True, retryAfterMs=_UNREAD_RETRY_AFTER_MS)


class AnswerRefused(RequestRefused):
    """Raised if there is no room for an answer. A mutation was executed: with an idempotencyKey it can be repeated."""

    def __init__(self) -> None:
        super().__init__([unread_answers_error()])


class OperationHandle(Protocol):
    """A parsed and validated operation of one engine. Immutable, and shared by requests."""

    @property
    def kind(self) -> OperationKind:
        """Query, mutation or subscription."""
        ...

    @property
    def root(self) -> str:
        """The name of the root field; "several" if there are more."""
        ...


def encode(response: Json) -> bytes:
    """Encode a response map as JSON in UTF-8."""
    try:
        return orjson.dumps(response)
    except orjson.JSONEncodeError:
        # Integers above 64 bits, lone surrogates and more than 254 levels are legal JSON, but orjson refuses them.
        return json.dumps(response, separators=(",", ":"), default=_decode_fragment).encode()


def _decode_fragment(value: object) -> Any:
    """Return the value of a fragment, which is encoded JSON that the standard encoder can't copy."""
    if not isinstance(value, orjson.Fragment):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return orjson.loads(orjson.dumps(value))


class StreamEnded(Exception):
    """Raised when a subscription has ended and no response follows."""


class ResponseSink(Protocol):
    """Takes the responses of a subscription while it is writable."""

    @property
    def is_writable(self) -> bool:
        """True if the sink takes a response now."""
        ...

    def write(self, response: bytes) -> None:
        """Take a response as JSON in UTF-8. Called only while the sink is writable. Never waits."""
        ...


class EventStream(Protocol):
    """A subscription's responses, in order.

    Responses are taken, not awaited: a writer takes them as fast as its peer reads, and needs no task to wait for them.
    """

    def take(self) -> bytes | None:
        """Return the next response as JSON in UTF-8; None while there is none.

        Raises:
            StreamEnded: The subscription has ended.
            RequestRefused: The subscription has failed and is over.
        """
        ...

    def on_ready(self, call: Callable[[], None]) -> None:
        """Set the function to call when `take` has returned None and may return a response again.

        It is called on the event loop, sometimes needlessly. Replaces the earlier function.
        """
        ...

    def close(self) -> None:
        """End the subscription at once. Idempotent. The owner of the stream must call it, also after the end."""
        ...


class LiveResponses(EventStream, Protocol):
    """The responses of a subscription, which can also be written to a sink as they become available."""

    def write_to(self, sink: ResponseSink) -> None:
        """From the time when `take` has returned None, write responses to a sink while it is writable.

        Responses that become available while the sink is not writable, and errors, can be taken as before.
        """
        ...


class GraphQLEngine(Protocol):
    """Executes operations. All methods may be called concurrently."""

    def check_caller(self, caller: object | None) -> None:
        """Check that the caller may execute operations: some engines need a token.

        Transports call it before they read a request. Raises RequestRefused.
        """
        ...

    async def prepare(self, request: GraphQLRequest, caller: object | None) -> OperationHandle:
        """Parse and validate a document, and select the operation. Cached by document. Raises RequestRefused.

        It waits only if the document is not cached. `caller` is the result of the authenticator; None without a token.
        Nothing is cached for such callers.
        """
        ...

    async def execute(self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """Execute a query or mutation to its end. Failures are in the response.

        Raises:
            RequestRefused: Nothing was executed, for example because a variable does not fit its type.
        """
        ...

    async def subscribe(
        self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext
    ) -> LiveResponses:
        """Start a subscription. When this returns, no later event is missed. Raises RequestRefused."""
        ...

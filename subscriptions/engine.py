"""What the transports need of a GraphQL engine. `schema.engine` implements it; HTTP and WebSocket speak to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Json = dict[str, Any]
"""A GraphQL response map (`data`, `errors`, `extensions`), ready for a JSON encoder."""

OperationKind = Literal["query", "mutation", "subscription"]


@dataclass(frozen=True, slots=True)
class GraphQLRequest:
    """One request as it came, its shape checked by the transport and its meaning not yet."""

    query: str
    variables: Json | None = None
    operation_name: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """Who asks, and on what. One per HTTP request or WebSocket connection.

    `caller` is whatever the authenticator returned (None: nobody); the transport never looks into it.
    `connection` is the WebSocket connection's own object, None over HTTP.
    """

    caller: object | None
    request_id: str
    connection: object | None = None


def error(message: str, code: str, *, retryable: bool = False, **more: str | None) -> Json:
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

    async def subscribe(
        self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext
    ) -> AsyncIterator[Json]:
        """Start a subscription. Once this returns, no event that happens afterwards is missed.

        The iterator yields one response map per event. It must be closed (`aclose`) by whoever stops early.
        Raises RequestRefused when it can't start.
        """
        ...

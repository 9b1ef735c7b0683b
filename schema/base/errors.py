"""Formats failures for clients: GraphQL errors with extensions.code, retryable, and the invalid field."""

from __future__ import annotations

import re
import secrets
from enum import Enum
from typing import Any

import strawberry
import structlog
from graphql import GraphQLError

from resolvers.base.errors import ConfabError
from store.base.errors import LockTimeout, StoreError
from subscriptions.transport.engine import RequestRefused

_log = structlog.get_logger()

_MAX_MESSAGE_CHARACTERS = 500
"""Messages may quote a document. graphql-core quotes all of it."""
_MAX_LOCATIONS = 5
_MAX_ERRORS = 10
"""Errors in the refusal of one operation."""

NO_REQUEST = "-"
"""The request id in log entries that belong to no request."""

# graphql-core names the invalid input only in the message.
_INVALID_INPUT = re.compile(
    r"""Variable\ '\$(?P<variable>\w+)'\ has\ invalid\ value
        (?: \ at\ (?:\[\d+\])*\.(?P<inside>\w+)
          | .*?\ (?:required|unknown)\ field\ '(?P<named>\w+)' )?
      | Argument\ '[\w.]+\((?P<argument>\w+):\)'""",
    re.VERBOSE,
)


@strawberry.enum(description="The closed list behind extensions.code.")
class ErrorCode(Enum):
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    INVALID_INPUT = "INVALID_INPUT"
    RATE_LIMITED = "RATE_LIMITED"
    QUERY_TOO_COMPLEX = "QUERY_TOO_COMPLEX"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    NOT_A_MEMBER = "NOT_A_MEMBER"
    RECALL_TIMEOUT = "RECALL_TIMEOUT"
    GROUP_TOO_SMALL = "GROUP_TOO_SMALL"
    GROUP_FULL = "GROUP_FULL"
    OWNER_CANNOT_LEAVE = "OWNER_CANNOT_LEAVE"
    PRIVATE_CANNOT_DELETE = "PRIVATE_CANNOT_DELETE"
    SLOW_MODE = "SLOW_MODE"
    BLOCKED = "BLOCKED"
    BANNED = "BANNED"
    ARCHIVED = "ARCHIVED"
    LIMIT_REACHED = "LIMIT_REACHED"
    TOO_LARGE = "TOO_LARGE"
    REJECTED = "REJECTED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


def format_error(error: GraphQLError, request_id: str) -> dict[str, Any]:
    """Return an error of the response.

    An unexpected exception is logged. The client gets INTERNAL with a correlation id that finds the log entry.
    """
    formatted: dict[str, Any] = {"message": error.message}
    if error.locations:
        formatted["locations"] = [
            {"line": location.line, "column": location.column} for location in error.locations[:_MAX_LOCATIONS]
        ]
    if error.path is not None:
        formatted["path"] = list(error.path)
    original = error.original_error
    while isinstance(original, GraphQLError) and original.original_error is not None:
        original = original.original_error
    match original:
        case ConfabError():
            extensions: dict[str, Any] = {"code": original.code, "retryable": original.retryable}
            if original.field is not None:
                extensions["field"] = original.field
            if original.retry_after_ms is not None:
                extensions["retryAfterMs"] = original.retry_after_ms
            formatted["message"] = original.message
        case StoreError():
            _log.warning("store_failed", request_id=request_id, reason=str(original))
            is_locked = isinstance(original, LockTimeout)
            formatted["message"] = (
                "Too many changes at once. Try again."
                if is_locked
                else "The service cannot answer at the moment. Try again."
            )
            extensions = {"code": ErrorCode.UNAVAILABLE.value, "retryable": True}
        case None | GraphQLError():
            extensions = {"code": ErrorCode.INVALID_INPUT.value, "retryable": False} | (error.extensions or {})
            field = _invalid_field(error.message)
            if field is not None:
                extensions.setdefault("field", field)
        case _:
            correlation_id = secrets.token_hex(8)
            _log.error(
                "request_failed",
                request_id=request_id,
                correlation_id=correlation_id,
                path=error.path,
                exc_info=original,
            )
            formatted["message"] = "Something went wrong on the server."
            extensions = {"code": ErrorCode.INTERNAL.value, "retryable": False, "correlationId": correlation_id}
    if len(formatted["message"]) > _MAX_MESSAGE_CHARACTERS:
        formatted["message"] = formatted["message"][: _MAX_MESSAGE_CHARACTERS - 1] + "…"
    formatted["extensions"] = extensions
    return formatted


def refusal_for(failure: Exception) -> RequestRefused:
    """Return the refusal that ends a subscription after a failure."""
    if isinstance(failure, RequestRefused):
        # A new exception: a raised one keeps its frames alive, and this may be raised for many subscribers.
        return RequestRefused(failure.errors)
    return refused([GraphQLError(str(failure), original_error=failure)])


def refused(errors: list[GraphQLError]) -> RequestRefused:
    """Return the refusal of an operation that was not started."""
    return RequestRefused([format_error(error, NO_REQUEST) for error in errors[:_MAX_ERRORS]])


def _invalid_field(message: str) -> str | None:
    """Return the argument, or the field of an input, that an error message of graphql-core names."""
    found = _INVALID_INPUT.match(message)
    return found and (found["named"] or found["inside"] or found["argument"] or found["variable"])

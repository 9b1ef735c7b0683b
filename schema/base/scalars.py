"""The scalars of the contract: Timestamp, DateTime, JSON and Cursor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NewType

import orjson
import strawberry
from graphql import (
    BooleanValueNode,
    FloatValueNode,
    GraphQLError,
    IntValueNode,
    ListValueNode,
    NullValueNode,
    ObjectValueNode,
    StringValueNode,
    ValueNode,
    VariableNode,
)
from strawberry.schema.config import StrawberryConfig

Timestamp = NewType("Timestamp", int)
DateTime = NewType("DateTime", int)
"""Milliseconds since the Unix epoch, written as ISO 8601."""
Cursor = NewType("Cursor", str)
JSON = NewType("JSON", object)
"""As an argument: the decoded value. As a field: the encoded text, which is copied into the response."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DAY_MS = 86_400_000
_MINUTES = [f"{minute // 60:02d}:{minute % 60:02d}:" for minute in range(24 * 60)]
_SECONDS = [f"{second:02d}." for second in range(60)]
_MILLISECONDS = [f"{ms:03d}Z" for ms in range(1000)]


def write_datetime(ms: int) -> str:
    """Return a time as ISO 8601 in UTC: 2026-01-02T03:04:05.678Z."""
    day, of_day = divmod(ms, _DAY_MS)
    minute, of_minute = divmod(of_day, 60_000)
    second, of_second = divmod(of_minute, 1000)
    return _date(day) + _MINUTES[minute] + _SECONDS[second] + _MILLISECONDS[of_second]


@lru_cache(maxsize=1_000)
def _date(day: int) -> str:
    """Return the date of a day since the epoch, and the letter that separates it from the time."""
    return (_EPOCH + timedelta(days=day)).strftime("%Y-%m-%dT")


def parse_datetime(value: object) -> int:
    """Return milliseconds since the Unix epoch.

    Raises:
        GraphQLError: The value is not an ISO 8601 time with a time zone.
    """
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise GraphQLError("DateTime must be ISO 8601 with a zone, such as 2026-01-02T03:04:05.678Z.")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _parse_timestamp(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise GraphQLError("Timestamp must be a whole number of milliseconds below 2^53.")
    return value


def _parse_cursor(value: object) -> str:
    if not isinstance(value, str):
        raise GraphQLError("Cursor must be a string.")
    return value


def _unchanged(value: object) -> object:
    return value


def parse_json_literal(node: ValueNode, variables: dict[str, Any] | None = None) -> object:
    """Return the JSON value of a literal in a document, with the values of the variables inside it.

    A variable without a value is null in a list, and leaves out its field in an object. The parser limits the depth.

    Raises:
        GraphQLError: The literal contains an enum value, or a number that JSON can't hold.
    """
    values = variables or {}
    match node:
        case VariableNode():
            return values.get(node.name.value)
        case ObjectValueNode():
            return {
                field.name.value: parse_json_literal(field.value, variables)
                for field in node.fields
                if not isinstance(field.value, VariableNode) or field.value.name.value in values
            }
        case ListValueNode():
            return [parse_json_literal(item, variables) for item in node.values]
        case StringValueNode() | BooleanValueNode():
            return node.value
        case NullValueNode():
            return None
        case IntValueNode() | FloatValueNode():
            try:
                return int(node.value) if isinstance(node, IntValueNode) else orjson.loads(node.value)
            except ValueError:
                raise GraphQLError("JSON must not contain a number beyond the range of a double.") from None
        case _:
            raise GraphQLError("JSON must not contain enum values; write a string.")


CONFIG = StrawberryConfig(
    disable_field_suggestions=True,
    scalar_map={
        Timestamp: strawberry.scalar(
            name="Timestamp",
            description="Milliseconds since the Unix epoch on the server's clock, as a JSON number below 2^53.",
            serialize=int,
            parse_value=_parse_timestamp,
        ),
        DateTime: strawberry.scalar(
            name="DateTime",
            description="ISO 8601 in UTC with milliseconds, for example 2026-01-02T03:04:05.678Z.",
            serialize=write_datetime,
            parse_value=parse_datetime,
        ),
        JSON: strawberry.scalar(
            name="JSON",
            description="Any JSON value. Where clients store it: at most 8 KiB when encoded, at most 8 levels deep (a "
            "scalar is level 0); else INVALID_INPUT.",
            serialize=orjson.Fragment,
            parse_value=_unchanged,
            parse_literal=parse_json_literal,
        ),
        Cursor: strawberry.scalar(
            name="Cursor",
            description="Opaque position on the caller's own clock, valid on any server of the deployment. Cursors "
            "from syncSessions and from subscriptions are interchangeable. Session state can be caught up from a "
            "cursor up to 30 days old. Events are replayed individually for at least the user's last 1,000 events of "
            "the last 24 hours. If a cursor cannot be resumed exactly (too old, another user's, malformed), nothing "
            "is skipped silently: the answer has reset: true and carries what a new client would get.",
            serialize=str,
            parse_value=_parse_cursor,
        ),
    },
)

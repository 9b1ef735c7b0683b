"""The scalars of the contract: Timestamp, DateTime and Cursor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NewType

import strawberry
from graphql import GraphQLError
from strawberry.schema.config import StrawberryConfig

Timestamp = NewType("Timestamp", int)
DateTime = NewType("DateTime", int)
"""Milliseconds since the Unix epoch, written as ISO 8601."""
Cursor = NewType("Cursor", str)

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

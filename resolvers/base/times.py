"""Checks of times that clients send."""

from __future__ import annotations

from datetime import UTC, datetime

from resolvers.base.errors import InvalidInput

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, the last time that DateTime can express."""


def check_future(time_ms: int | None, now_ms: int, field: str) -> None:
    """Raise InvalidInput for a time that has come, or that DateTime cannot express. None is no time."""
    if time_ms is not None and not now_ms < time_ms <= LATEST_MS:
        raise InvalidInput(f"{field} must be in the future", field=field)


def check_time(time_ms: int | None, field: str) -> None:
    """Raise InvalidInput for a time before 1970, or one that DateTime cannot express. None is no time."""
    if time_ms is not None and not 0 <= time_ms <= LATEST_MS:
        raise InvalidInput(f"{field} must be between the years 1970 and 9999", field=field)


def iso_text(time_ms: int) -> str:
    """Return a time in the form of DateTime: ISO 8601 in UTC with milliseconds."""
    time = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


def iso_text_or_none(time_ms: int | None) -> str | None:
    """Return a time in the form of DateTime; None if there is none."""
    return iso_text(time_ms) if time_ms is not None else None

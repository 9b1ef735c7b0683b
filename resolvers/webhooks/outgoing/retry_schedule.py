"""When an event is sent again: the schedule that Standard Webhooks recommends, and what endpoints ask for."""

from __future__ import annotations

import random
from datetime import UTC
from email.utils import parsedate_to_datetime

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS

DELAYS_MS = (
    5 * _SECOND_MS,
    5 * _MINUTE_MS,
    30 * _MINUTE_MS,
    2 * _HOUR_MS,
    5 * _HOUR_MS,
    10 * _HOUR_MS,
    14 * _HOUR_MS,
    20 * _HOUR_MS,
    24 * _HOUR_MS,
)
"""Time between an attempt that failed and the next one. The last one repeats."""

JITTER = 0.1
"""Largest part of a delay that is added at random, so that endpoints which return do not get everything at once."""

PAUSED_AFTER_MS = 5 * 24 * _HOUR_MS
"""Time without any success after which a webhook is PAUSED."""

OUTAGE_FAILURES = 8
"""Failures in a row from which on the endpoint as a whole counts as down: one event at a time tries it."""

_HOLD_MS = (5 * _SECOND_MS, 5 * _MINUTE_MS)
"""The first and the longest pause between two attempts while an endpoint is down."""

_LONGEST_WISH_MS = 24 * _HOUR_MS


def delay_ms(failures: int, chance: random.Random) -> int:
    """Return the time until the next attempt. failures: failed attempts, this one included."""
    delay = DELAYS_MS[min(failures, len(DELAYS_MS)) - 1]
    return delay + int(delay * JITTER * chance.random())


def hold_ms(failures: int) -> int:
    """Return the time for which nothing is sent to a webhook. failures: in a row, this one included."""
    if failures < OUTAGE_FAILURES:
        return 0
    first, longest = _HOLD_MS
    return min(first << min(failures - OUTAGE_FAILURES, 16), longest)


def parse_retry_after(text: str | None, now_ms: int) -> int:
    """Return the time (ms) for which an endpoint asks for a pause: seconds, or a date. 0: not at all, or not readable.

    At most 24 hours.
    """
    if text is None:
        return 0
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * _SECOND_MS, _LONGEST_WISH_MS)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return 0
    until_ms = int((date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp() * 1000)
    return max(0, min(until_ms - now_ms, _LONGEST_WISH_MS))

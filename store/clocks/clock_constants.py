"""Constants that the Lua scripts on shared clocks take from Python."""

from __future__ import annotations

LOG_LENGTH = 10_000
"""Events in the log of a shared clock, roughly; and the largest number of elements of its lists."""

IDLE_MS = 24 * 3600 * 1000
"""Time after its last use at which a shared clock is dropped."""

TOUCH_INTERVAL_MS = 3600 * 1000
"""Interval at which a clock that is used gets more time to live."""

ENTRIES_MS = 60_000
"""Time for which the entries of a log are in a set of their own, after a search for one of them."""

LEAD_MS = 30_000
"""A new epoch begins this much ahead of time.

So the ticks of a lost epoch are below it, even if a server whose time is fast appended them and one whose time is slow
begins the new epoch. Exceptions: their times differ by more than this, or the clock had more than one event per
millisecond since it was lost before.
"""


def clock_literals() -> dict[str, str]:
    """Return the Lua literal of each constant."""
    return {
        "CLOCK_LOG_LENGTH": str(LOG_LENGTH),
        "CLOCK_IDLE_MS": str(IDLE_MS),
        "CLOCK_TOUCH_INTERVAL_MS": str(TOUCH_INTERVAL_MS),
        "CLOCK_ENTRIES_MS": str(ENTRIES_MS),
        "CLOCK_LEAD_MS": str(LEAD_MS),
    }

"""DateTime is written as Python's own ISO 8601 form."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from schema.base.scalars import parse_datetime, write_datetime

LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""


def test_times_are_written_in_utc_with_milliseconds() -> None:
    rng = random.Random(1)
    for ms in (0, 1, 59_999, 86_399_999, 86_400_000, LAST_MS, *(rng.randrange(LAST_MS) for _ in range(5_000))):
        expected = datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
        text = write_datetime(ms)
        assert text == expected.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert parse_datetime(text) == ms

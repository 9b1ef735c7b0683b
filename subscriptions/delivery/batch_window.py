"""Who is about to come: those that are there already wait a moment for them, to go together. Half as many writes go out, and
none of them later for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_A_MOMENT = 0.002


class BatchWindow:
    """`with coming:` while somebody is on the way. Any number may be, each in its own task."""

    def __init__(self) -> None:
        self._count = 0
        self._all_came = asyncio.Event()

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self._all_came.set()

    async def wait(self, seconds: float = _A_MOMENT) -> None:
        """Until all are there, so long at the most. No time passes where nobody is on the way."""
        if not self._count:
            return
        self._all_came.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_came.wait()

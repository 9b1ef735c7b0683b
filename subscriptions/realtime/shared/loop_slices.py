"""Slices of a long loop, so that it does not hold the event loop."""

from __future__ import annotations

import asyncio
from time import perf_counter

_SLICE_SECONDS = 0.005


class LoopSlices:
    """Lets the event loop run other tasks whenever a slice of 5 ms has passed."""

    def __init__(self) -> None:
        """Begin the first slice."""
        self._end = perf_counter() + _SLICE_SECONDS

    async def next(self) -> None:
        """Let other tasks run if the slice is over. Call it before each step of the loop."""
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + _SLICE_SECONDS

"""uvicorn's server with fewer wake-ups of the event loop."""

from __future__ import annotations

import asyncio
from types import FrameType

import uvicorn

_HEADER_SECONDS = 1.0
"""Interval at which the Date header of responses is renewed."""

_TICKS_PER_HEADER = 10
"""uvicorn renews the header at every tenth tick."""


class EventDrivenServer(uvicorn.Server):
    """Wakes up once a second, and on a signal. uvicorn looks ten times a second whether it has to stop."""

    _woken: asyncio.Event | None = None

    async def main_loop(self) -> None:
        """Serve until `should_exit` is set."""
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(_TICKS_PER_HEADER):
            try:
                async with asyncio.timeout(_HEADER_SECONDS):
                    await self._woken.wait()
                    self._woken.clear()
            except TimeoutError:
                continue

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at once: a signal handler runs between two steps of the loop."""
        super().handle_exit(sig, frame)
        self.wake()

    def wake(self) -> None:
        """Look at `should_exit` at once."""
        if self._woken is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

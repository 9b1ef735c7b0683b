"""Whether there is still somebody at the other end: pings, and what happens when nothing comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from subscriptions.transport.frame_writer import FrameWriter
from subscriptions.transport.frames import PING_FRAME

_PING = PING_FRAME.encode()

SECOND_LOOK = 1.0
"""Seconds that a loop which was held up has to read what came in time, before the peer is taken for dead."""


class KeepAlive:
    """Pings a peer every `interval` seconds, and calls `on_silence` where no frame came within `patience` seconds
    of a ping (one second more at the most). One timer, and no task."""

    def __init__(self, writer: FrameWriter, interval: float, patience: float, on_silence: Callable[[], None]) -> None:
        self._writer = writer
        self._interval = interval
        self._patience = min(patience, interval)
        self._on_silence = on_silence
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._pinged_at = self._heard_at
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def heard(self) -> None:
        """A frame came, of whatever kind."""
        self._heard_at = self._loop.time()

    def start(self) -> None:
        """The first ping follows after an interval."""
        self._after(self._interval, self._ping)

    def stop(self) -> None:
        """No more pings."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _ping(self) -> None:
        if self._stopped:
            return
        if self._writer.is_free:
            self._writer.put(_PING)
            self._pinged()
        else:
            # The ping takes its turn; the writer ends a connection that makes no room.
            self._writer.in_turn(self._ping)

    def _pinged(self) -> None:
        self._pinged_at = self._loop.time()
        self._after(self._patience, self._look)

    def _look(self) -> None:
        if self._heard_at >= self._pinged_at:
            self._after(self._pinged_at + self._interval - self._loop.time(), self._ping)
        else:
            self._after(min(SECOND_LOOK, self._patience), self._look_again)

    def _look_again(self) -> None:
        if self._heard_at >= self._pinged_at:
            self._look()
        else:
            self._on_silence()

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        self._timer = self._loop.call_later(seconds, call)

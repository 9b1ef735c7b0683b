"""Detects dead peers with pings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from subscriptions.transport.frame_writer import FrameWriter
from subscriptions.transport.frames import PING_FRAME

_PING = PING_FRAME.encode()

GRACE_SECONDS = 1.0
"""Extra time before a peer counts as dead. An event loop that was held up reads frames that arrived in time."""


class KeepAlive:
    """Pings a peer, and calls `on_silence` if no frame follows a ping. Uses one timer and no task.

    The call is made at most GRACE_SECONDS after the timeout.
    """

    def __init__(
        self,
        writer: FrameWriter,
        interval_seconds: float,
        timeout_seconds: float,
        on_silence: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._interval = interval_seconds
        self._timeout = min(timeout_seconds, interval_seconds)
        self._on_silence = on_silence
        self._loop = asyncio.get_running_loop()
        self._last_frame_at = self._loop.time()
        self._pinged_at = self._last_frame_at
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def on_frame(self) -> None:
        """Note that the peer sent a frame of any kind."""
        self._last_frame_at = self._loop.time()

    def start(self) -> None:
        """Start to ping. The first ping follows after an interval."""
        self._start_timer(self._interval, self._ping)

    def stop(self) -> None:
        """Send no more pings."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _ping(self) -> None:
        if self._is_stopped:
            return
        if self._writer.is_writable:
            self._writer.write_soon(_PING)
            self._pinged_at = self._loop.time()
            self._start_timer(self._timeout, self._check)
        else:
            # The ping waits like other frames. The writer ends the connection of a peer that does not read.
            self._writer.call_when_writable(self._ping)

    def _check(self) -> None:
        if self._last_frame_at >= self._pinged_at:
            self._start_timer(self._pinged_at + self._interval - self._loop.time(), self._ping)
        else:
            self._start_timer(min(GRACE_SECONDS, self._timeout), self._check_after_grace)

    def _check_after_grace(self) -> None:
        if self._last_frame_at >= self._pinged_at:
            self._check()
        else:
            self._on_silence()

    def _start_timer(self, seconds: float, call: Callable[[], None]) -> None:
        self._timer = self._loop.call_later(seconds, call)

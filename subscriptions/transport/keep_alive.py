"""Detects dead peers with pings."""

from __future__ import annotations

from collections.abc import Callable

from subscriptions.transport.frame_writer import FrameWriter
from subscriptions.transport.frames import PING_FRAME
from subscriptions.transport.server_frames import text_frame
from subscriptions.transport.timer_wheel import TimerWheel, WheelTimer

_PING = text_frame(PING_FRAME.encode())
"""The bytes of a ping on the wire: the same for every peer."""

GRACE_SECONDS = 1.0
"""Extra time before a peer counts as dead. An event loop that was held up reads frames that arrived in time."""


class KeepAlive:
    """Pings a peer, and calls `on_silence` if no frame follows a ping. Uses one timer of the wheel and no task.

    The interval is at most as long as given. The call is made at most GRACE_SECONDS after the timeout.
    """

    __slots__ = ("_call_on_silence", "_interval", "_pinged_at", "_timeout", "_timer", "_wheel", "_writer")

    def __init__(
        self,
        wheel: TimerWheel,
        writer: FrameWriter,
        interval_seconds: float,
        timeout_seconds: float,
        on_silence: Callable[[], None],
    ) -> None:
        self._wheel = wheel
        self._writer = writer
        self._interval = interval_seconds
        self._timeout = min(timeout_seconds, interval_seconds)
        self._call_on_silence = on_silence
        self._pinged_at = 0.0
        self._timer: WheelTimer | None = None

    @property
    def longest_silence_ms(self) -> int:
        """Longest time since the last frame of a peer when it counts as dead."""
        return round((self._interval + self._timeout + min(GRACE_SECONDS, self._timeout)) * 1000)

    def start(self) -> None:
        """Start to ping. The first ping follows after an interval."""
        self._timer = self._wheel.call_after(self._interval, self._ping, early=True)

    def stop(self) -> None:
        """Send no more pings."""
        if self._timer is not None:
            self._wheel.cancel(self._timer)
        self._timer = None

    def _ping(self) -> None:
        if self._timer is None:
            return
        if self._writer.is_writable:
            self._writer.take_sign_of_life()
            self._writer.write_soon(_PING)
            self._pinged_at = self._wheel.now
            self._timer = self._wheel.call_after(self._timeout, self._check)
        else:
            # The ping waits like other frames. The writer ends the connection of a peer that does not read.
            self._writer.call_when_writable(self._ping)

    def _check(self) -> None:
        if self._writer.take_sign_of_life():
            self._ping_after_interval()
        else:
            grace = self._timeout + min(GRACE_SECONDS, self._timeout)
            remaining = self._pinged_at + grace - self._wheel.now
            self._timer = self._wheel.call_after(remaining, self._check_after_grace, early=True)

    def _check_after_grace(self) -> None:
        if self._writer.take_sign_of_life():
            self._ping_after_interval()
        else:
            self._call_on_silence()

    def _ping_after_interval(self) -> None:
        remaining = self._pinged_at + self._interval - self._wheel.now
        self._timer = self._wheel.call_after(remaining, self._ping, early=True)

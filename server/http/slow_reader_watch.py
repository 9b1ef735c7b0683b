"""Finds clients that read their answers too slowly."""

from __future__ import annotations

import array
import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

try:
    import fcntl
    import termios
except ImportError:  # Windows has neither.
    fcntl = termios = None  # type: ignore[assignment]

from server.http.client_limits import ClientLimits

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: on, for 0 seconds."""


def count_unaccepted_bytes(transport: asyncio.WriteTransport) -> int:
    """Return the number of bytes that the peer has not accepted, in this process and in the kernel."""
    count: int = transport.get_write_buffer_size()
    found: Any = transport.get_extra_info("socket")
    if fcntl is None or found is None:
        return count
    queued = array.array("i", [0])
    try:
        fcntl.ioctl(found.fileno(), termios.TIOCOUTQ, queued)
    except (OSError, ValueError):
        # The connection is closed, or the platform does not support TIOCOUTQ.
        return count
    return count + queued[0]


def discard_unaccepted_bytes(transport: asyncio.WriteTransport) -> None:
    """Drop a connection and its bytes in the kernel, which would otherwise wait for a peer that does not read."""
    found: Any = transport.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    transport.abort()


class SlowReaderWatch:
    """Measures the rate at which the client of one connection accepts bytes, while bytes wait for it."""

    def __init__(self, transport: asyncio.WriteTransport, limits: ClientLimits, on_slow: Callable[[], None]) -> None:
        """`on_slow` is called once for a client that is below the minimum rate or exceeds the time limit."""
        self._transport = transport
        self._limits = limits
        self._on_slow = on_slow
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._waiting = 0

    def begin(self) -> None:
        """Start to measure: the client has not accepted all bytes."""
        if self._timer is None:
            self._began = self._loop.time()
            self._start_window()

    def end(self) -> None:
        """Stop measuring: the client has accepted the bytes, or has gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_window(self) -> None:
        self._waiting = count_unaccepted_bytes(self._transport)
        left = self._began + self._limits.answer_seconds - self._loop.time()
        self._timer = self._loop.call_later(max(0.0, min(self._limits.window_seconds, left)), self._end_window)

    def _end_window(self) -> None:
        self._timer = None
        accepted = self._waiting - count_unaccepted_bytes(self._transport)
        is_late = self._loop.time() - self._began >= self._limits.answer_seconds
        if is_late or accepted < self._limits.min_bytes_per_window:
            self._on_slow()
        else:
            self._start_window()

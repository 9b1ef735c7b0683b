"""Writes the frames that connections collect, once per turn of the event loop.

A burst of events makes many frames for each connection. Written one by one, each would cost a system call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

_log = structlog.get_logger()

_WRITES_PER_TURN = 256
"""Connections that are written to before other tasks of the event loop run."""


class JoinedWrites:
    """The connections of a process that have frames to write. It uses one callback of the event loop for all of them.

    A frame is written after the tasks that are ready at present have run. Connections are written to in the order in
    which they were added.
    """

    def __init__(self) -> None:
        self._writes: list[Callable[[], None]] = []
        self._is_scheduled = False

    def add(self, write: Callable[[], None]) -> None:
        """Call `write` once, at the end of the event loop's turn."""
        self._writes.append(write)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        due, self._writes = self._writes[:_WRITES_PER_TURN], self._writes[_WRITES_PER_TURN:]
        if self._writes:
            self._schedule()
        for write in due:
            try:
                write()
            except Exception:
                _log.exception("write_failed")

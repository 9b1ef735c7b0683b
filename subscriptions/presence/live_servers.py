"""The servers that are alive: the devices of a server end with it (ADR 80)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from store.base.clock import Clock
from store.base.errors import StoreError
from store.presence.server_times import KEPT_MS, ServerTime, ServerTimes
from store.presence.shown_presence import ANNOUNCED_AFTER_MS

REPORT_SECONDS = 5.0
"""Interval at which a server reports that it is alive, and reads the reports of others."""

SILENT_AFTER_MS = 30_000
"""A server without a report for this time has ended: its devices depart when this time is over."""

_LONGEST_PAUSE_MS = 15_000
"""A longer time between two reads interrupts the time of others: Redis may have been away for all servers."""

_REPORTS_AFTER_PAUSE = 3
"""Reports after a pause until all servers have certainly read that this one is back."""


class _Report(NamedTuple):
    """The last report of a server. `read_at_ms`: when this process read it first."""

    time: ServerTime
    read_at_ms: int


class LiveServers:
    """The reports of all servers, as this process has read them.

    Time passes for others only while this process reads Redis: while it cannot, no server ends. Afterwards, and after
    the start of this process, silent servers have 30 s to report again.
    """

    def __init__(self, times: ServerTimes, clock: Clock, server: str) -> None:
        """Begin without reports. server: this one, which never ends for itself."""
        self._times = times
        self._clock = clock
        self._server = server
        self._known: dict[str, _Report] = {}
        """The last report of each server. Of a server without any: when it was first asked for."""
        self._ended: dict[str, int] = {}
        self._read_at_ms: int | None = None
        self._reading_since_ms = 0
        """Since when this process has read without a long pause."""
        self._listeners: list[Callable[[Collection[str]], None]] = []
        self._on_return: list[Callable[[], None]] = []
        self._returning = 0
        """Number of reports after a pause that still call `_on_return`."""
        self._lock = asyncio.Lock()
        self._is_closed = False

    def find_end(self, server: str) -> int | None:
        """Return the time (ms) at which a server ended, or None while it is alive. No round trip.

        A server that this process has never read of is alive, until 30 s have passed without a report.
        """
        end_ms = self._ended.get(server)
        if end_ms is None and server not in self._known:
            now_ms = self._clock.now_ms()
            self._known[server] = _Report(ServerTime(now_ms, False), now_ms)
        return end_ms

    def list_shown(self) -> list[str]:
        """Return the servers whose devices are shown: those that are alive, and those that ended a moment ago."""
        now_ms = self._clock.now_ms()
        ends = {server: self._ended.get(server) for server in (self._server, *self._known)}
        return [server for server, end in ends.items() if end is None or now_ms < end + ANNOUNCED_AFTER_MS]

    def on_end(self, call: Callable[[Collection[str]], None]) -> None:
        """Make `call` with servers that have ended, or that have come back. It must not block."""
        self._listeners.append(call)

    def on_return(self, call: Callable[[], None]) -> None:
        """Make `call` after a pause of this process, during which others may have removed its devices.

        It is repeated with the next two reports, until all servers have read that this one is back.
        It must not block.
        """
        self._on_return.append(call)

    async def report(self) -> None:
        """Report that this server is alive, and read the reports of others. Called every 5 s. Raises StoreError."""
        async with self._lock:
            if not self._is_closed:
                self._update(await self._times.report(self._server))

    async def close(self) -> None:
        """Report that this server ends: all its devices depart at this moment. Best effort."""
        async with self._lock:
            self._is_closed = True
            with suppress(StoreError):
                await self._times.report(self._server, has_ended=True)

    def _update(self, times: Mapping[str, ServerTime]) -> None:
        now_ms = self._clock.now_ms()
        if self._read_at_ms is None or now_ms - self._read_at_ms > _LONGEST_PAUSE_MS:
            self._reading_since_ms = now_ms
            self._returning = _REPORTS_AFTER_PAUSE if self._read_at_ms is not None else 0
        self._read_at_ms = now_ms
        if self._returning:
            self._returning -= 1
            for call in self._on_return:
                call()
        # Entries that Redis has lost are still known.
        self._known = {name: known for name, known in self._known.items() if known.read_at_ms > now_ms - KEPT_MS}
        for name, time in times.items():
            known = self._known.get(name)
            if known is None or known.time != time:
                self._known[name] = _Report(time, now_ms)
        former, self._ended = self._ended, self._find_ended(now_ms)
        changed = [name for name in former.keys() | self._ended.keys() if former.get(name) != self._ended.get(name)]
        if changed:
            for listen in self._listeners:
                listen(changed)

    def _find_ended(self, now_ms: int) -> dict[str, int]:
        """Return the ends of servers. Silence is measured by the clock of this process alone."""
        ended = {}
        for name, (time, read_at_ms) in self._known.items():
            if name == self._server:
                continue
            if time.has_ended:
                ended[name] = time.heard_ms
            elif now_ms - max(read_at_ms, self._reading_since_ms) >= SILENT_AFTER_MS:
                ended[name] = time.heard_ms + SILENT_AFTER_MS
        return ended

"""The servers that are alive: the devices of a server end with it (ADR 80)."""

from __future__ import annotations

from collections.abc import Callable, Collection

REPORT_SECONDS = 5.0
"""Interval at which a server reports that it is alive, and reads the reports of others."""

SILENT_AFTER_MS = 30_000
"""A server without a report for this time has ended: its devices depart when this time is over."""


class LiveServers:
    """The reports of all servers, as this process has read them.

    Time passes for others only while this process reads Redis: while it cannot, no server ends.
    """

    def find_end(self, server: str) -> int | None:
        """Return the time (ms) at which a server ended, or None while it is alive. No round trip.

        A server that this process has never read of is alive, until 30 s have passed without a report.
        """
        raise NotImplementedError

    def on_end(self, call: Callable[[Collection[str]], None]) -> None:
        """Make `call` with servers that have ended, or that have come back. It must not block."""
        raise NotImplementedError

    async def report(self) -> None:
        """Report that this server is alive, and read the reports of others. Called every 5 s. Raises StoreError."""
        raise NotImplementedError

    async def close(self) -> None:
        """Report that this server ends: all its devices depart at this moment. Best effort."""
        raise NotImplementedError

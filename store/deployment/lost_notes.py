"""Times at which this process stored messages or changes without notes for pushes, webhooks and the index."""

from __future__ import annotations

import time


class LostNotes:
    """The first and the last time since the last recovery at which notes were lost, in ms by MongoDB's clock."""

    def __init__(self) -> None:
        """Begin without lost notes."""
        self._read_ms, self._read_at = 0, time.monotonic()
        self._first_ms: int | None = None
        self._last_ms = 0

    def set_time(self, now_ms: int, asked_at: float) -> None:
        """Set the time of MongoDB's clock. asked_at: time just before it was read, by `time.monotonic`."""
        self._read_ms, self._read_at = now_ms, asked_at

    def add(self) -> None:
        """Note that a message or a change was stored just now without notes.

        The first time may be a little too early, and the last one a little too late.
        """
        if self._first_ms is None:
            self._first_ms = self._read_ms
        self._last_ms = self._read_ms + round((time.monotonic() - self._read_at) * 1000)

    def find_first_ms(self, begun_ms: int) -> int | None:
        """Return the time since which a recovery has to add notes; None if no notes are missing.

        begun_ms: Beginning of the newest generation of Redis. Its recovery adds all notes from before this time.
        """
        if self._last_ms < begun_ms:
            self._first_ms = None
        if self._first_ms is None:
            return None
        return max(self._first_ms, begun_ms)

    def clear(self) -> None:
        """Forget the times, because a recovery will add the notes."""
        self._first_ms = None

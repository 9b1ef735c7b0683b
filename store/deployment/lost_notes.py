"""When this process stored messages or changes without noting them for pushes, webhooks and the index."""

from __future__ import annotations

import time


class LostNotes:
    """The first and the last such time since the last recovery began, in ms by MongoDB's clock."""

    def __init__(self) -> None:
        """Begin without lost notes."""
        self._known_ms, self._known_at = 0, time.monotonic()
        self._first_ms: int | None = None
        self._last_ms = 0

    def set_time(self, now_ms: int, asked_at: float) -> None:
        """Learn the time of MongoDB's clock, which was asked for at a time of `time.monotonic`."""
        self._known_ms, self._known_at = now_ms, asked_at

    def add(self) -> None:
        """Remember that something of this moment has no notes. Its time may be noted as a little later than it was."""
        if self._first_ms is None:
            self._first_ms = self._known_ms
        self._last_ms = self._known_ms + round((time.monotonic() - self._known_at) * 1000)

    def find_first_ms(self, begun_ms: int) -> int | None:
        """Return since when notes are missing that no recovery has noted again; None: none are missing.

        begun_ms: When the newest generation of Redis began. A recovery follows, which notes everything from before it.
        """
        if self._first_ms is None or self._last_ms < begun_ms:
            return None
        return max(self._first_ms, begun_ms)

    def clear(self) -> None:
        """Forget everything, because a recovery follows."""
        self._first_ms = None

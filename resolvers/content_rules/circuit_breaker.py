"""A circuit breaker: after some failures in a row, a service is not asked for a while."""

from __future__ import annotations

from collections.abc import Callable

FAILURES = 5
"""Failures in a row after which the service is not asked."""

SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


class CircuitBreaker:
    """Decides whether a service should be asked.

    While the breaker is open, one caller asks after each pause, and the others do not wait for it. If that call fails,
    the next pause is twice as long, up to 30 s.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin closed: all callers ask. now: returns a time in seconds that never goes back."""
        self._now = now
        self._failures = 0
        self._pause = SHORTEST_PAUSE_SECONDS
        self._asks_again_at: float | None = None
        self._is_probing = False
        """One caller asks after a pause."""

    @property
    def is_open(self) -> bool:
        """True while only one caller asks after each pause."""
        return self._asks_again_at is not None

    def should_ask(self) -> bool:
        """Return whether the caller should ask. One that does has to call `note_success` or `note_failure`."""
        if self._asks_again_at is None:
            return True
        now = self._now()
        if now < self._asks_again_at:
            return False
        # If this caller reports no result, another one asks after the next pause.
        self._asks_again_at = now + self._pause
        self._is_probing = True
        return True

    def note_success(self) -> None:
        """Note an answer: all callers ask again."""
        self._failures, self._pause, self._asks_again_at = 0, SHORTEST_PAUSE_SECONDS, None
        self._is_probing = False

    def note_failure(self) -> bool:
        """Note that there was no answer. Return whether this has opened the breaker."""
        self._failures += 1
        was_open = self.is_open
        if was_open and not self._is_probing:
            # The call began before the breaker opened.
            return False
        if was_open:
            self._is_probing = False
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        if was_open or self._failures >= FAILURES:
            self._asks_again_at = self._now() + self._pause
        return self.is_open and not was_open

"""Keys that were added within a window of time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_MAX_KEYS = 10_000


class RecentKeys(Generic[K]):
    """Remembers keys for `window_ms`, and at most 10,000 of them. If there are more, the oldest are dropped."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._added: dict[K, int] = {}

    def contains(self, key: K, now_ms: int) -> bool:
        """Return whether a key was added less than a window ago."""
        return self.added_at(key, now_ms) is not None

    def added_at(self, key: K, now_ms: int) -> int | None:
        """Return when a key was added; None if that was not within the last window."""
        while self._added:
            oldest = next(iter(self._added))
            if abs(now_ms - self._added[oldest]) < self._window_ms and len(self._added) <= _MAX_KEYS:
                break
            del self._added[oldest]
        return self._added.get(key)

    def add(self, key: K, now_ms: int) -> None:
        """Add a key, or renew it."""
        self._added.pop(key, None)
        self._added[key] = now_ms

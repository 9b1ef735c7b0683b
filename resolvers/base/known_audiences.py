"""Users who shared a conversation or workspace with a viewer a moment ago, so that not every event has to find out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from store.base.ids import UserId

KEPT_MS = 60_000
"""Time for which a user who no longer shares anything with a viewer may still be shown in events."""

_MAX_PAIRS = 50_000
"""Pairs of a viewer and a user that a process keeps. Each takes about 300 bytes."""


class KnownAudiences:
    """Pairs of a viewer and a user, the oldest first. That two users share nothing is not kept."""

    def __init__(self) -> None:
        self._read_at_ms: OrderedDict[tuple[UserId, UserId], int] = OrderedDict()

    def find(self, viewer: UserId, users: Iterable[UserId], now_ms: int) -> set[UserId]:
        """Return those of some users who shared something with the viewer within the last minute."""
        kept_since_ms = now_ms - KEPT_MS
        return {user for user in users if self._read_at_ms.get((viewer, user), kept_since_ms) > kept_since_ms}

    def remember(self, viewer: UserId, users: Iterable[UserId], read_at_ms: int) -> None:
        """Keep users who shared something with the viewer at a time. If there are too many, the oldest are dropped."""
        for user in users:
            self._read_at_ms[viewer, user] = read_at_ms
            self._read_at_ms.move_to_end((viewer, user))
        while len(self._read_at_ms) > _MAX_PAIRS:
            self._read_at_ms.popitem(last=False)

"""Counts the bytes of answers that clients have not accepted yet, and bounds them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

LARGE_BYTES = 65_536
"""Answers above this size are counted. Smaller ones fit into the buffers of a connection."""


@dataclass(slots=True, eq=False)
class HeldBytes:
    """Bytes that wait for a client. `drop` discards them."""

    user: str | None
    size: int
    drop: Callable[[], None]


class UnsentAnswers:
    """The answers of one process that wait for their clients: buffers of connections, and answers not yet written.

    A user who exceeds `max_bytes_per_user` loses the bytes that have waited the longest. If all users together exceed
    `max_bytes`, the bytes of the process that have waited the longest are dropped. Clients that read lose nothing:
    their bytes wait for milliseconds. Anonymous clients share one account, in which they do not drop each other.
    """

    def __init__(self, max_bytes_per_user: float = math.inf, max_bytes: float = math.inf) -> None:
        self._max_per_user = max_bytes_per_user
        self._max = max_bytes
        self._held: dict[HeldBytes, None] = {}
        self._by_user: dict[str | None, dict[HeldBytes, None]] = {}
        self._user_bytes: dict[str | None, int] = {}
        self.total = 0
        """Bytes that wait."""
        self.dropped = 0
        """Connections and answers that were dropped so far, because too many bytes waited."""
        self.refused = 0
        """Operations that were refused so far, because their user had no room."""

    def has_room(self, user: str | None, size: int = 1) -> bool:
        """Return whether a user may get an answer of this size. If nothing of the user waits, any size is allowed."""
        waiting = self._user_bytes.get(user, 0)
        return not waiting or waiting + size <= self._max_per_user

    def hold(self, user: str | None, size: int, drop: Callable[[], None]) -> HeldBytes:
        """Count bytes that wait for a client. `drop` is called if they have to be discarded."""
        held = HeldBytes(user, size, drop)
        self._held[held] = None
        self._by_user.setdefault(user, {})[held] = None
        self._user_bytes[user] = self._user_bytes.get(user, 0) + size
        self.total += size
        while user is not None and self._user_bytes.get(user, 0) > self._max_per_user and len(self._by_user[user]) > 1:
            self._drop(next(iter(self._by_user[user])))
        while self.total > self._max and len(self._held) > 1:
            self._drop(next(iter(self._held)))
        return held

    def _drop(self, held: HeldBytes) -> None:
        self.dropped += 1
        self.release(held)
        held.drop()

    def release(self, held: HeldBytes | None) -> None:
        """Stop counting bytes that a client accepted, or that were discarded. Idempotent."""
        if held is None or held not in self._held:
            return
        del self._held[held]
        self.total -= held.size
        of_user = self._by_user[held.user]
        del of_user[held]
        if of_user:
            self._user_bytes[held.user] -= held.size
        else:
            del self._by_user[held.user], self._user_bytes[held.user]

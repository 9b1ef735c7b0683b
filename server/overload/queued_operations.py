"""Bounds the operations that wait for event streams which are reserved but not open yet."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from resolvers.base.errors import A_MOMENT_MS, RateLimited, Unavailable
from store.base.ids import UserId
from store.deployment.event_streams import RESERVED_MS


class _QueuedStream:
    """The operations that this process has queued for one stream."""

    __slots__ = ("expires_at", "sizes", "user")

    def __init__(self, user: UserId) -> None:
        self.user = user
        self.sizes: dict[str, int] = {}
        """Bytes of each operation, by operation id."""
        self.expires_at = 0.0
        """Time at which Redis deletes the operations, in seconds of the clock."""


class QueuedOperations:
    """Counts the operations that one process has queued in Redis, by user.

    An operation counts until this process learns that it was withdrawn or that its stream was opened, at the latest
    until Redis deletes it. If another server opens the stream, an operation may count longer than it waits.
    """

    def __init__(self, max_per_user: int, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create counts with bounds on the operations of one user, and on the bytes of all users."""
        self._max_per_user = max_per_user
        self._max_bytes = max_bytes
        self._clock = clock
        self._streams: OrderedDict[str, _QueuedStream] = OrderedDict()
        """By token, in the order in which Redis deletes them."""
        self._by_user: Counter[UserId] = Counter()
        self.count = 0
        """Operations that wait."""
        self.size = 0
        """Bytes of the operations that wait."""
        self.refused = 0
        """Operations that were refused so far."""

    def add(self, user: UserId, token: str, operation: str, size: int) -> bool:
        """Count an operation. Returns False if it is counted already.

        Raises:
            RateLimited: Too many operations of the user wait.
            Unavailable: The operations of all users have too many bytes together.
        """
        now = self._clock()
        self._remove_expired(now)
        stream = self._streams.get(token)
        if stream is not None and operation in stream.sizes:
            return False
        if self._by_user[user] >= self._max_per_user:
            self.refused += 1
            raise RateLimited(
                f"{self._max_per_user} of your operations wait for event streams. Open the streams first.",
                retry_after_ms=A_MOMENT_MS,
            )
        if self.size + size > self._max_bytes:
            self.refused += 1
            raise Unavailable("Too many operations wait for event streams. Open the event stream first.")
        if stream is None:
            stream = self._streams[token] = _QueuedStream(user)
        stream.sizes[operation] = size
        stream.expires_at = now + RESERVED_MS / 1000
        self._streams.move_to_end(token)
        self._by_user[user] += 1
        self.count += 1
        self.size += size
        return True

    def remove(self, token: str, operation: str) -> None:
        """Stop counting an operation. Does nothing if it is not counted."""
        stream = self._streams.get(token)
        if stream is None or operation not in stream.sizes:
            return
        self._subtract(stream.user, 1, stream.sizes.pop(operation))
        if not stream.sizes:
            del self._streams[token]

    def remove_stream(self, token: str) -> None:
        """Stop counting the operations of a stream. Does nothing if none is counted."""
        stream = self._streams.pop(token, None)
        if stream is not None:
            self._subtract(stream.user, len(stream.sizes), sum(stream.sizes.values()))

    def _remove_expired(self, now: float) -> None:
        while self._streams:
            token = next(iter(self._streams))
            if self._streams[token].expires_at > now:
                return
            self.remove_stream(token)

    def _subtract(self, user: UserId, count: int, size: int) -> None:
        self.count -= count
        self.size -= size
        self._by_user[user] -= count
        if not self._by_user[user]:
            del self._by_user[user]

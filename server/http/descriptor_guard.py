"""Keeps file descriptors free for databases and logs when clients open too many connections."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

import structlog

try:
    import resource
except ImportError:  # Windows has no such limit.
    resource = None  # type: ignore[assignment]

RESERVED_DESCRIPTORS = 250
"""Descriptors that clients cannot use; at most a quarter of the limit."""

_LOG_INTERVAL_SECONDS = 10.0

log = structlog.get_logger(__name__)


class GuardedConnection(Protocol):
    """A connection that can be dropped to free its descriptor."""

    def drop(self) -> None:
        """End the connection at once."""
        ...


class DescriptorGuard:
    """Decides which connections lose their descriptor when few are left.

    The guard drops the connection that has been sending an incomplete request the longest, to admit a new one. If there
    is none, it drops the connection that has been idle the longest. If there is none either, it refuses the new
    connection. So the process always has descriptors for its databases, and serves clients that send their request at
    once.
    """

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a guard for a process that may open `limit` files. `clock` returns seconds."""
        self.max_descriptor = limit - min(RESERVED_DESCRIPTORS, limit // 4) if limit != math.inf else math.inf
        """A new connection with this descriptor or a greater one is admitted only if another one is dropped. The
        same applies to the number of open connections."""
        self._limit = limit
        self._clock = clock
        self._receiving: dict[GuardedConnection, None] = {}
        self._idle: dict[GuardedConnection, None] = {}
        self._dropped = self._refused = 0
        self._log_at = -math.inf
        self.dropped_or_refused = 0
        """Connections that were dropped or refused so far."""

    @classmethod
    def unlimited(cls) -> DescriptorGuard:
        """Return a guard that admits every connection."""
        return cls(math.inf)

    @classmethod
    def of_process(cls) -> DescriptorGuard:
        """Return a guard with the limit of this process."""
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource is not None else None
        return cls(math.inf if soft is None or soft == resource.RLIM_INFINITY else soft)

    def admit(self, connection: GuardedConnection, descriptor: int, others: int) -> bool:
        """Note a new connection, which is receiving a request. Returns False if it has to be refused.

        The system gives each new file the lowest free number, so at least `descriptor` files are open. A dropped
        connection leaves a low number free while many more are open, so open connections are counted too.

        Args:
            connection: The new connection.
            descriptor: Its file descriptor.
            others: The number of other open connections.
        """
        in_use = max(descriptor, others)
        is_admitted = in_use < self.max_descriptor or self._make_room(in_use)
        if is_admitted:
            self._receiving[connection] = None
        return is_admitted

    def _make_room(self, in_use: int) -> bool:
        self.dropped_or_refused += 1
        waiting = self._receiving or self._idle
        longest = next(iter(waiting), None)
        if longest is None:
            self._refused += 1
        else:
            del waiting[longest]
            self._dropped += 1
            longest.drop()
        now = self._clock()
        if now >= self._log_at:
            self._log_at = now + _LOG_INTERVAL_SECONDS
            log.warning("descriptors_low", open=in_use, limit=self._limit, dropped=self._dropped, refused=self._refused)
            self._dropped = self._refused = 0
        return longest is not None

    def note_receiving(self, connection: GuardedConnection) -> None:
        """Note that a request has begun to arrive."""
        self._idle.pop(connection, None)
        self._receiving[connection] = None

    def note_busy(self, connection: GuardedConnection) -> None:
        """Note that a request is being answered, or that the connection has ended."""
        self._receiving.pop(connection, None)
        self._idle.pop(connection, None)

    def note_idle(self, connection: GuardedConnection) -> None:
        """Note that a request has been answered, and no other one has arrived."""
        self._receiving.pop(connection, None)
        self._idle[connection] = None

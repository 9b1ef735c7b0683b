"""Limits how many connections a process and a user may have."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from subscriptions.transport.close_codes import TRY_AGAIN_LATER, Close

PROCESS_FULL = TRY_AGAIN_LATER.because("Try again later: too many connections")
USER_LIMIT_REACHED = TRY_AGAIN_LATER.because("Try again later: too many connections of this user")


class LimitedConnection(Protocol):
    """A connection that counts towards the limits."""

    def close(self, close: Close) -> None:
        """End the connection."""
        ...


class ConnectionLimits:
    """Admits connections up to a limit for the process and, once they are authenticated, a limit for each user.

    If the process is full, the connection that has been unauthenticated the longest is closed to admit a new one. So
    sockets that never send their connection_init, however many, do not keep users out for long.
    """

    def __init__(self, max_connections: int, max_per_user: int) -> None:
        self._max_connections = max_connections
        self._max_per_user = max_per_user
        self._unauthenticated: dict[LimitedConnection, None] = {}
        self._users: dict[LimitedConnection, str] = {}
        self._count_per_user: Counter[str] = Counter()

    def admit(self, connection: LimitedConnection) -> Close | None:
        """Count a new connection. Return how to close it if the process is full, else None."""
        if len(self._unauthenticated) + len(self._users) >= self._max_connections:
            oldest = next(iter(self._unauthenticated), None)
            if oldest is None:
                return PROCESS_FULL
            del self._unauthenticated[oldest]
            oldest.close(PROCESS_FULL)
        self._unauthenticated[connection] = None
        return None

    def assign(self, connection: LimitedConnection, user: str) -> Close | None:
        """Count a connection for its user. Return how to close it if the user has too many, else None."""
        if self._count_per_user[user] >= self._max_per_user:
            return USER_LIMIT_REACHED
        self._unauthenticated.pop(connection, None)
        self._users[connection] = user
        self._count_per_user[user] += 1
        return None

    def remove(self, connection: LimitedConnection) -> None:
        """Stop counting a connection that has ended. Does nothing if it was not counted."""
        self._unauthenticated.pop(connection, None)
        user = self._users.pop(connection, None)
        if user is not None:
            self._count_per_user[user] -= 1
            if not self._count_per_user[user]:
                del self._count_per_user[user]

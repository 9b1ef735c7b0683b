"""Who is connected to this process, how many may be, and who makes room."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from subscriptions.transport.close_codes import TRY_AGAIN_LATER, Close

FULL = TRY_AGAIN_LATER.because("Try again later: too many connections")
FULL_OF_USER = TRY_AGAIN_LATER.because("Try again later: too many connections of this user")


class LimitedConnection(Protocol):
    """What the census needs of a connection."""

    def close(self, close: Close) -> None: ...


class ConnectionLimits:
    """Admits connections up to a limit for the process and, once they say whose they are, one for each user.

    Where the process is full, the oldest connection that is nobody's makes room: it has not said who it is for
    longest. So sockets that never send their connection_init, however many, keep no user out for long.
    """

    def __init__(self, max_connections: int, max_per_user: int) -> None:
        self._max_connections = max_connections
        self._max_per_user = max_per_user
        self._nobodys: dict[LimitedConnection, None] = {}
        self._owners: dict[LimitedConnection, str] = {}
        self._per_user: Counter[str] = Counter()

    def admit(self, connection: LimitedConnection) -> Close | None:
        """Count a new connection, nobody's so far. Answers how to close it if it can't stay."""
        if len(self._nobodys) + len(self._owners) >= self._max_connections:
            oldest = next(iter(self._nobodys), None)
            if oldest is None:
                return FULL
            del self._nobodys[oldest]
            oldest.close(FULL)
        self._nobodys[connection] = None
        return None

    def assign(self, connection: LimitedConnection, user: str) -> Close | None:
        """The connection turns out to be this user's. Answers how to close it if it can't stay."""
        if self._per_user[user] >= self._max_per_user:
            return FULL_OF_USER
        self._nobodys.pop(connection, None)
        self._owners[connection] = user
        self._per_user[user] += 1
        return None

    def leave(self, connection: LimitedConnection) -> None:
        """The connection has ended, if it was counted at all."""
        self._nobodys.pop(connection, None)
        user = self._owners.pop(connection, None)
        if user is not None:
            self._per_user[user] -= 1
            if not self._per_user[user]:
                del self._per_user[user]

"""Finds servers that have ended: Redis says how many subscribers each published frame reached.

A server's subscription to its channel is its lease: it ends with the connection. So nothing is renewed for the users
whose routes name the server.
"""

from __future__ import annotations

SILENCE_SECONDS = 60.0
"""Time after which a server that receives nothing counts as ended. A server that listens again stores its routes again,
and looks for missed events."""

_MAX_SERVERS = 1_000


class ServerSilence:
    """Remembers for each server since when no frame has reached it."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def has_ended(self, server: str, receivers: int, now: float) -> bool:
        """Note how many subscribers a frame for a server reached. Return whether the server counts as ended.

        now: monotonic seconds.
        """
        if receivers:
            self._since.pop(server, None)
            return False
        since = self._since.setdefault(server, now)
        if len(self._since) > _MAX_SERVERS:
            del self._since[next(iter(self._since))]
        return now - since >= SILENCE_SECONDS

"""The times at which servers were last heard from, in one hash of the deployment in Redis (ADR 80)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ServerTime(NamedTuple):
    """heard_ms: when the server last reported. has_ended: it reported its end."""

    heard_ms: int
    has_ended: bool


class ServerTimes:
    """Reports that this server is alive, and reads when others did. Entries of the last day are kept."""

    async def report(self, server: str, *, has_ended: bool = False) -> Mapping[str, ServerTime]:
        """Note that a server is alive at present, or ends, and return the times of all servers.

        One round trip. Raises StoreError.
        """
        raise NotImplementedError

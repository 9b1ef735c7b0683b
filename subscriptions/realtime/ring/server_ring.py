"""The ring of the servers that hold a lease, as one process sees it.

Each key has an owner. Servers may disagree about it for some seconds, so an owner must not be needed for anything that
must last: it may coalesce events that clients can miss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import structlog

from store.base.errors import Unreachable
from subscriptions.realtime.ring.hash_ring import HashRing
from subscriptions.realtime.server_calls import ServerCalls

_log = structlog.get_logger()

AWAY_SECONDS = 30.0
"""A server that gave no answer owns nothing for this time. The lease of one that has ended expires within 60 s."""

ANSWER_SECONDS = 1.0
"""An owner without an answer in this time counts as away."""


class ServerRing:
    """Finds the owner of a key, and asks it. This process is always a member of its own ring."""

    def __init__(self, server: str, calls: ServerCalls) -> None:
        """Begin with this server alone, until `update`."""
        self.server = server
        self._calls = calls
        self._members = frozenset((server,))
        self._away: dict[str, float] = {}
        """The event loop's time at which each server without an answer is tried again."""
        self._ring = HashRing(self._members)

    def update(self, members: Collection[str]) -> None:
        """Set the servers that hold a lease."""
        self._members = frozenset((*members, self.server))
        self._rebuild()

    @property
    def is_alone(self) -> bool:
        """True if no other server holds a lease, as far as this process knows."""
        return len(self._members) == 1

    def owner_of(self, key: str) -> str:
        """Return the server that a key belongs to. No round trip."""
        return self._ring.owner_of(key)

    async def ask(self, server: str, question: dict[str, Any]) -> dict[str, Any]:
        """Return an owner's answer, of this process too. See `ServerCalls.answer_kind`.

        Raises Unreachable: the server owns nothing for a while, so the next owner can be asked. It may have carried
        the question out.
        """
        if server == self.server:
            return await self._calls.answer(question)
        try:
            return await self._calls.ask(server, question, timeout_seconds=ANSWER_SECONDS)
        except Unreachable:
            _log.warning("ring_server_away", server=server)
            loop = asyncio.get_running_loop()
            self._away[server] = loop.time() + AWAY_SECONDS
            self._rebuild()
            loop.call_later(AWAY_SECONDS, self._rebuild)
            raise

    def _rebuild(self) -> None:
        now = asyncio.get_running_loop().time()
        self._away = {server: until for server, until in self._away.items() if until > now}
        present = self._members - self._away.keys()
        if present != self._ring.servers:
            self._ring = HashRing(present)

"""Windows in Redis: at most one event about a subject in an interval, over all servers, and the last one always."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from store.base.ids import ConversationId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_LEASE_MS = 3_000
"""Time after the end of a window in which the server that publishes has to begin. After it, another one may claim."""


class EventWindows:
    """Windows of one kind of subjects, each in the partition of its conversation.

    Redis measures the interval. A subject has changed before it is claimed. So any later publication shows the change:
    that of the caller, or of the server that has claimed before and not begun yet.
    """

    def __init__(self, cache: Cache, keys: Keys, kind: str, interval_ms: int) -> None:
        """Create windows of subjects of a kind, of which the names are unique."""
        self._cache = cache
        self._keys = keys
        self._kind = kind
        self.interval_ms = interval_ms

    async def claim(self, conversation: ConversationId, subject: str, entries: Sequence[str]) -> int:
        """Note that a subject has changed. One round trip that no request waits for.

        Args:
            conversation: The subject's conversation.
            subject: Its name.
            entries: The outbox entries that announced the changes, at least one.

        Returns:
            0: publish it now. More: call `take` after this time (ms). Less: another server will publish it.
        """
        args = (self.interval_ms, _LEASE_MS, *entries)
        (wait_ms,) = await self._run(Call("claim_window", self._names(conversation, subject), args))
        return int(wait_ms)

    async def take(self, conversation: ConversationId, subject: str) -> list[str]:
        """Begin to publish, after the time that `claim` returned. One round trip that no request waits for.

        Returns the outbox entries of all servers that the publication covers. None: another server publishes.
        """
        (entries,) = await self._run(Call("take_window", self._names(conversation, subject), (self.interval_ms,)))
        return [entry.decode() for entry in entries]

    async def _run(self, call: Call) -> list[Any]:
        self._cache.require_shared()
        return await self._cache.run_in_background([call])

    def _names(self, conversation: ConversationId, subject: str) -> tuple[str, str]:
        return self._keys.event_window(conversation, f"{self._kind}:{subject}")

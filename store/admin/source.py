"""The databases that views read, and values as views show them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from store.base.ids import ConversationId, UserId
from store.sessions.session_rows import SessionRows
from store.store import Store

View = dict[str, Any]
"""JSON values by name. Names are snake_case words; a value that is not known is None."""

NOT_KNOWN = "not known: Redis is not available"


class NoSuchObject(Exception):
    """Raised when an id has the wrong form, or nothing is known by it. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class AdminSource:
    """The store of a deployment.

    Attributes:
        store: Made on a ReadOnlyMongo and a ReadOnlyCache.
        redis_problem: Why Redis cannot be read; None: it can.
        shows_texts: Views contain the texts of messages.
    """

    store: Store
    redis_problem: str | None = None
    shows_texts: bool = False

    @property
    def session_rows(self) -> SessionRows:
        """Rows of sessions. Rights are judged by the policies in MongoDB, also while Redis is not available."""
        return SessionRows(self.store.mongo, self.store.clock, self._find_visible)

    async def _find_visible(self, user: UserId, channels: Collection[ConversationId]) -> set[ConversationId]:
        return set(await self.store.channel_rights.find_many(user, dict.fromkeys(channels, 0)))

    @property
    def has_redis(self) -> bool:
        """True if Redis can be read."""
        return self.redis_problem is None

    def redis_view(self) -> View:
        """Return whether Redis was read."""
        return {"is_available": self.has_redis} | ({} if self.has_redis else {"reason": self.redis_problem})


def time_text(ms: int | None) -> str | None:
    """Return a time (ms since the epoch) as ISO 8601 text; None and 0: there is none."""
    if not ms:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_of(ms: int) -> float:
    """Return a duration in seconds."""
    return round(ms / 1000, 3)


def without_empty(**values: Any) -> View:
    """Return the values that are neither None nor empty."""
    return {name: value for name, value in values.items() if value not in (None, [], {}, "")}

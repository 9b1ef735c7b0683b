"""Messages that wait for the index: notes in Redis (ADR 85)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from store.base.clock import Clock
from store.base.ids import ConversationId, MessageId
from store.messages.message import Message
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

MOST_READ = 1_000
"""Notes that a search reads."""


class WaitingMessage(NamedTuple):
    """A message that is not in the index, or not with its last edit. `since_ms`: when it was noted."""

    id: MessageId
    conversation: ConversationId
    seq: int
    edits: int
    since_ms: int


class WaitingList(NamedTuple):
    """Messages that wait, the oldest first. `is_whole`: there are no others."""

    messages: list[WaitingMessage]
    is_whole: bool


class WaitingMessages:
    """Notes of messages that wait for the index. All are lost with Redis: then loss recovery indexes the messages."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock

    def note_call(self, message: Message) -> Call:
        """Return the call that notes a message. It has to succeed before the message leaves the outbox."""
        raise NotImplementedError

    async def remove(self, messages: Sequence[Message]) -> None:
        """Remove the notes of messages that were indexed as they are here. One round trip."""
        raise NotImplementedError

    async def list_all(self, limit: int = MOST_READ) -> WaitingList:
        """Return the messages that wait now, at most `limit`. One round trip, shared by concurrent callers."""
        raise NotImplementedError

    async def list_older(self, age_ms: int, limit: int) -> list[WaitingMessage]:
        """Return messages that have waited longer than a time."""
        raise NotImplementedError

"""Messages that wait for the index: notes in Redis (ADR 85).

Each note is a member of a sorted set, `<id> <seq> <edits> <conversation>`, with the time at which it was noted.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.ids import ConversationId, MessageId
from store.base.snowflakes import created_at_ms
from store.messages.message import Message
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.search.filter_terms import is_indexed

MOST_READ = 1_000
"""Most notes that a search reads."""

_KEYS_IN_CLUSTER = 8
"""Number of keys in a cluster, so that its nodes share the notes. A single Redis has one key."""


class UnindexedMessage(NamedTuple):
    """A message that waits: its last state is not in the index yet. `since_ms`: when it was noted."""

    id: MessageId
    conversation: ConversationId
    seq: int
    edits: int
    since_ms: int

    @property
    def changed_at_ms(self) -> int:
        """Time at which the message got its text, or a later one: when it was sent, or noted after an edit."""
        return self.since_ms if self.edits else created_at_ms(self.id)


@dataclass(frozen=True, slots=True)
class UnindexedList:
    """Messages that wait for the index, the oldest note first.

    Attributes:
        messages: The messages.
        is_whole: None of the notes in this Redis was left out.
        epoch: The epoch of Redis when they were read; "" if it has none, or is unavailable. Messages of earlier
            epochs may have no notes.
    """

    messages: Sequence[UnindexedMessage]
    is_whole: bool
    epoch: str = ""


class UnindexedMessages:
    """Notes of messages that wait for the index. If Redis loses them, the messages become part of the past."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._key_count = _KEYS_IN_CLUSTER if cache.is_cluster else 1
        self._shared: asyncio.Task[UnindexedList] | None = None

    def note_calls(self, messages: Iterable[Message]) -> list[Call]:
        """Return the calls that note messages, at most one for each key.

        They must succeed before the messages, or their edits, leave the outbox. Messages without text, and SYSTEM
        messages, are not noted.
        """
        now = self._clock.now_ms()
        by_key: dict[int, list[int | bytes]] = {}
        for message in messages:
            if is_indexed(message):
                by_key.setdefault(self._key_number(message), []).extend((now, _member(message)))
        return [Call("ZADD", (self._keys.waiting_for_index(number),), tuple(args)) for number, args in by_key.items()]

    async def remove(self, messages: Iterable[Message | UnindexedMessage]) -> None:
        """Remove the notes of messages that were indexed with these numbers of edits.

        One round trip that no request waits for.
        """
        by_key: dict[int, list[bytes]] = {}
        for message in messages:
            by_key.setdefault(self._key_number(message), []).append(_member(message))
        calls = [
            Call("ZREM", (self._keys.waiting_for_index(number),), tuple(members)) for number, members in by_key.items()
        ]
        if calls:
            await self._cache.run_in_background(calls)

    async def list_all(self, limit: int = MOST_READ) -> UnindexedList:
        """Return the messages that wait now, at most `limit`.

        Callers of the same moment share one round trip. It begins after their calls, so it finds all messages that were
        noted before. Raises Unreachable.
        """
        if limit != MOST_READ:
            return await self._read(limit)
        if self._shared is None:
            self._shared = asyncio.create_task(self._read_shared())
            # Its callers may have been cancelled.
            self._shared.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._shared)

    async def list_older(self, age_ms: int, limit: int) -> list[UnindexedMessage]:
        """Return messages that have waited longer than a time, the oldest first. Raises Unreachable."""
        until = self._clock.now_ms() - age_ms
        calls = [
            Call("ZRANGEBYSCORE", (key,), ("-inf", until, "WITHSCORES", "LIMIT", 0, limit)) for key in self._keys_of_all
        ]
        return _ordered(await self._cache.run_in_background(calls))[:limit]

    async def measure(self) -> tuple[int, int]:
        """Return the number of notes, and the age of the oldest (ms). One round trip that no request waits for."""
        keys = self._keys_of_all
        calls = [Call("ZCARD", (key,)) for key in keys]
        calls += [Call("ZRANGE", (key,), (0, 0, "WITHSCORES")) for key in keys]
        answers = await self._cache.run_in_background(calls)
        oldest = _ordered(answers[len(keys) :])[:1]
        age = max(0, self._clock.now_ms() - oldest[0].since_ms) if oldest else 0
        return sum(answers[: len(keys)]), age

    async def drop_until(self, until_ms: int) -> None:
        """Drop the notes of messages that were noted up to a time. They must be part of the past of the index."""
        calls = [Call("ZREMRANGEBYSCORE", (key,), ("-inf", until_ms)) for key in self._keys_of_all]
        await self._cache.run_in_background(calls)

    async def _read_shared(self) -> UnindexedList:
        # A later caller needs another read: messages may be noted after this one and before its call.
        self._shared = None
        return await self._read(MOST_READ)

    async def _read(self, limit: int) -> UnindexedList:
        calls = [Call("ZRANGE", (key,), (0, limit, "WITHSCORES")) for key in self._keys_of_all]
        epoch, *answers = await self._cache.run([Call("GET", (self._keys.epoch,)), *calls])
        found = _ordered(answers)
        return UnindexedList(found[:limit], len(found) <= limit, epoch.decode() if epoch else "")

    @property
    def _keys_of_all(self) -> list[str]:
        return [self._keys.waiting_for_index(number) for number in range(self._key_count)]

    def _key_number(self, message: Message | UnindexedMessage) -> int:
        return zlib.crc32(message.conversation.encode()) % self._key_count if self._key_count > 1 else 0


def _member(message: Message | UnindexedMessage) -> bytes:
    return f"{message.id} {message.seq} {message.edits} {message.conversation}".encode()


def _ordered(answers: Sequence[Sequence[Any]]) -> list[UnindexedMessage]:
    """Return the messages in replies of Redis with scores, the oldest first."""
    found = []
    for answer in answers:
        for member, score in zip(answer[::2], answer[1::2], strict=True):
            message, seq, edits, conversation = member.decode().split(" ", 3)
            found.append(
                UnindexedMessage(
                    MessageId(int(message)), ConversationId(conversation), int(seq), int(edits), int(float(score))
                )
            )
    if len(answers) > 1:
        found.sort(key=lambda message: message.since_ms)
    return found

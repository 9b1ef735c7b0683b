"""Messages between users whose cached states are on chosen shards of a cluster, while shards fail."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from store.base.ids import ConversationId, UserId, private_id
from store.redis.keys import conversation_tag, slot_of_tag, user_tag
from store.sessions.session_rows import SessionRows
from tests.api.client import SEND, Api, Json, Subscriber, make_caller, message_input
from tests.cluster.nodes import OwnCluster
from tests.waiting import TIMEOUT_SECONDS


class Places:
    """Finds users and conversations by the shard that has their keys."""

    def __init__(self, cluster: OwnCluster) -> None:
        self._cluster = cluster
        self._next = 0

    def user_on(self, shard: int) -> UserId:
        """Return a new user whose state is on a shard."""
        while True:
            self._next += 1
            user = UserId(f"user{self._next}")
            if self.shard_of(user) == shard:
                return user

    def pair_on(self, sender: int, receiver: int, conversation: int) -> tuple[UserId, UserId]:
        """Return two new users, each on a shard, whose private conversation is on a third."""
        first = self.user_on(sender)
        while True:
            second = self.user_on(receiver)
            if self.shard_of_conversation(private_id(first, second)) == conversation:
                return first, second

    def shard_of(self, user: UserId) -> int:
        return self._cluster.shard_of(slot_of_tag(user_tag(user)))

    def shard_of_conversation(self, conversation: str) -> int:
        return self._cluster.shard_of(slot_of_tag(conversation_tag(ConversationId(conversation))))


async def sign_in(apis: Iterable[Api], users: Iterable[UserId]) -> None:
    for api in apis:
        for user in users:
            await api.services.sign_in(make_caller(user))


def count_loads(monkeypatch: pytest.MonkeyPatch) -> Counter[UserId]:
    """Count how often the state of each user is read from MongoDB into Redis, by any server."""
    loads: Counter[UserId] = Counter()
    read = SessionRows.read

    async def counted(rows: SessionRows, user: UserId) -> object:
        loads[user] += 1
        return await read(rows, user)

    monkeypatch.setattr(SessionRows, "read", counted)
    return loads


@dataclass
class Stream:
    """Messages from one user to another, one after the other. `is_healthy`: none of them may fail."""

    api: Api
    sender: UserId
    receiver: UserId
    is_healthy: bool
    sent: int = 0
    failures: list[Json] = field(default_factory=list)
    slowest_seconds: float = 0.0
    """The longest time that a message took, with all attempts."""

    @property
    def conversation(self) -> ConversationId:
        return private_id(self.sender, self.receiver)

    async def send_one(self) -> None:
        text = f"{self.sent + 1}"
        given = message_input(self.receiver, text, idempotencyKey=f"{self.sender} {text}")
        began = time.monotonic()
        async with asyncio.timeout(3 * TIMEOUT_SECONDS):
            while "errors" in (response := await self.api.run(self.sender, SEND, input=given)):
                self.failures.append(response["errors"])
                assert not self.is_healthy, response["errors"]
                await asyncio.sleep(0.05)
        self.sent += 1
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)


class Traffic:
    """Streams that run until they are stopped."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self.streams = list(streams)
        self._over = asyncio.Event()
        self._tasks = [asyncio.create_task(self._run(stream)) for stream in self.streams]

    async def _run(self, stream: Stream) -> None:
        while not self._over.is_set():
            await stream.send_one()
            await asyncio.sleep(0.01)

    async def goes_on(self, messages: int, streams: Iterable[Stream] | None = None) -> None:
        """Wait until streams have sent some more messages each."""
        wanted = {id(stream): stream.sent + messages for stream in self.streams}
        chosen = self.streams if streams is None else list(streams)
        async with asyncio.timeout(3 * TIMEOUT_SECONDS):
            while any(stream.sent < wanted[id(stream)] for stream in chosen):
                for task in self._tasks:
                    if task.done():
                        await task
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self._over.set()
        await asyncio.gather(*self._tasks)


async def read_texts(subscriber: Subscriber, sender: UserId, last: int) -> tuple[list[str], bool]:
    """Return the texts of a sender's messages up to the last one or to a reset, and whether there was a reset."""
    texts: list[str] = []
    while True:
        event = await subscriber.next()
        if event["__typename"] == "CaughtUp" and event["reset"]:
            return texts, True
        if event["__typename"] != "MessageCreated":
            continue
        message = event["message"]
        if message["sender"]["id"] == sender and not _is_empty(message):
            texts.append(message["content"])
            if texts[-1] == f"{last}":
                return texts, False


def _is_empty(message: Json) -> bool:
    """Return whether a message only keeps the place of an attempt whose message was stored with another one."""
    return bool(message["state"] == "RECALLED")


async def check_stored(api: Api, stream: Stream) -> None:
    """Check that all messages of a stream are stored once, in order, and unread for the receiver."""
    history = await api.history(stream.receiver, stream.conversation)
    texts = [message["content"] for message in history if not _is_empty(message)]
    assert texts == [f"{number}" for number in range(1, stream.sent + 1)], (stream, texts)
    assert await api.unread(stream.receiver, stream.conversation) == stream.sent
    assert await api.unread(stream.sender, stream.conversation) == 0

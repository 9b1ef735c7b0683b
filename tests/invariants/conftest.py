"""Databases that a test may flush, kill and step down, and users who write through server parts of their own."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis

from resolvers.base.errors import Unavailable
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from server.embedded import EmbeddedServers
from server.services import Services, open_services
from server.settings import Settings, load_settings
from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId
from store.deployment import reach_times
from store.messages.message import Message
from tests.api.client import Api
from tests.conftest import folder_in_memory
from tests.invariants.machine.deployment import ClockedDeployment
from tests.invariants.two_servers import AWAY_AFTER_MS, TwoServers


@contextmanager
def disposable_servers(**parts: bool) -> Iterator[EmbeddedServers]:
    """Start a MongoDB and a Redis, without those for which `parts` is False."""
    folder = Path(tempfile.mkdtemp(prefix="confab-loss-", dir=folder_in_memory()))
    try:
        with EmbeddedServers(folder, **parts) as servers:  # type: ignore[arg-type]  # ports are numbers, and not given here
            yield servers
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def own_servers() -> Iterator[EmbeddedServers]:
    """Databases of this test module."""
    with disposable_servers() as servers:
        yield servers


@pytest.fixture(scope="module")
def redis() -> Iterator[EmbeddedServers]:
    """A Redis of this test module."""
    with disposable_servers(mongo=False) as servers:
        yield servers


@pytest.fixture
async def deployment(
    mongo_url: str,
    _mongo_janitor: MongoClient[Any],
    emptied_database: str,
    redis: EmbeddedServers,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[TwoServers]:
    monkeypatch.setattr(reach_times, "AWAY_AFTER_MS", AWAY_AFTER_MS)
    settings = load_settings(mongo_url=mongo_url, mongo_database=emptied_database, redis_url=redis.redis_url)
    async with open_services(settings) as services, open_services(settings) as others:
        one, other = (Api(each, _mongo_janitor, emptied_database) for each in (services, others))
        deployment = TwoServers(one, other, redis, monkeypatch)
        yield deployment
        await one.stop_subscriptions()
        await other.stop_subscriptions()
    if redis.redis_pid is None:
        await deployment.start_redis()


@pytest.fixture
def process_count() -> int:
    """The number of processes for a state machine."""
    return 2


@pytest.fixture
def processes(
    mongo_url: str,
    redis_url: str,
    _mongo_janitor: MongoClient[dict[str, Any]],
    _redis_janitor: Redis,
    process_count: int,
) -> Iterator[ClockedDeployment]:
    """Processes for a state machine."""
    opened = ClockedDeployment(mongo_url, redis_url, _mongo_janitor, _redis_janitor, process_count)
    try:
        opened.open()
        yield opened
    finally:
        opened.close()


@dataclass
class World:
    """Databases that a test may harm, and the messages that were acknowledged on them."""

    servers: EmbeddedServers
    settings: Settings
    acknowledged: list[Message] = field(default_factory=list)
    unknown: int = 0

    def open(self) -> AbstractAsyncContextManager[Services]:
        """Open the parts of one more server process."""
        return open_services(self.settings)

    async def sign_in(self, services: Services, *users: str) -> None:
        for user in users:
            await services.sign_in(Caller(UserId(user), CallerRole.USER, 2e9))

    async def send(self, services: Services, sender: str, new: NewMessage, *, tries: int = 40) -> Message:
        """Send with the same key until it is answered, and note the acknowledged message."""
        for _ in range(tries):
            try:
                answer = await send_message(services.app, UserId(sender), new)
            except (StoreError, Unavailable):
                self.unknown += 1
                await asyncio.sleep(0.25)
                continue
            self.acknowledged.append(answer.message)
            return answer.message
        raise AssertionError("no answer in time")

    def flush_redis(self) -> None:
        """Delete everything in Redis."""
        with Redis.from_url(self.servers.redis_url) as client:
            client.flushall()

    def step_down(self) -> None:
        """Make the primary step down; without other members it becomes primary again after about a second."""
        with MongoClient[dict[str, Any]](self.servers.mongo_url) as client:
            client.admin.command({"replSetStepDown": 1, "force": True})

    def stored(self) -> list[dict[str, Any]]:
        """Return every stored message, in order of conversation and seq."""
        with MongoClient[dict[str, Any]](self.servers.mongo_url) as client:
            messages = client[self.settings.mongo_database]["messages"]
            return list(messages.find().sort([("c", 1), ("s", 1)]))

    def stored_with_content(self) -> list[dict[str, Any]]:
        """Return the stored messages without those that keep only their places (ADR 101)."""
        return [row for row in self.stored() if "t" in row]

    def check(self) -> None:
        """Check I1 and I2: each acknowledged message is stored once, at its seq, and each seq has one message."""
        rows = self.stored()
        by_id = {row["_id"]: row for row in rows}
        assert len(by_id) == len(rows)
        places = [(row["c"], row["s"]) for row in rows]
        assert len(set(places)) == len(places)
        for message in self.acknowledged:
            row = by_id.get(message.id)
            assert row is not None, f"acknowledged and lost: {message}"
            assert (row["c"], row["s"], row["t"]) == (message.conversation, message.seq, message.text)
        keys = [(row["u"], row["ik"]) for row in rows if "ik" in row]
        assert len(set(keys)) == len(keys), "a key was stored twice"


@pytest.fixture
async def world(own_servers: EmbeddedServers) -> AsyncIterator[World]:
    """A fresh database on servers that a test may harm."""
    name = f"loss_{secrets.token_hex(4)}"
    yield World(
        own_servers,
        load_settings(
            mongo_url=own_servers.mongo_url,
            mongo_database=name,
            redis_url=own_servers.redis_url,
            redis_prefix=f"{name}:",
            jwt_secret="s" * 48,
        ),
    )


async def counted_unread(services: Services, user: str, conversation: ConversationId) -> int:
    """Return the unread count by counting: messages after readSeq, by others, not SYSTEM."""
    session = await services.app.store.sessions.find(UserId(user), conversation)
    assert session is not None
    rows = await services.app.store.mongo.find(
        "messages", {"c": conversation, "s": {"$gt": session.read_seq}, "u": {"$ne": user}, "k": {"$ne": "S"}}
    )
    return len(rows)

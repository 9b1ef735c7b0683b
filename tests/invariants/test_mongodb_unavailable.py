"""Without MongoDB, cached data is still answered, writes are refused at once, and keys stay safe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from server.embedded import EmbeddedServers
from server.services import open_services
from server.settings import load_settings
from store.base.ids import PARTITIONS
from tests.api.client import Api, private_id
from tests.api.group_calls import LEAVE
from tests.invariants.conftest import disposable_servers
from tests.waiting import TIMEOUT_SECONDS, wait_for


@pytest.fixture(scope="module")
def mongod() -> Iterator[EmbeddedServers]:
    """A MongoDB of this test module."""
    with disposable_servers(redis=False) as servers:
        yield servers


@pytest.fixture
async def api(mongod: EmbeddedServers, redis_url: str, redis_prefix: str) -> AsyncIterator[Api]:
    settings = load_settings(
        mongo_url=mongod.mongo_url, mongo_database="away", redis_url=redis_url, redis_prefix=redis_prefix
    )
    with MongoClient[dict[str, Any]](mongod.mongo_url) as client:
        async with open_services(settings) as services:
            services.app.store.mongo._primary._grace_seconds = 1.2
            api = Api(services, client, "away")
            yield api
            await api.stop_subscriptions()


async def test_without_mongodb_reads_go_on_and_writes_fail_at_once(api: Api, mongod: EmbeddedServers) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "before")
    (carol,) = await api.create_users("carol")
    group = await api.create_group(alice, bob, carol)
    sessions = await api.all_sessions(bob)
    listening = await api.listen(bob)
    child = mongod._child("mongo")
    child.kill()
    # At first writes wait for a primary: so elections pass without errors.
    await wait_for(lambda: api.services.app.store.mongo._primary.is_lost, 3 * TIMEOUT_SECONDS)
    refusals = await asyncio.gather(
        *(api.expect_send_refusal(alice, bob, f"message {n}", idempotencyKey=f"k{n}") for n in range(20))
    )
    assert {(refusal.code, refusal.retryable) for refusal in refusals} == {("UNAVAILABLE", True)}
    refusal = await api.expect_refusal(
        bob, "mutation ($id: ID!) { markRead(conversationId: $id) { id } }", id=private_id(alice, bob)
    )
    assert (refusal.code, refusal.retryable) == ("UNAVAILABLE", True)
    # Requests that are repeated for hours leave nothing behind.
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        assert (await api.expect_send_refusal(alice, bob, "without a key")).code == "UNAVAILABLE"
        seconds.append(time.monotonic() - began)
    # A write that looks for a primary takes five seconds. The fastest one counts, because the machine may be busy.
    assert min(seconds) < 3
    assert (await api.expect_refusal(carol, LEAVE, id=group)).code == "UNAVAILABLE"
    assert await api.services.app.store.outbox.list_waiting(range(PARTITIONS), 0, 100) == []
    assert await api.all_sessions(bob) == sessions
    await asyncio.to_thread(child.launch)
    await asyncio.to_thread(child.await_ready)
    await wait_for(lambda: not api.services.app.store.mongo._primary.is_lost, 3 * TIMEOUT_SECONDS)
    # The housekeeper does this by itself a few seconds later.
    await api.services.housekeeper.sweep(range(PARTITIONS), 0)
    for _ in range(2):
        sent = await asyncio.gather(*(api.send(alice, bob, f"message {n}", idempotencyKey=f"k{n}") for n in range(20)))
    assert len({each["message"]["seq"] for each in sent}) == 20
    history = [message["content"] for message in await api.history(bob, private_id(alice, bob))]
    assert sorted(history) == sorted(["before", *(f"message {n}" for n in range(20))])
    assert await api.unread(bob, private_id(alice, bob)) == 21
    received = {(await listening.next())["message"]["content"] for _ in range(20)}
    assert received == {f"message {n}" for n in range(20)}

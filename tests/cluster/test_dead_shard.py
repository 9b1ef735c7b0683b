"""A shard of three without a replica is away for a while, and comes back empty: the other shards are not affected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from pymongo import MongoClient
from redis.crc import key_slot

from server.settings import Settings
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.deployment import stale_caches
from store.deployment.slot_generations import MOST_RANGES
from store.mongo.collections import DEPLOYMENT
from store.redis.cluster import failing_nodes
from store.redis.keys import slot_of_tag, user_tag
from tests.api.client import Api, Json, Refusal, wait_until
from tests.cluster.nodes import SLOTS, OwnCluster, redis_cluster
from tests.cluster.servers import servers, until_recovered
from tests.cluster.traffic import Places, Stream, Traffic, check_stored, count_loads, read_texts, sign_in
from tests.waiting import TIMEOUT_SECONDS, wait_for

UNAVAILABLE = Refusal("UNAVAILABLE", retryable=True)


@pytest.fixture
def cluster() -> Iterator[OwnCluster]:
    with redis_cluster(primaries=3, full_coverage=False) as cluster:
        yield cluster


@pytest.fixture
def settings(settings_with: Callable[..., Settings], cluster: OwnCluster) -> Settings:
    return settings_with(redis_url=cluster.url)


@pytest.fixture(autouse=True)
def _dead_shards_stay_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a dead shard count as away until it answers a ping, even if this process pauses for more than 3 s."""
    monkeypatch.setattr(failing_nodes, "_FORGOTTEN_AFTER_SECONDS", 300.0)


async def until_apart(api: Api, *, is_apart: bool) -> None:
    async with asyncio.timeout(3 * TIMEOUT_SECONDS):
        while True:
            row = await api.services.app.store.mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
            if ("apart" in row) == is_apart == api.services.app.store.deployment.generations.is_apart:
                return
            await asyncio.sleep(0.05)


async def _is_ready(api: Api) -> bool:
    return not any((await api.services.check()).values())


@pytest.mark.usefixtures("long_redis_timeouts")
async def test_a_dead_shard_affects_only_its_users_and_conversations(
    cluster: OwnCluster, settings: Settings, _mongo_janitor: MongoClient[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(cluster)
    pairs = [places.pair_on(1, 2, 2), places.pair_on(2, 1, 1), places.pair_on(1, 1, 2)]
    lost_pair = places.pair_on(0, 1, 1)
    owner, member, lost_member = places.user_on(1), places.user_on(2), places.user_on(0)
    users = [*(user for pair in pairs for user in pair), *lost_pair, owner, member, lost_member]
    async with servers(settings, _mongo_janitor, 2) as (one, two):
        await sign_in((one, two), users)
        while True:
            group = await one.create_group(owner, member, lost_member)
            if places.shard_of_conversation(group) != 0:
                break
        streams = [Stream(one, *pair, is_healthy=True) for pair in pairs]
        for stream in (*streams, lost := Stream(one, *lost_pair, is_healthy=False)):
            await stream.send_one()
        listeners = {stream.receiver: await two.listen(stream.receiver) for stream in streams}
        in_group = await two.listen(member)
        for user in users:
            await one.all_sessions(user)
        loads = count_loads(monkeypatch)

        cluster.primaries[0].kill()
        traffic = Traffic(streams)
        await traffic.goes_on(3)
        for api in (one, two):
            await until_apart(api, is_apart=True)
        await traffic.goes_on(3)
        # A group with a member on the dead shard.
        seconds = []
        for number in range(1, 4):
            began = time.monotonic()
            await one.send(owner, group, f"{number}")
            seconds.append(time.monotonic() - began)
        # A send that waits for the dead shard takes longer. The fastest one counts, because the machine may be busy.
        assert min(seconds) < 10
        assert await read_texts(in_group, owner, 3) == (["1", "2", "3"], False)
        assert await one.unread(member, group) == 3
        # Sessions on the dead shard are unavailable at once.
        for query in ("{ totalUnread }", "{ sessions(first: 9) { edges { cursor } } }"):
            assert await two.expect_refusal(lost_member, query) == UNAVAILABLE
        assert await one.expect_send_refusal(*lost_pair, idempotencyKey="not stored") == UNAVAILABLE
        for api in (one, two):
            await wait_until(lambda api=api: _is_ready(api))
            assert not api.services.app.uses_fallback
            assert api.services.app.store.deployment.generations.number == 1

        cluster.primaries[0].start()
        await lost.send_one()
        await until_apart(one, is_apart=False)
        await traffic.goes_on(3)
        await traffic.stop()
        await until_recovered([one, two], min_generation=2)
        assert one.services.app.store.deployment.generations.number == 2
        for stream in (*streams, lost):
            for api in (one, two):
                await check_stored(api, stream)
        for stream in streams:
            texts = await read_texts(listeners[stream.receiver], stream.sender, stream.sent)
            assert texts == ([f"{number}" for number in range(2, stream.sent + 1)], False)
        assert await two.unread(lost_member, group) == 3
        assert {user: loads[user] for user in users if places.shard_of(user) != 0 and loads[user]} == {}


async def test_stale_caches_of_a_dead_shard_are_discarded_once_and_only_there(
    cluster: OwnCluster,
    settings: Settings,
    _mongo_janitor: MongoClient[Json],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages to large groups make more caches stale each second, all over the slots of the dead shard."""
    async with servers(settings, _mongo_janitor, 1) as (one,):
        store = one.services.app.store
        generations, stale = store.deployment.generations, store.stale_caches
        lost = range(cluster.shard_of(0), SLOTS // 3)
        users = {slot_of_tag(user_tag(user)): user for user in (UserId(f"u{number}") for number in range(40_000))}
        scattered = [users[slot] for slot in lost if slot % 2 and slot in users]
        assert len(scattered) > 2 * MOST_RANGES
        monkeypatch.setattr(stale_caches, "_MAX_REMEMBERED", 1_000)
        cluster.primaries[0].kill()
        await until_apart(one, is_apart=True)
        for _ in range(2):
            for user in scattered:
                stale.add_user(user)
            with pytest.raises(Unreachable):
                await stale.invalidate()
            assert generations.number == 1
        # The contents of living shards are discarded meanwhile.
        reached = next(user for slot, user in users.items() if slot > SLOTS // 2)
        for user in (reached, *scattered[:1_000]):
            stale.add_user(user)
        await stale.invalidate()
        assert generations.number == 2

        async def is_refused() -> bool:
            with suppress(Unreachable):
                await stale.invalidate()
                return False
            return True

        # While the housekeeper invalidates the rest, this call has nothing to do and raises nothing.
        await wait_until(is_refused)
        assert generations.number == 2

        cluster.primaries[0].start()
        await until_recovered([one], min_generation=3)
        await wait_for(lambda: not stale._overflowed_slots)
        for slot in (SLOTS // 3 + 1, SLOTS - 1):
            assert generations._slots.of(slot) <= 2
        assert min(generations._slots.of(slot) for slot in lost) > 2
        assert generations.differs_by_slot
        # Servers of an earlier version ran alone for a while: they used the newest names for all slots.
        alone = [{"$set": {"noted": {"$add": ["$seen", -20_000]}}}]
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while generations.differs_by_slot:
                await store.mongo.update_one(DEPLOYMENT, {"_id": 1}, alone)
                await asyncio.sleep(0.1)


async def test_a_server_whose_channel_is_on_a_silent_shard_gets_frames_elsewhere(
    cluster: OwnCluster, settings: Settings, _mongo_janitor: MongoClient[Json]
) -> None:
    """No replica takes over, and the connection to the silent node stays open."""
    places = Places(cluster)
    async with servers(settings, _mongo_janitor, 2) as (one, two):
        store = two.services.app.store
        channel = store.keys.channel(two.services.app.hub.server)
        silent = cluster.shard_of(key_slot(channel.encode()))
        others = [node for i, node in enumerate(cluster.primaries) if i != silent]
        sender, receiver = places.pair_on((silent + 1) % 3, (silent + 2) % 3, (silent + 1) % 3)
        await sign_in((one, two), [sender, receiver])
        stream = Stream(one, sender, receiver, is_healthy=True)
        await stream.send_one()
        listener = await two.listen(receiver)
        cluster.primaries[silent].pause()
        try:
            await wait_for(
                lambda: any(node.client.pubsub_numsub(channel)[0][1] for node in others), 3 * TIMEOUT_SECONDS
            )
            assert store.cache.is_away(channel)
            # The sender's server also has to know this, so that it publishes at another node.
            await wait_for(lambda: one.services.app.store.cache.is_away(channel), 3 * TIMEOUT_SECONDS)
            await stream.send_one()
            assert await read_texts(listener, sender, 2) == (["2"], False)
        finally:
            cluster.primaries[silent].resume()

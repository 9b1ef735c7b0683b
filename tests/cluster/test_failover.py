"""If one shard of three is replaced, a generation begins for its slots only, and the other shards are not affected."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from pymongo import MongoClient

from server.settings import Settings
from store.base.errors import StoreError, Unreachable
from store.base.ids import UserId
from store.mongo.collections import DEPLOYMENT
from store.redis.keys import slot_of_tag, user_tag
from tests.api.client import SEND, Json, message_input
from tests.cluster.nodes import ClusterNode, OwnCluster, redis_cluster, until
from tests.cluster.servers import servers, until_recovered
from tests.cluster.traffic import Places, Stream, Traffic, check_stored, count_loads, read_texts, sign_in

IDLE_USERS = 30
"""Users who read their sessions before and after the failover."""

NODE_TIMEOUT_MS = int(os.environ.get("CONFAB_TEST_NODE_TIMEOUT_MS", "10000"))
"""Milliseconds after which nodes vote. With a short time, a busy machine loses nodes that are well."""


@pytest.fixture
def by_vote() -> bool:
    """True: replicas take over after a node timeout, as in operation. False: at once."""
    return False


@pytest.fixture
def cluster(by_vote: bool) -> Iterator[OwnCluster]:
    """Three primaries with a replica each."""
    timeouts = {"node_timeout_ms": NODE_TIMEOUT_MS} if by_vote else {}
    with redis_cluster(primaries=3, replicas=3, full_coverage=False, **timeouts) as cluster:
        yield cluster


@pytest.fixture
def settings(settings_with: Callable[..., Settings], cluster: OwnCluster) -> Settings:
    return settings_with(redis_url=cluster.url)


@pytest.mark.usefixtures("long_redis_timeouts")
@pytest.mark.parametrize("by_vote", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_a_failover_of_one_shard_leaves_the_others_alone(
    cluster: OwnCluster,
    by_vote: bool,
    settings: Settings,
    _mongo_janitor: MongoClient[Json],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = Places(cluster)
    pairs = {
        (places.pair_on(1, 2, 2), True),
        (places.pair_on(2, 1, 1), True),
        (places.pair_on(1, 1, 2), True),
        (places.pair_on(0, 1, 1), False),
        (places.pair_on(1, 0, 2), False),
        (places.pair_on(2, 1, 0), False),
    }
    idle = [places.user_on(number % 3) for number in range(IDLE_USERS)]
    users = [*(user for pair, _ in pairs for user in pair), *idle]
    async with servers(settings, _mongo_janitor, 3) as (one, two, late):
        await sign_in((one, two, late), users)
        # This server notices nothing by itself.
        await late.services.housekeeper.close()
        streams = [Stream(one, *pair, is_healthy) for pair, is_healthy in pairs]
        for stream in streams:
            await stream.send_one()
        listeners = {stream.receiver: await two.listen(stream.receiver) for stream in streams}
        for user in users:
            await late.all_sessions(user)
        traffic = Traffic(streams)
        await traffic.goes_on(5)
        loads = count_loads(monkeypatch)
        numbers = [api.services.app.store.deployment.generations.number for api in (one, two, late)]
        assert numbers == [1, 1, 1]

        began = time.monotonic()
        await asyncio.to_thread(cluster.fail_over, 0, by_vote=by_vote)
        taken_over = time.monotonic() - began
        await traffic.goes_on(3)
        answered = time.monotonic() - began
        await until_recovered([one, two], min_generation=2)
        right = time.monotonic() - began
        await traffic.goes_on(3)
        await traffic.stop()

        store = one.services.app.store
        namespaces = {user: store.keys.user(user)[0].partition("{")[0] for user in users}
        assert namespaces == {user: f"{store.keys.prefix}/{2 - bool(places.shard_of(user))}" for user in users}
        # The first call of a server that has noticed nothing may fail.
        await late.run(streams[-1].receiver, "{ totalUnread }")
        for user in users:
            if places.shard_of(user) == 0:
                await late.run(user, "{ totalUnread }")
        for stream in streams:
            for api in (one, two, late):
                await check_stored(api, stream)
            texts, is_reset = await read_texts(listeners[stream.receiver], stream.sender, stream.sent)
            if is_reset:
                # Its clock was on the shard that was lost.
                assert places.shard_of(stream.receiver) == 0
            else:
                assert texts == [f"{number}" for number in range(2, stream.sent + 1)]
        assert late.services.app.store.deployment.generations.number == 2
        for user in idle:
            await one.all_sessions(user)
        assert {user for user in loads if loads[user]} == {user for user in users if places.shard_of(user) == 0}
        assert {loads[user] for user in idle} == {0, 1}
        failed = sum(len(stream.failures) for stream in streams)
        slowest = max(stream.slowest_seconds for stream in streams if stream.is_healthy)
    with capsys.disabled():
        print(
            f"\none shard of three failed over; seconds until: a replica has taken over {taken_over:.1f}, all pairs "
            f"have sent 3 more messages {answered:.1f}, the recovery has ended {right:.1f}; others: no loads, no "
            f"failures, slowest message {slowest:.1f} s; lost shard: {sum(loads.values())} of {len(users)} users "
            f"loaded again, failed requests {failed}"
        )


@pytest.mark.usefixtures("long_redis_timeouts")
async def test_slots_that_move_around_a_failover_show_no_old_data(
    cluster: OwnCluster, settings: Settings, _mongo_janitor: MongoClient[Json]
) -> None:
    """Slots that leave the shard or join it before the failover, and some that leave it before a server notices."""
    places = Places(cluster)
    before, after, joining, moving = places.user_on(0), places.user_on(0), places.user_on(1), places.user_on(0)
    other = places.user_on(2)
    users = [before, after, joining, moving]
    async with servers(settings, _mongo_janitor, 1) as (api,):
        await sign_in((api,), [*users, other])
        for user in users:
            await api.send(other, user)
            assert await api.total_unread(user) == 1
        await api.wait_until_idle()
        await _move(cluster, before, 0, 1)
        await _move(cluster, joining, 1, 0)
        assert await api.total_unread(before) == await api.total_unread(joining) == 1
        slot = slot_of_tag(user_tag(moving))
        await asyncio.to_thread(_begin_move, slot, cluster.primaries[0], cluster.primaries[1])
        replica = cluster.replicas[0].client
        until(lambda: replica.info("replication")["master_link_status"] == "up")
        # The replica is behind: MongoDB has one unread message of each, and the replica has none.
        store = api.services.app.store
        metas = {user: store.keys.user(user)[0] for user in users}
        for user in (after, joining, moving):
            await asyncio.to_thread(cluster.primaries[0].client.hset, metas[user], "total", 7)
        await asyncio.to_thread(cluster.primaries[1].client.hset, metas[before], "total", 7)
        until(lambda: replica.info("replication")["slave_repl_offset"] >= _offset(cluster, 0))
        assert await api.total_unread(joining) == 7
        # It would notice the failover before the next slot has moved.
        await api.services.housekeeper.close()
        await asyncio.to_thread(cluster.fail_over, 0)
        await _move(cluster, after, 0, 2)
        async with asyncio.timeout(60):
            while store.deployment.generations.number == 1:
                with suppress(StoreError):
                    await store.deployment.check_redis()
                await asyncio.sleep(0.05)
        for node in cluster.primaries:
            await asyncio.to_thread(node.set_slot, slot, "STABLE")
        for user in (after, joining, moving):
            async with asyncio.timeout(60):
                while "errors" in (found := await api.run(user, "{ totalUnread }")):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert found["data"]["totalUnread"] == 1
        assert store.keys.user(joining)[0] != metas[joining]
        assert store.deployment.generations.number == 2
        # A server of an earlier version appears, which knows no generations of slots.
        store.deployment.formats.oldest = 1
        await store.deployment.check_redis()
        assert not store.deployment.generations.differs_by_slot
        assert store.deployment.generations.number == 3
        assert await api.total_unread(joining) == await api.total_unread(other) + 1 == 1


async def _move(cluster: OwnCluster, user: UserId, source: int, target: int) -> None:
    """Move the slot of a user from one shard to another."""
    slot, (from_, to) = slot_of_tag(user_tag(user)), (cluster.primaries[source], cluster.primaries[target])
    await asyncio.to_thread(_begin_move, slot, from_, to)
    await asyncio.to_thread(cluster.end_move, slot, from_, to)


def _begin_move(slot: int, source: ClusterNode, target: ClusterNode) -> None:
    target.set_slot(slot, "IMPORTING", source.id)
    source.set_slot(slot, "MIGRATING", target.id)


def _offset(cluster: OwnCluster, shard: int) -> int:
    return int(cluster.primaries[shard].client.info("replication")["master_repl_offset"])


@pytest.mark.usefixtures("long_redis_timeouts")
async def test_old_data_of_a_replica_with_a_shard_id_of_its_own_is_not_used(
    cluster: OwnCluster, settings: Settings, _mongo_janitor: MongoClient[Json]
) -> None:
    """If a primary dies soon after a replica has joined, the replica keeps the shard id with which it was started."""
    places = Places(cluster)
    sender, receiver = places.pair_on(1, 0, 2)
    async with servers(settings, _mongo_janitor, 1) as (api,):
        await sign_in((api,), (sender, receiver))
        await api.send(sender, receiver)
        assert await api.total_unread(receiver) == 1
        await api.wait_until_idle()
        replica, store = cluster.replicas[0].client, api.services.app.store
        # Old data, as on a replica that is behind.
        await asyncio.to_thread(cluster.primaries[0].client.hset, store.keys.user(receiver)[0], "total", 7)
        until(lambda: replica.info("replication")["slave_repl_offset"] >= _offset(cluster, 0))
        row = await store.mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
        run = (await asyncio.to_thread(cluster.primaries[0].client.info, "server"))["run_id"]
        shard = next(shard for shard, found in row["runs"].items() if found == run)
        # As if the primary had another shard id than its replica.
        names = {f"runs.{shard}": "runs.another", f"epochs.{shard}": "epochs.another"}
        await store.mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$rename": names})
        await asyncio.to_thread(cluster.fail_over, 0)
        async with asyncio.timeout(60):
            while "errors" in (found := await api.run(receiver, "{ totalUnread }")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert found["data"]["totalUnread"] == 1
        await until_recovered([api], min_generation=2)


async def test_a_primary_that_was_paused_does_not_take_its_shard_back(
    cluster: OwnCluster, settings: Settings, _mongo_janitor: MongoClient[Json]
) -> None:
    places = Places(cluster)
    pair = places.pair_on(0, 0, 0)
    async with servers(settings, _mongo_janitor, 2) as (one, two):
        await sign_in((one, two), pair)
        stream = Stream(one, *pair, is_healthy=False)
        await stream.send_one()
        former = cluster.primaries[0]
        former.pause()
        await asyncio.to_thread(cluster.replace, 0)
        await stream.send_one()
        former.resume()
        traffic = Traffic([stream])
        # It becomes a replica, under the run id that it had.
        async with asyncio.timeout(60):
            while (await asyncio.to_thread(former.client.info, "replication"))["role"] != "slave":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        # New servers ask the nodes that the settings name, this one among them.
        async with servers(settings, _mongo_janitor, 1) as (three,):
            await traffic.goes_on(5)
            await traffic.stop()
            await until_recovered([one, two, three], min_generation=2)
            for api in (one, two, three):
                await check_stored(api, stream)


@pytest.mark.usefixtures("long_redis_timeouts")
async def test_an_unanswered_send_is_repeated_without_a_second_message(
    cluster: OwnCluster, settings: Settings, _mongo_janitor: MongoClient[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim of its key was on the shard that was lost, and its place is on another one."""
    places = Places(cluster)
    sender, receiver = places.pair_on(0, 1, 1)
    async with servers(settings, _mongo_janitor, 1) as (api,):
        await sign_in((api,), (sender, receiver))
        stream = Stream(api, sender, receiver, is_healthy=False)
        await stream.send_one()
        delivery = api.services.app.delivery

        async def fail(*_: object, **__: object) -> None:
            raise Unreachable("the shard is away")

        with monkeypatch.context() as patch:
            patch.setattr(delivery, "send", fail)
            given = message_input(receiver, "2", idempotencyKey=f"{sender} 2")
            assert "errors" in await api.run(sender, SEND, input=given)
        deployment = api.services.app.store.deployment

        async def skip_check() -> None:
            """Do nothing, so that a new connection shows the loss before the housekeeper notices it."""

        with monkeypatch.context() as patch:
            patch.setattr(deployment, "check_redis", skip_check)
            await asyncio.to_thread(cluster.fail_over, 0)
            await stream.send_one()
            assert deployment.redis_lost_at_ms == 0
        history = await api.history(receiver, stream.conversation)
        assert [message["content"] for message in history] == ["1", "2"]
        await check_stored(api, stream)

"""A shard of three is replaced: a generation begins for its slots only, and the other shards work as before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from pymongo import MongoClient

from server.settings import Settings
from store.base.ids import UserId
from tests.api.client import Json
from tests.cluster.nodes import OwnCluster, redis_cluster
from tests.cluster.servers import servers, until_recovered
from tests.cluster.traffic import Places, Stream, Traffic, check_stored, count_loads, read_texts, sign_in


@pytest.fixture
def cluster() -> Iterator[OwnCluster]:
    """Three primaries with a replica each."""
    with redis_cluster(primaries=3, replicas=3, full_coverage=False) as cluster:
        yield cluster


@pytest.fixture
def settings(settings_with: Callable[..., Settings], cluster: OwnCluster) -> Settings:
    return settings_with(redis_url=cluster.url)


async def test_a_failover_of_one_shard_leaves_the_others_alone(
    cluster: OwnCluster,
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
    users = [user for pair, _ in pairs for user in pair]
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
        await asyncio.to_thread(cluster.fail_over, 0)
        taken_over = time.monotonic() - began
        await traffic.goes_on(3, [stream for stream in streams if stream.is_healthy])
        healthy = time.monotonic() - began
        await traffic.goes_on(3)
        answered = time.monotonic() - began
        await until_recovered([one, two])
        right = time.monotonic() - began
        await traffic.goes_on(3)
        await traffic.stop()

        store = one.services.app.store
        assert store.deployment.generations.number == 2
        assert store.keys.namespaces() == {f"{store.keys.prefix}/1", f"{store.keys.prefix}/2"}
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
        on_others = {user: loads[user] for user in users if places.shard_of(user) != 0 and loads[user]}
        assert on_others == {}
        lost = {user for user in users if places.shard_of(user) == 0}
        assert lost and all(loads[user] for user in lost)
        failed = sum(len(stream.failures) for stream in streams)
    with capsys.disabled():
        print(
            f"\n3 shards, one failed over: taken over after {taken_over:.2f} s; the others sent 3 messages by {healthy:.2f} s; "
            f"all sent 3 by {answered:.2f} s; recovery ended after {right:.2f} s; "
            f"loads on the others 0, on the lost one {sum(loads[UserId(user)] for user in lost)}; "
            f"{failed} failed requests of users there"
        )

"""On a Redis Cluster, callers do not notice which node has a key, that slots move, or that a node is replaced."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from redis.crc import key_slot

from resolvers.messages.history import list_messages
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from server.services import open_services
from server.settings import Settings
from store.base.errors import Unreachable
from store.base.ids import UserId, partition_of, private_id
from store.redis.admission import RedisIdentity
from store.redis.cache import Cache, Call
from store.redis.cluster.url import parse_cluster_url
from store.redis.keys import Keys
from store.scripts import read_scripts
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.mailboxes import MailboxEvent, QueueBudget
from tests.cluster.conftest import REDIS_TIMEOUT_SECONDS
from tests.cluster.nodes import OwnCluster
from tests.conftest import of_one_redis
from tests.mailboxes import next_item
from tests.waiting import TIMEOUT_SECONDS

pytestmark = pytest.mark.usefixtures("long_redis_timeouts")

AT_ONCE_SECONDS = REDIS_TIMEOUT_SECONDS / 2
"""Longest time of a call that does not wait for a dead node."""

ANNA, BEN = UserId("anna"), UserId("ben")


def slot_of(key: str) -> int:
    return key_slot(key.encode())


def lock(keys: Keys, user: str) -> Call:
    """Run a script that uses several keys of a user and declares one."""
    return Call("lock", keys.user(UserId(user)), (1, "owner", "server", 60_000))


async def test_replies_of_all_nodes_come_in_the_order_of_the_calls(cache: Cache) -> None:
    keys = [f"{cache.keys.namespace}{number}" for number in range(300)]
    await cache.run([Call("SET", (key,), (number,)) for number, key in enumerate(keys)])
    trips = cache.trips
    assert await cache.run([Call("GET", (key,)) for key in keys]) == [b"%d" % number for number in range(300)]
    assert cache.trips == trips + 1
    refused = await cache.attempt([Call("GET", (keys[0],)), Call("HGET", (keys[1],), ("f",)), Call("GET", (keys[2],))])
    assert (refused[0], refused[2]) == (b"0", b"2") and isinstance(refused[1], Exception)


async def test_loading_the_scripts_connects_to_every_node(cache: Cache) -> None:
    admitted = []

    async def admit(redis: RedisIdentity) -> None:
        admitted.append(redis.shard)
        report = await redis.read_report()
        # Each node was started with another configuration epoch.
        assert sorted(report.primary_epochs.values()) == [1, 2, 3]
        assert report.primary_epochs[redis.node] == redis.config_epoch
        assert not redis.has_loaded_data

    cache.admit_with(admit)
    await cache.load_scripts()
    assert len(set(admitted)) == 3
    admitted.clear()
    await cache.run([Call("GET", (f"{cache.keys.namespace}{number}",)) for number in range(10)])
    assert admitted == []


async def test_a_moved_slot_is_found_at_its_new_node(cluster: OwnCluster, cache: Cache) -> None:
    key = f"{cache.keys.namespace}{{moves}}"
    await cache.one(Call("SET", (key,), ("kept",)))
    url = await cache.find_url(key)
    cluster.end_move(slot_of(key), *cluster.begin_move(slot_of(key)))
    assert await cache.one(Call("GET", (key,))) == b"kept"
    assert not cache.is_owner(key, url)
    assert await cache.one(lock(cache.keys, "moves")) is not None


async def test_a_script_on_a_moving_slot_waits_and_runs_as_a_whole(cluster: OwnCluster, cache: Cache) -> None:
    user = cache.keys.of_user(UserId("u"), "")
    here, there = f"{user}here", f"{user}there"
    await cache.run([lock(cache.keys, "u"), *(Call("SET", (key,), (1,)) for key in (there, here))])
    slot = slot_of(user)
    source, target = cluster.begin_move(slot)
    source.migrate(target, there)
    keys = [sorted(node.client.scan_iter(match=f"{user}*")) for node in (source, target)]
    # A call with one key follows it; a new key is created at the slot's target.
    assert await cache.run([Call("INCR", (key,)) for key in (there, here, f"{user}new")]) == [2, 2, 1]
    keys[1] = sorted([*keys[1], f"{user}new".encode()])
    script = asyncio.create_task(cache.one(lock(cache.keys, "u")))
    done, _ = await asyncio.wait({script}, timeout=0.1)
    assert not done
    assert [sorted(node.client.scan_iter(match=f"{user}*")) for node in (source, target)] == keys
    cluster.end_move(slot, source, target)
    assert (await script)[0] == 0
    assert await cache.run([Call("GET", (key,)) for key in (there, here)]) == [b"2", b"2"]


async def test_scripts_that_nodes_lost_are_loaded_again(cluster: OwnCluster, cache: Cache) -> None:
    calls = [lock(cache.keys, f"u{number}") for number in range(12)]
    await cache.run(calls)
    for node in cluster.primaries:
        node.run("SCRIPT", "FLUSH")
    assert [answer[0] for answer in await cache.run(calls)] == [0] * 12


async def test_a_script_on_keys_of_two_nodes_is_refused(cache: Cache) -> None:
    keys = cache.keys.user(UserId("u0")) + cache.keys.user(UserId("u1"))
    with pytest.raises(Unreachable, match="CROSSSLOT"):
        await cache.one(Call("read_membership", keys, ("x", "mt")))


@pytest.fixture
def settings(settings_with: Callable[..., Settings], cluster: OwnCluster) -> Settings:
    return settings_with(redis_url=cluster.url)


async def test_messages_are_sent_and_received_while_their_slots_move(cluster: OwnCluster, settings: Settings) -> None:
    async with open_services(settings) as one, open_services(settings) as two:
        for user in (ANNA, BEN):
            await one.sign_in(Caller(user, CallerRole.USER, 2e9))
        mailbox = await two.app.hub.attach(BEN, QueueBudget(100))
        conversation = private_id(ANNA, BEN)
        keys = one.app.store.keys
        moving = [keys.outbox(partition_of(conversation)), keys.user(ANNA)[0], keys.user(BEN)[0],
                  keys.channel(two.app.hub.server)]  # fmt: skip
        sent, over = 0, asyncio.Event()

        async def chatter() -> None:
            nonlocal sent
            while not over.is_set():
                await send_message(one.app, ANNA, NewMessage(BEN, None, f"{sent + 1}"))
                sent += 1

        async def two_more_are_sent() -> None:
            before = sent
            async with asyncio.timeout(60):
                while sent < before + 2 and not chatting.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.005)

        chatting = asyncio.create_task(chatter())
        for name in moving:
            slot = slot_of(name)
            source, target = cluster.begin_move(slot)
            await asyncio.sleep(0.05)
            while await asyncio.to_thread(cluster.move_keys, slot, source, target, 1):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            await asyncio.to_thread(cluster.end_move, slot, source, target)
            await two_more_are_sent()
        over.set()
        await chatting
        page = await list_messages(one.app, ANNA, conversation, first=100, after=None, last=None, before=None)
        assert page is not None
        assert [edge.node.text for edge in page.edges] == [f"{number}" for number in range(1, min(sent, 100) + 1)]
        # It receives events again from the node to which its channel moved.
        await send_message(one.app, ANNA, NewMessage(BEN, None, "last"))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                item = await next_item(mailbox)
                if (
                    isinstance(item, MailboxEvent)
                    and isinstance(item.event, MessageCreated)
                    and item.event.message.text == "last"
                ):
                    break


async def test_a_dead_node_is_replaced_and_its_data_does_not_count(cluster: OwnCluster, settings: Settings) -> None:
    async with open_services(settings) as services:
        store = services.app.store
        for user in (ANNA, BEN):
            await services.sign_in(Caller(user, CallerRole.USER, 2e9))
        others = cluster.primaries[1:]
        for number in range(40):
            # Each shard registers itself.
            await store.cache.one(Call("SET", (f"{store.keys.namespace}{number}",), (1,)))
        generation = store.deployment.generations.number
        await send_message(services.app, ANNA, NewMessage(BEN, None, "before"))
        await asyncio.to_thread(cluster.primaries[0].kill)
        began = time.monotonic()
        # Other nodes answer as before.
        kept = next(
            f"{store.keys.namespace}{n}"
            for n in range(9999)
            if cluster.owner(slot_of(f"{store.keys.namespace}{n}")) in others
        )
        await store.cache.one(Call("GET", (kept,)))
        assert time.monotonic() - began < AT_ONCE_SECONDS
        await asyncio.to_thread(cluster.replace, 0)
        for text in ("after", "and after"):
            async with asyncio.timeout(60):
                while True:
                    try:
                        await send_message(services.app, ANNA, NewMessage(BEN, None, text, key=text))
                        break
                    except Unreachable:
                        await asyncio.sleep(0.05)
        for number in range(40):
            await store.cache.one(Call("SET", (f"{store.keys.namespace}{number}",), (1,)))
        assert store.deployment.generations.number > generation
        page = await list_messages(
            services.app, ANNA, private_id(ANNA, BEN), first=9, after=None, last=None, before=None
        )
        assert page is not None
        assert [edge.node.text for edge in page.edges] == ["before", "after", "and after"]


async def test_without_any_node_calls_fail_at_once() -> None:
    cache = Cache("redis+cluster://127.0.0.1:1,127.0.0.1:2", read_scripts)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        await cache.one(Call("PING", ()))
    assert time.monotonic() - began < AT_ONCE_SECONDS
    await cache.close()


@of_one_redis
async def test_a_redis_that_is_no_cluster_is_reported(redis_url: str) -> None:
    cache = Cache(redis_url.replace("redis://", "redis+cluster://"), read_scripts)
    with pytest.raises(Unreachable, match="is not part of a cluster"):
        await cache.one(Call("PING", ()))
    await cache.close()


@pytest.mark.parametrize(
    ("url", "first"),
    [
        ("redis+cluster://a:1,b:2", "redis://a:1"),
        ("redis+cluster://a,b/0", "redis://a:6379"),
        ("rediss+cluster://me:p%40ss@a:1,b:2?ssl_ca_certs=x", "rediss://me:p%40ss@a:1?ssl_ca_certs=x"),
        ("redis+cluster://[::1]:7,b", "redis://[::1]:7"),
    ],
)
def test_the_address_of_a_cluster_names_some_of_its_nodes(url: str, first: str) -> None:
    cluster = parse_cluster_url(url)
    assert cluster is not None
    assert cluster.node_url(cluster.seeds[0]) == first
    assert parse_cluster_url("redis://a:1/0") is None


@pytest.mark.parametrize(
    "url", ["redis+cluster://", "http+cluster://a:1", "redis+cluster://a:x", "redis+cluster://a:1/3"]
)
def test_an_address_without_a_cluster_node_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_cluster_url(url)

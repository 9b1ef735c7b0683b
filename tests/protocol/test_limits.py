"""Floods: of connections, of operations on one connection, of bytes in one message."""

from __future__ import annotations

import asyncio

import pytest

from subscriptions.transport.websocket import Authenticated, TransportLimits

TOO_MANY = (1013, "Try again later: too many connections")
TOO_MANY_OF_USER = (1013, "Try again later: too many connections of this user")


async def by_name(payload):
    name = (payload or {}).get("name")
    return Authenticated(name, user=name)


@pytest.fixture
def crowded(start):
    """A server that takes three connections, two of each user."""

    async def connect():
        server = await start(TransportLimits(max_connections=3, max_connections_per_user=2), authenticate=by_name)

        async def arrive(name):
            peer = await server.connect(init=False)
            await peer.init({"name": name})
            return peer

        return server, arrive

    return connect


async def test_a_socket_beyond_the_connection_limit_is_closed_1013(crowded):
    server, arrive = await crowded()
    seated = [await arrive(name) for name in ("alice", "alice", "bob")]
    for _ in range(2):
        peer = await server.connect(init=False)
        assert await peer.closed() == TOO_MANY
    for peer in seated:
        assert await peer.is_alive()
    await seated[0].socket.close()
    await arrive("carol")


async def test_the_connection_limit_of_one_user_does_not_affect_others(crowded):
    server, arrive = await crowded()
    first, second = [await arrive("alice") for _ in range(2)]
    third = await server.connect(init=False)
    await third.send({"type": "connection_init", "payload": {"name": "alice"}})
    assert await third.closed() == TOO_MANY_OF_USER
    assert await (await arrive("bob")).is_alive()
    assert await first.is_alive()
    assert await second.is_alive()


async def test_the_oldest_unauthenticated_sockets_give_way_to_users(crowded):
    server, arrive = await crowded()
    silent = [await server.connect(init=False) for _ in range(2)]
    nameless = await server.connect()
    alice = await arrive("alice")
    assert await silent[0].closed() == TOO_MANY
    bob = await arrive("bob")
    assert await silent[1].closed() == TOO_MANY
    await arrive("carol")
    assert await nameless.closed() == TOO_MANY
    assert await alice.is_alive()
    assert await bob.is_alive()


async def test_ten_thousand_operations_on_one_connection_harm_no_other(start, engine):
    async def wait(request, context):
        await asyncio.Event().wait()

    engine.executions["query wait"] = wait
    server = await start(TransportLimits(max_subscriptions=100))
    bystander = await server.connect()
    peer = await server.connect()
    tasks = len(asyncio.all_tasks())
    refused = 0
    most_refused_meanwhile = 0

    async def flood():
        for n in range(10_000):
            await peer.subscribe(str(n), "query wait")

    async def count_refusals():
        nonlocal refused
        while refused < 9_900:
            frame = await peer.receive()
            assert frame["payload"][0]["extensions"]["code"] == "RATE_LIMITED"
            refused += 1

    async def watch():
        nonlocal most_refused_meanwhile
        while refused < 9_900:
            before = refused
            assert await bystander.is_alive()
            most_refused_meanwhile = max(most_refused_meanwhile, refused - before)
            await asyncio.sleep(0.01)

    await asyncio.gather(flood(), count_refusals(), watch())
    # At most the hundred running operations, each in a task.
    assert len(asyncio.all_tasks()) <= tasks + 100
    # The bystander gets its answers during the flood, and not after it.
    assert most_refused_meanwhile < 1_000
    for n in range(100):
        await peer.complete(str(n))
    assert await peer.is_alive()
    await peer.subscribe("after", "query hello")
    assert (await peer.receive())["type"] == "next"


async def test_a_too_long_operation_id_is_refused_and_the_connection_stays(server):
    peer = await server.connect()
    await peer.subscribe("x" * 1025, "query hello")
    frame = await peer.receive()
    assert (frame["id"], frame["type"]) == ("x" * 1025, "error")
    assert frame["payload"][0]["extensions"]["code"] == "INVALID_INPUT"
    await peer.subscribe("x" * 1024, "query hello")
    assert (await peer.receive())["type"] == "next"


def in_fragments(text, count):
    size = -(-len(text) // count)
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize("fragments", [1, 3])
@pytest.mark.parametrize(("init", "limit"), [(False, 65_536), (True, 1_048_576)], ids=["before the ack", "after it"])
async def test_a_message_past_the_limit_is_closed_1009_fragmented_or_not(server, init, limit, fragments):
    bystander = await server.connect()
    peer = await server.connect(init=init)
    ping = '{"type":"ping","payload":{"a":"%s"}}'
    free = limit - len(ping % "")
    await peer.send(in_fragments(ping % ("x" * free), fragments))
    assert (await peer.receive())["type"] == "pong"
    await peer.send(in_fragments(ping % ("x" * (free + 1)), fragments))
    assert (await peer.closed())[0] == 1009
    assert await bystander.is_alive()

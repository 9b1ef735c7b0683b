"""Silent peers, peers that stop reading, and the shutdown of the server."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed

from subscriptions.transport import keep_alive
from subscriptions.transport.frame_writer import FrameWriter
from subscriptions.transport.keep_alive import KeepAlive
from subscriptions.transport.websocket import TransportLimits
from tests.protocol.serving import PATIENCE


async def test_the_server_pings_and_a_pong_keeps_the_connection(start):
    server = await start(TransportLimits(ping_interval_seconds=0.1))
    peer = await server.connect()
    for _ in range(5):
        assert await peer.receive() == {"type": "ping"}
        await peer.send({"type": "pong"})


async def test_any_frame_is_a_sign_of_life(start):
    server = await start(TransportLimits(ping_interval_seconds=0.1))
    peer = await server.connect()
    for _ in range(5):
        assert await peer.receive() == {"type": "ping"}
        await peer.complete("nothing")


async def test_a_silent_peer_is_closed_with_a_code_that_clients_retry(start, monkeypatch):
    pinged = []
    ping = KeepAlive._ping

    def record_and_ping(keep_alive):
        # The peer may receive the ping late.
        pinged.append(time.monotonic())
        ping(keep_alive)

    monkeypatch.setattr(KeepAlive, "_ping", record_and_ping)
    server = await start(TransportLimits(ping_interval_seconds=0.2, pong_timeout_seconds=0.05))
    peer = await server.connect()
    assert await peer.receive() == {"type": "ping"}
    assert await peer.closed() == (4408, "Keep-alive timeout")
    assert time.monotonic() - pinged[-1] >= 0.05


def test_by_default_a_dead_peer_is_removed_within_45_seconds():
    limits = TransportLimits()
    to_the_close = limits.ping_interval_seconds + limits.pong_timeout_seconds + keep_alive.GRACE_SECONDS
    # The close frame cannot be written, and then the connection is dropped without it.
    assert to_the_close + 2 * limits.close_timeout_seconds <= 45


async def test_a_dead_peer_is_closed_without_waiting_for_its_close_frame(start):
    server = await start(TransportLimits(ping_interval_seconds=0.05, close_timeout_seconds=0.1))
    port = int(server.url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    path = server.url.rpartition("/")[2]
    upgrade = f"GET /{path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}"
    writer.write(f"{upgrade}Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    init = b'{"type":"connection_init"}'
    writer.write(bytes([0x81, 0x80 | len(init), 0, 0, 0, 0]) + init)
    async with asyncio.timeout(PATIENCE):
        assert (await reader.read()).endswith(b"Keep-alive timeout")
    writer.close()


async def test_a_ping_waits_while_the_socket_cannot_be_written(start, monkeypatch):
    writable = itertools.cycle((False, True))
    monkeypatch.setattr(FrameWriter, "is_writable", property(lambda self: next(writable)))
    monkeypatch.setattr(
        FrameWriter, "call_when_writable", lambda self, call: asyncio.get_running_loop().call_soon(call)
    )
    server = await start(TransportLimits(ping_interval_seconds=0.05))
    peer = await server.connect()
    for _ in range(2):
        assert await peer.receive() == {"type": "ping"}
        await peer.send({"type": "pong"})
    assert await peer.receive() == {"type": "ping"}
    assert await peer.closed() == (4408, "Keep-alive timeout")


async def test_no_ping_is_sent_before_the_acknowledgement(start):
    server = await start(TransportLimits(ping_interval_seconds=0.05))
    peer = await server.connect(init=False)
    assert await peer.nothing_comes(0.2)


EVENT = {"data": {"text": "x" * 50_000}}


class Firehose:
    """An endless stream that counts the events taken from it."""

    def __init__(self, engine):
        self.taken = 0
        self.closed = asyncio.Event()
        engine.streams["subscription flood"] = self.stream

    async def stream(self, request, context):
        try:
            while True:
                self.taken += 1
                yield EVENT
        finally:
            self.closed.set()

    async def stalled(self):
        """Wait until no more events are taken."""
        # The number must be the same five times: the process may have been paused during one sleep.
        taken, unchanged = 0, 0
        while unchanged < 5:
            await asyncio.sleep(0.03)
            unchanged = unchanged + 1 if 0 < taken == self.taken else 0
            taken = self.taken


@pytest.fixture
def firehose(engine):
    return Firehose(engine)


async def lazy_reader(server):
    """A peer with a small buffer, which reads only when the test makes it."""
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    small.setblocking(False)
    port = int(server.url.split(":")[2].split("/")[0])
    await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", port))
    return await server.connect(sock=small, max_queue=1)


async def test_a_stream_is_not_advanced_while_its_peer_does_not_read(start, firehose):
    server = await start(TransportLimits(send_timeout_seconds=60))
    peer = await lazy_reader(server)
    await peer.subscribe("s", "subscription flood")
    await firehose.stalled()
    taken = firehose.taken
    # The buffers of the kernel and of uvicorn. An unbounded queue would have taken far more events.
    assert 0 < taken < 200
    for _ in range(taken):
        assert (await peer.receive())["payload"] == EVENT
    assert firehose.taken > taken


async def test_a_peer_that_stops_reading_is_dropped_after_the_send_timeout(start, firehose, eventually):
    server = await start(TransportLimits(send_timeout_seconds=0.2, close_timeout_seconds=0.2))
    bystander = await server.connect()
    peer = await lazy_reader(server)
    await peer.subscribe("s", "subscription flood")
    async with asyncio.timeout(PATIENCE):
        await firehose.closed.wait()
    await eventually(lambda: server.transport.connection_count == 1)
    assert await bystander.is_alive()
    with pytest.raises(ConnectionClosed) as end:
        while True:
            await peer.receive()
    assert end.value.rcvd is None


async def test_a_peer_that_reads_again_in_time_gets_the_too_slow_close_frame(start, firehose):
    server = await start(TransportLimits(send_timeout_seconds=0.2, close_timeout_seconds=PATIENCE))
    peer = await lazy_reader(server)
    await peer.subscribe("s", "subscription flood")
    async with asyncio.timeout(PATIENCE):
        await firehose.closed.wait()
    with pytest.raises(ConnectionClosed) as end:
        while True:
            await peer.receive()
    assert end.value.rcvd is not None
    assert (end.value.rcvd.code, end.value.rcvd.reason) == (1013, "Too slow")


@pytest.mark.parametrize("catches_up", [True, False])
async def test_a_peer_that_had_events_dropped_is_closed_unless_it_catches_up(start, engine, catches_up):
    async def stream(request, context):
        # As the hub does when a connection's queue budget is used up.
        context.queue_budget.reserve()
        context.queue_budget.mark_behind()
        if catches_up:
            asyncio.get_running_loop().call_later(0.1, context.queue_budget.release, 1)
        while True:
            yield EVENT

    engine.streams["subscription late"] = stream
    limits = TransportLimits(send_timeout_seconds=60, sync_timeout_seconds=0.3, close_timeout_seconds=PATIENCE)
    server = await start(limits)
    peer = await lazy_reader(server)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await peer.subscribe("s", "subscription late")

    async def read_slowly():
        """Read slowly: never stall, and never finish."""
        while loop.time() - began < (0.7 if catches_up else PATIENCE):
            await peer.receive()
            await asyncio.sleep(0.01)

    if catches_up:
        await read_slowly()
        return
    with pytest.raises(ConnectionClosed) as closed:
        await read_slowly()
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1013, "Too slow")
    assert loop.time() - began > 0.3


async def test_a_peer_that_pings_without_reading_the_pongs_is_dropped(start):
    server = await start(TransportLimits(send_timeout_seconds=0.2, close_timeout_seconds=0.2))
    peer = await lazy_reader(server)
    ping = '{"type":"ping","payload":{"a":"%s"}}' % ("x" * 50_000)
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(PATIENCE):
            while True:
                await peer.send(ping)
    await server.idle()


class RecordedRandom(random.Random):
    """A random source that shuffles by reversing, and records calls for pauses and for the hints of close frames."""

    def __init__(self):
        super().__init__(1)
        self.drawn = []

    def shuffle(self, x):
        x.reverse()

    def uniform(self, a, b):
        self.drawn.append(("pause", a, b))
        return super().uniform(a, b)

    def randrange(self, stop):
        self.drawn.append("close")
        return super().randrange(stop)


def restart_hint(closed):
    """Return the milliseconds after which the close frame asks a client to come back."""
    code, reason = closed
    assert code == 1012
    hint = re.fullmatch(r"Service restart; retry in (\d+) ms", reason)
    assert hint, reason
    return int(hint[1])


async def test_a_drain_closes_all_connections_1012_in_jittered_batches(start):
    rng = RecordedRandom()
    server = await start(TransportLimits(drain_batch=2, drain_seconds=60, drain_pause_seconds=0.2), rng=rng)
    peers = [await server.connect() for _ in range(5)]
    ends = [asyncio.create_task(peer.closed()) for peer in peers]
    await server.transport.drain()
    assert server.transport.connection_count == 0
    # The pause after a batch is drawn before the hints of the batch.
    pause = ("pause", 0.5, 1.5)
    assert rng.drawn == [pause, "close", "close", pause, "close", "close", "close"]
    for end in ends:
        assert restart_hint(await end) < 1005


async def test_a_drain_of_many_connections_has_larger_batches_and_takes_no_longer(start):
    rng = RecordedRandom()
    limits = TransportLimits(drain_batch=1, drain_seconds=0.1, drain_pause_seconds=0.05)
    server = await start(limits, rng=rng)
    peers = [await server.connect() for _ in range(9)]
    await server.transport.drain()
    assert rng.drawn.count("close") == 9 and len(rng.drawn) == 10
    hints = {restart_hint(await peer.closed()) for peer in peers}
    assert len(hints) > 1


async def test_a_socket_opened_during_or_after_a_drain_is_closed_1012(start):
    server = await start()
    await server.transport.drain()
    peer = await server.connect(init=False)
    assert restart_hint(await peer.closed()) < 1000


@pytest.fixture
def slow_mutation(engine):
    gate = asyncio.Event()
    done = asyncio.Event()

    async def execute(request, context):
        await gate.wait()
        done.set()
        return {"data": {"sent": True}}

    engine.executions["mutation slow"] = execute
    return gate, done


async def test_a_drain_answers_running_mutations_and_takes_no_new_operations(start, slow_mutation):
    gate, _ = slow_mutation
    server = await start()
    peer = await server.connect()
    await peer.subscribe("m", "mutation slow")
    assert await peer.is_alive()
    drain = asyncio.create_task(server.transport.drain())
    await asyncio.sleep(0.05)
    await peer.subscribe("q", "query hello")
    frame = await peer.receive()
    assert (frame["id"], frame["type"]) == ("q", "error")
    assert frame["payload"][0]["extensions"] == {"code": "UNAVAILABLE", "retryable": True}
    gate.set()
    assert (await peer.receive())["payload"] == {"data": {"sent": True}}
    assert (await peer.receive())["type"] == "complete"
    assert (await peer.closed())[0] == 1012
    await drain


async def test_a_server_settles_once_mutations_whose_connection_has_gone_have_ended(start, slow_mutation):
    gate, done = slow_mutation
    server = await start()
    peer = await server.connect()
    await peer.subscribe("m", "mutation slow")
    assert await peer.is_alive()
    await peer.socket.close()
    await server.idle()
    settled = asyncio.create_task(server.transport.wait_for_mutations())
    await asyncio.sleep(0.05)
    assert not settled.done()
    gate.set()
    await settled
    assert done.is_set()


async def test_a_drain_does_not_wait_for_a_mutation_for_ever(start, slow_mutation):
    gate, done = slow_mutation
    server = await start(TransportLimits(drain_grace_seconds=0.1))
    peer = await server.connect()
    await peer.subscribe("m", "mutation slow")
    assert await peer.is_alive()
    async with asyncio.timeout(PATIENCE):
        await server.transport.drain()
    assert (await peer.closed())[0] == 1012
    gate.set()
    async with asyncio.timeout(PATIENCE):
        await done.wait()

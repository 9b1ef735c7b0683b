"""Clients that hold connections: time limits of every state, slow readers, and few free descriptors."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from server.http.client_limits import ClientLimits
from server.http.descriptor_guard import RESERVED_DESCRIPTORS, DescriptorGuard
from server.process.uvicorn_shutdown import HttpProtocol
from tests.protocol.serving import Served, serving, until

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LONG = 8_000_000
WINDOW = 0.1

Serve = Callable[..., Any]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Return a server that answers each request with `size` bytes, without reading its body."""

    @asynccontextmanager
    async def start(limits: ClientLimits, size: int = 0, **options: Any) -> AsyncIterator[Served]:
        monkeypatch.setattr(HttpProtocol, "default_limits", limits)

        async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
            headers = [(b"content-length", b"%d" % size)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"x" * size})

        options = {"http": HttpProtocol, "lifespan": "off", "log_config": None, "loop": "uvloop", **options}
        async with serving(uvicorn.Config(answer, **options)) as served:
            yield served

    return start


def connections(served: Served) -> int:
    return len(served.server.server_state.connections)


async def read_slowly(served: Served, request: bytes, bytes_per_step: int) -> int:
    """Read a number of bytes every 10 ms, until the server drops the client or the answer ends.

    Return how many bytes came.
    """
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, min(400_000, 8 * bytes_per_step))
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", served.port))
        await loop.sock_sendall(client, request)
        count = 0
        try:
            while data := await loop.sock_recv(client, bytes_per_step):
                count += len(data)
                await asyncio.sleep(0.01)
                if bytes_per_step < 100_000 and not connections(served):
                    break
        except ConnectionError:
            pass
        return count


@pytest.mark.parametrize(
    "end", [b"connection: close\r\n\r\n", b"\r\n"], ids=["connection that closes", "connection that stays open"]
)
async def test_a_client_below_the_minimum_rate_is_dropped(serve: Serve, end: bytes) -> None:
    limits = ClientLimits(window_seconds=WINDOW, min_bytes_per_second=1_000_000, close_seconds=WINDOW)
    async with serve(limits, LONG) as served, asyncio.timeout(20):
        with capture_logs() as logs:
            assert await read_slowly(served, GET[:-2] + end, 1) < LONG
            await until(lambda: not connections(served))
        assert [line["event"] for line in logs] == ["slow_reader_dropped"]


async def test_a_client_above_the_minimum_rate_reads_its_answer(serve: Serve) -> None:
    # A longer window, because this process may pause at its beginning. Reading takes several windows.
    window = 3 * WINDOW
    limits = ClientLimits(window_seconds=window, min_bytes_per_second=1_000, close_seconds=window)
    async with serve(limits, LONG) as served, asyncio.timeout(20):
        assert await read_slowly(served, GET[:-2] + b"connection: close\r\n\r\n", 100_000) > LONG


async def test_an_answer_has_a_time_limit_at_any_rate(serve: Serve) -> None:
    limits = ClientLimits(answer_seconds=0.3, min_bytes_per_second=0)
    async with serve(limits, LONG) as served, asyncio.timeout(20):
        assert await read_slowly(served, GET, 10_000) < LONG
        await until(lambda: not connections(served))


async def test_a_body_below_the_minimum_rate_is_refused(serve: Serve) -> None:
    limits = ClientLimits(window_seconds=WINDOW, min_bytes_per_second=1_000)
    async with serve(limits) as served, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n")

        async def drip() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        try:
            await reader.read()
        except ConnectionError:
            pass
        finally:
            dripping.cancel()
        await until(lambda: not connections(served))
        writer.close()


@pytest.mark.parametrize("sent", [b"\r\n", b"POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n"])
async def test_bytes_outside_a_request_do_not_end_the_idle_timer(serve: Serve, sent: bytes) -> None:
    async with serve(ClientLimits(), timeout_keep_alive=0.2) as served, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(GET if sent == b"\r\n" else sent)
        await reader.readuntil(b"\r\n\r\n")
        # An empty line, or the body of a request that has been answered.
        writer.write(b"\r\n" if sent == b"\r\n" else b"x")
        assert await reader.read() == b""
        writer.close()


class Dropped:
    """A connection that notes when it is dropped."""

    is_dropped = False

    def drop(self) -> None:
        self.is_dropped = True


def test_a_new_connection_takes_the_place_of_the_longest_incomplete_one() -> None:
    guard = DescriptorGuard(1_000)
    idle, old, young, busy, newest = (Dropped() for _ in range(5))
    for connection in (idle, old, young, busy):
        assert guard.admit(connection, 10, 0)
    guard.note_idle(idle)
    guard.note_busy(busy)
    with capture_logs() as logs:
        assert guard.admit(newest, 1_000 - RESERVED_DESCRIPTORS, 0)
        assert [each.is_dropped for each in (idle, old, young, busy, newest)] == [False, True, False, False, False]
        guard.note_busy(young)
        guard.note_busy(newest)
        # Idle connections are next, and then the new connection is refused.
        assert guard.admit(Dropped(), 900, 0)
        assert idle.is_dropped
    assert [(line["event"], line["log_level"], line["limit"]) for line in logs] == [
        ("descriptors_low", "warning", 1_000)
    ]


def test_a_new_connection_is_refused_if_all_are_busy() -> None:
    now = 0.0
    guard = DescriptorGuard(1_000, lambda: now)
    with capture_logs() as logs:
        assert not guard.admit(Dropped(), 900, 0)
        assert not guard.admit(Dropped(), 900, 0)
        now = 60.0
        assert not guard.admit(Dropped(), 900, 0)
    assert [line["refused"] for line in logs] == [1, 2]
    assert DescriptorGuard.unlimited().admit(Dropped(), 10**9, 0)
    assert DescriptorGuard(100).max_descriptor == 75
    assert DescriptorGuard.unlimited().max_descriptor == math.inf


def test_a_burst_of_connections_never_exceeds_the_limit_on_descriptors() -> None:
    guard = DescriptorGuard(100)
    opened: dict[int, Dropped] = {}
    with capture_logs():
        for _ in range(500):
            # A dropped connection is closed before the next one, and leaves a low number.
            opened = {number: each for number, each in opened.items() if not each.is_dropped}
            connection = Dropped()
            number = next(number for number in range(501) if number not in opened)
            assert guard.admit(connection, number, len(opened))
            opened[number] = connection
            assert len(opened) <= guard.max_descriptor + 1


async def test_incomplete_requests_do_not_keep_new_clients_out(serve: Serve) -> None:
    guard = DescriptorGuard(math.inf)
    async with serve(ClientLimits(descriptors=guard)) as served, asyncio.timeout(20):
        attackers = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(3)]
        for _, writer in attackers:
            writer.write(b"POST / HTTP/1.1\r\ncontent-length: 5\r\n")
        await until(lambda: connections(served) == 3)
        guard.max_descriptor = 0
        with capture_logs():
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                writer.write(GET)
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
                writer.close()
        for attacker, writer in attackers:
            assert await attacker.read() == b""
            writer.close()

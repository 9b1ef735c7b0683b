"""Event streams over real connections: slow readers and disconnects."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from server.http.uvicorn_protocol import AbortingHTTPProtocol
from server.sse.stream import StreamLimits
from tests.protocol.serving import Served, serving, until
from tests.server.tokens import bearer

BODY = b'{"query":"subscription {events}"}'
REQUEST = (
    b"POST /graphql HTTP/1.1\r\nhost: confab\r\naccept: text/event-stream\r\ncontent-type: application/json\r\n"
    b"authorization: %b\r\ncontent-length: %d\r\n\r\n%b" % (bearer().encode(), len(BODY), BODY)
)


@pytest.fixture
async def served(side: Any) -> AsyncIterator[Served]:
    config = uvicorn.Config(side.app, http=AbortingHTTPProtocol, lifespan="off", log_config=None)
    async with serving(config) as found:
        yield found


@pytest.mark.parametrize("side", [StreamLimits(send_timeout_seconds=0.1)], indirect=True)
async def test_client_that_reads_nothing_is_disconnected(side: Any, served: Served) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", served.port))
        await loop.sock_sendall(client, REQUEST)
        await until(lambda: side.engine.streams)
        (stream,) = side.engine.streams
        stream.put(*[b'"' + b"x" * 100_000 + b'"'] * 200)
        await until(lambda: not served.server.server_state.connections)
        # The application is notified after the server.
        await until(lambda: stream.closed)
    assert stream.left
    assert not side.streams.count


async def test_disconnect_is_noticed_behind_a_pipelined_request(side: Any, served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(REQUEST)
    await reader.readuntil(b":\n\n")
    writer.write(REQUEST)
    await writer.drain()
    await asyncio.sleep(0.02)
    writer.transport.abort()
    (stream,) = side.engine.streams
    # The server does not read from this connection, so only a write detects the disconnect.
    for _ in range(20):
        stream.put(b"{}")
        await asyncio.sleep(0.005)
    await until(lambda: stream.closed)
    assert not side.streams.count

"""uvicorn's WebSocket protocol drops peers that have stopped reading."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
import uvicorn
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect

from subscriptions.transport.frame_writer import SOCKET_EXTENSION
from subscriptions.transport.uvicorn_protocol import DirectWebSocketProtocol
from tests.protocol.serving import serving


class Impatient(DirectWebSocketProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.close_timeout = 0.2


async def fill_up(websocket):
    """Write until the peer, which does not read, leaves some of it in the server's buffers."""
    while not websocket.scope["extensions"][SOCKET_EXTENSION].buffered_bytes:
        await websocket.send_text("x" * 10_000)


async def serve_and_close(scope, receive, send):
    websocket = WebSocket(scope, receive, send)
    await websocket.accept()
    await fill_up(websocket)
    await websocket.close(1000)


async def serve_on_and_on(scope, receive, send):
    websocket = WebSocket(scope, receive, send)
    await websocket.accept()
    await fill_up(websocket)
    await websocket.receive()


@pytest.fixture
async def start():
    async with contextlib.AsyncExitStack() as stack:

        async def start_with(app):
            config = uvicorn.Config(app, ws=Impatient, ws_ping_interval=None, lifespan="off", log_config=None)
            served = await stack.enter_async_context(serving(config))
            small = socket.socket()
            small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
            small.setblocking(False)
            await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", served.port))
            url = "ws://127.0.0.1"
            await stack.enter_async_context(connect(url, sock=small, max_queue=1, compression=None, close_timeout=0.1))
            return served.server

        yield start_with


async def test_a_peer_that_never_reads_the_close_frame_is_dropped(start, eventually):
    server = await start(serve_and_close)
    await eventually(lambda: len(server.server_state.connections) == 1)
    await eventually(lambda: not server.server_state.connections)


async def test_a_peer_that_does_not_read_does_not_delay_the_shutdown(start, eventually):
    server = await start(serve_on_and_on)
    await eventually(lambda: len(server.server_state.connections) == 1)
    await asyncio.sleep(0.1)
    server.should_exit = True
    await eventually(lambda: not server.server_state.connections)

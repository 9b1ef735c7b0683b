"""Pongs are discarded before they are parsed, and nothing else is."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from subscriptions.transport.frame_writer import SOCKET_EXTENSION
from subscriptions.transport.frames import PONG
from subscriptions.transport.uvicorn_protocol import DirectWebSocketProtocol
from tests.protocol.serving import PATIENCE, serving

_UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Receiver:
    """An application that discards pongs and keeps all other messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.socket: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        websocket = WebSocket(scope, receive, send)
        await websocket.accept()
        self.socket = websocket.scope["extensions"][SOCKET_EXTENSION]
        self.socket.discard_messages(PONG)
        self.socket.was_heard = False
        while True:
            message = dict(await websocket.receive())
            self.messages.append(message)
            if message["type"] == "websocket.disconnect":
                return

    @property
    def texts(self) -> list[str | None]:
        return [message.get("text") for message in self.messages]


class RawPeer:
    """A client that decides how its bytes are cut."""

    def __init__(self, receiver: Receiver, writer: asyncio.StreamWriter) -> None:
        self.receiver = receiver
        self._writer = writer

    async def send(self, *segments: bytes) -> None:
        for segment in segments:
            self._writer.write(segment)
            await self._writer.drain()
            # The server takes each segment separately.
            await asyncio.sleep(0.02)

    async def received(self, count: int) -> list[str | None]:
        async with asyncio.timeout(PATIENCE):
            while len(self.receiver.messages) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return self.receiver.texts


def _frame(text: bytes, first: int = 0x81) -> bytes:
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(text))
    return bytes((first, 0x80 | len(text))) + mask + masked


@pytest.fixture
async def peer() -> AsyncIterator[RawPeer]:
    receiver = Receiver()
    config = uvicorn.Config(
        receiver, ws=DirectWebSocketProtocol, ws_ping_interval=None, lifespan="off", log_config=None
    )
    async with serving(config) as served, contextlib.AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        stack.callback(writer.close)
        writer.write(_UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            while receiver.socket is None:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        yield RawPeer(receiver, writer)


async def test_a_pong_is_a_sign_of_life_and_nothing_more(peer: RawPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    receive_data: Callable[[bytes], None] = peer.receiver.socket.conn.receive_data
    monkeypatch.setattr(
        peer.receiver.socket.conn, "receive_data", lambda data: (parsed.append(data), receive_data(data))
    )
    await peer.send(_frame(PONG), _frame(PONG))
    assert peer.receiver.socket.was_heard
    await peer.send(_frame(b"said"))
    assert await peer.received(1) == ["said"]
    assert len(parsed) == 1


@pytest.mark.parametrize("text", [b'{"type":"pung"}', b'{"type": "pong"}', b'{"type":"pong","payload":{}}', b""])
async def test_other_messages_are_received(peer: RawPeer, text: bytes) -> None:
    await peer.send(_frame(text))
    assert await peer.received(1) == [text.decode()]


async def test_a_pong_in_two_segments_or_with_another_message_is_received(peer: RawPeer) -> None:
    pong = _frame(PONG)
    await peer.send(pong[:9], pong[9:], _frame(PONG) + _frame(b"said"), _frame(PONG))
    assert await peer.received(3) == [PONG.decode(), PONG.decode(), "said"]


async def test_bytes_inside_another_message_that_look_like_a_pong_are_part_of_it(peer: RawPeer) -> None:
    inside = _frame(PONG)
    header = bytes((0x82, 0x80 | len(inside), 0, 0, 0, 0))
    await peer.send(header, inside, _frame(PONG), _frame(b"after"))
    await peer.received(2)
    assert peer.receiver.messages[0]["bytes"] == inside
    assert peer.receiver.texts[1] == "after"


async def test_a_pong_between_the_fragments_of_a_message_breaks_the_protocol(peer: RawPeer) -> None:
    await peer.send(_frame(b"first", first=0x01), _frame(PONG))
    await peer.received(1)
    assert peer.receiver.messages[0]["code"] == 1002

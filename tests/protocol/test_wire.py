"""Violations of the WebSocket protocol itself."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
import uvicorn
from starlette.websockets import WebSocket

from subscriptions.transport.frame_writer import SOCKET_EXTENSION
from subscriptions.transport.uvicorn_protocol import DirectWebSocketProtocol
from subscriptions.transport.websocket import Authenticated
from tests.protocol.serving import PATIENCE, serving

PING = b'{"type":"ping"}'
FIRST, CONTINUED, TEXT, WEBSOCKET_PING = 0x01, 0x00, 0x81, 0x89
FINAL = 0x80


def frame(head, payload=b"", *, length=None, mask=True):
    """Return the bytes of a frame, masked with nulls."""
    length = len(payload) if length is None else length
    if length < 126:
        size = bytes([length | 0x80 * mask])
    elif length < 65_536:
        size = bytes([126 | 0x80 * mask]) + length.to_bytes(2, "big")
    else:
        size = bytes([127 | 0x80 * mask]) + length.to_bytes(8, "big")
    return bytes([head]) + size + bytes(4 * mask) + payload


@contextlib.asynccontextmanager
async def wire(url):
    """Open a WebSocket as a stream of bytes."""
    address, path = url.removeprefix("ws://").split("/")
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    headers = [
        f"GET /{path} HTTP/1.1",
        f"Host: {address}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol: graphql-transport-ws",
    ]
    writer.write("\r\n".join([*headers, "", ""]).encode())
    await reader.readuntil(b"\r\n\r\n")
    yield reader, writer
    writer.close()


BROKEN = {
    "no UTF-8": (frame(TEXT, b"\xff\xfe"), 1007),
    "half a character": (frame(FIRST, b'{"type":"ping\xc3') + frame(FINAL, b'"}'), 1007),
    "not masked": (frame(TEXT, PING, mask=False), 1002),
    "unknown opcode": (frame(0x83, PING), 1002),
    "compressed though that was not agreed": (frame(0xC1, PING), 1002),
    "a continuation of nothing": (frame(FINAL, PING), 1002),
    "a message within a message": (frame(FIRST, b"{") + frame(TEXT, PING), 1002),
    "four exabytes announced": (frame(TEXT, length=2**62), 1009),
    "ever so many empty fragments": (frame(FIRST) + frame(CONTINUED) * 2_000, 1009),
}


@pytest.mark.parametrize(("sent", "code"), BROKEN.values(), ids=BROKEN.keys())
async def test_an_invalid_websocket_frame_is_closed_as_rfc_6455_says(server, sent, code, caplog):
    bystander = await server.connect()
    async with wire(server.url) as (reader, writer):
        writer.write(sent)
        async with asyncio.timeout(PATIENCE):
            head = await reader.readexactly(4)
    assert (head[0], int.from_bytes(head[2:], "big")) == (0x88, code)
    assert not [record for record in caplog.records if record.exc_info]
    assert await bystander.is_alive()


async def test_a_peer_that_reads_nothing_gets_no_pongs():
    kept = []
    seen = asyncio.Event()

    async def fill_up_and_receive(scope, receive, send):
        websocket = WebSocket(scope, receive, send)
        await websocket.accept()
        connection = scope["extensions"][SOCKET_EXTENSION]
        while connection.writable.is_set():
            await websocket.send_text("x" * 10_000)
        kept.append(connection.buffered_bytes)
        await websocket.receive()
        kept.append(connection.buffered_bytes)
        seen.set()

    config = uvicorn.Config(fill_up_and_receive, ws=DirectWebSocketProtocol, lifespan="off", log_config=None)
    async with serving(config) as served, wire(f"ws://127.0.0.1:{served.port}/") as (reader, writer):
        reader._transport.pause_reading()
        writer.write(frame(WEBSOCKET_PING, b"x" * 125) * 5_000 + frame(TEXT, PING))
        async with asyncio.timeout(PATIENCE):
            await seen.wait()
        writer.transport.abort()
    before, after = kept
    assert 0 < after <= before


async def test_an_operation_sent_together_with_the_init_is_closed_4401(start):
    """Even if the authentication takes no time: the client cannot know of it."""

    async def authenticate(payload):
        return Authenticated(None)

    server = await start(authenticate=authenticate)
    subscribe = {"id": "1", "type": "subscribe", "payload": {"query": "query hello"}}
    for between in ([], [{"type": "ping"}] * 5):
        async with wire(server.url) as (reader, writer):
            sent = [{"type": "connection_init"}, *between, subscribe]
            writer.write(b"".join(frame(TEXT, json.dumps(message).encode()) for message in sent))
            async with asyncio.timeout(PATIENCE):
                received = await reader.readuntil(b"Unauthorized")
        assert received.endswith((4401).to_bytes(2, "big") + b"Unauthorized")
        assert b"connection_ack" not in received


async def test_a_peer_that_reads_nothing_before_the_acknowledgement_costs_nothing(start, monkeypatch):
    accepted = asyncio.Event()
    questions = 0

    async def authenticate(payload):
        await accepted.wait()
        return Authenticated(None)

    def has_unread_messages(protocol):
        nonlocal questions
        questions += 1
        return not protocol.queue.empty()

    monkeypatch.setattr(DirectWebSocketProtocol, "has_unread_messages", property(has_unread_messages))
    server = await start(authenticate=authenticate)
    pings = frame(TEXT, json.dumps({"type": "ping", "payload": {"x": "x" * 3_000}}).encode()) * 100
    async with wire(server.url) as (reader, writer):
        reader._transport.pause_reading()
        writer.write(frame(TEXT, b'{"type":"connection_init"}'))
        with contextlib.suppress(TimeoutError):
            while True:
                writer.write(pings)
                await asyncio.wait_for(writer.drain(), 0.2)
        questions = 0
        accepted.set()
        # It answers pings as long as there is room, and then waits without asking again and again.
        async with asyncio.timeout(PATIENCE):
            asked_before = -5
            while questions - asked_before >= 5:
                asked_before = questions
                await asyncio.sleep(0.1)
        reader._transport.resume_reading()
        received = b""
        async with asyncio.timeout(PATIENCE):
            while b"connection_ack" not in received:
                received = received[-20:] + await reader.read(1_000_000)

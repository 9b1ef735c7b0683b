"""Clients who send without end, or not at all: what a connection may take of the server before anybody knows whose it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from tests.protocol.serving import until
from tests.server.served_app import App, ServeApp
from tests.server.tokens import bearer

POST = b"POST /graphql HTTP/1.1\r\nhost: confab\r\ncontent-type: application/json\r\n"


@pytest.fixture
async def app(serve_app: ServeApp) -> AsyncIterator[App]:
    async with serve_app() as opened:
        yield opened


async def answer_to(app: App, begin: bytes, more: bytes = b"", most: int = 0) -> tuple[bytes, int]:
    """What is answered to a client who goes on sending until then, and how much it took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", app.served.port)
    sent = len(begin)
    writer.write(begin)
    told = asyncio.create_task(reader.read())
    try:
        while more and sent < most and not told.done():
            writer.write(more)
            sent += len(more)
            await writer.drain()
            await asyncio.sleep(0)
    except ConnectionError:
        pass
    async with asyncio.timeout(5):
        try:
            said = await told
        except ConnectionError:
            said = b""
    writer.close()
    return said, sent


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /graphql?query=", b"a" * 16_384),
        (b"GET /graphql HTTP/1.1\r\nx-long: ", b"a" * 16_384),
        (b"GET /graphql HTTP/1.1\r\n", b"x-many: a\r\n" * 1_000),
        (POST + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nx-trailer: ", b"a" * 16_384),
        (POST + b"transfer-encoding: chunked\r\n\r\n1;x=", b"a" * 16_384),
    ],
    ids=["address", "header", "headers", "trailer", "chunk extension"],
)
async def test_a_head_without_an_end_is_cut_off(app: App, begin: bytes, more: bytes) -> None:
    said, sent = await answer_to(app, begin, more, most=50_000_000)
    assert sent < 5_000_000
    assert b"200 OK" not in said
    await until(lambda: not app.served.server.server_state.connections)


async def test_a_long_token_and_a_body_in_small_chunks_are_no_trouble(app: App) -> None:
    token = bearer(sub="alice", exp=time.time() + 60, padding="x" * 5_000).encode()
    body = b'{"query": "{ me { id } }"}' + b" " * 20_000
    chunks = b"".join(b"1\r\n%c\r\n" % character for character in body) + b"0\r\n\r\n"
    head = POST + b"connection: close\r\ntransfer-encoding: chunked\r\nauthorization: " + token + b"\r\n\r\n"
    said, _ = await answer_to(app, head, chunks, most=len(head) + 1)
    assert said.endswith(b'{"data":{"me":{"id":"alice"}}}')


async def test_a_head_and_a_body_that_never_come_are_given_up(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.http.uvicorn_protocol.HEAD_SECONDS", 0.1)
    monkeypatch.setattr("server.http.request.BODY_SECONDS", 0.1)
    assert await answer_to(app, b"GET /graphql HTTP/1.1\r\nhost: confab\r\nx-slow: ") == (b"", 45)
    said, _ = await answer_to(app, POST + b"connection: close\r\ncontent-length: 100\r\n\r\n{")
    assert said.startswith(b"HTTP/1.1 408 ") and b"INVALID_INPUT" in said
    await until(lambda: not app.served.server.server_state.connections)

"""Clients that send without end or not at all: the resources of a connection before authentication are limited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from tests.protocol.serving import until
from tests.server.served_app import App, ServeApp
from tests.server.tokens import bearer
from tests.waiting import TIMEOUT_SECONDS

ANONYMOUS_POST = b"POST /graphql HTTP/1.1\r\nhost: confab\r\ncontent-type: application/json\r\n"
POST = ANONYMOUS_POST + f"authorization: {bearer(sub='alice', exp=time.time() + 3600)}\r\n".encode()


@pytest.fixture
async def app(serve_app: ServeApp) -> AsyncIterator[App]:
    async with serve_app() as app_:
        yield app_


async def send_until_answered(app: App, start: bytes, chunk: bytes = b"", max_bytes: int = 0) -> tuple[bytes, int]:
    """Send until an answer comes, at most this many bytes. Return the answer and the number of bytes sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", app.served.port)
    sent = len(start)
    writer.write(start)
    answer_task = asyncio.create_task(reader.read())
    try:
        while chunk and sent < max_bytes and not answer_task.done():
            writer.write(chunk)
            sent += len(chunk)
            await writer.drain()
            await asyncio.sleep(0)
    except ConnectionError:
        pass
    async with asyncio.timeout(TIMEOUT_SECONDS):
        try:
            answer = await answer_task
        except ConnectionError:
            answer = b""
    writer.close()
    return answer, sent


@pytest.mark.parametrize(
    ("start", "chunk"),
    [
        (b"GET /graphql?query=", b"a" * 16_384),
        (b"GET /graphql HTTP/1.1\r\nx-long: ", b"a" * 16_384),
        (b"GET /graphql HTTP/1.1\r\n", b"x-many: a\r\n" * 1_000),
        (POST + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nx-trailer: ", b"a" * 16_384),
        (POST + b"transfer-encoding: chunked\r\n\r\n1;x=", b"a" * 16_384),
    ],
    ids=["address", "header", "headers", "trailer", "chunk extension"],
)
async def test_an_endless_request_head_is_cut_off(app: App, start: bytes, chunk: bytes) -> None:
    answer, sent = await send_until_answered(app, start, chunk, max_bytes=50_000_000)
    assert sent < 5_000_000
    assert b"200 OK" not in answer
    await until(lambda: not app.served.server.server_state.connections)


async def test_a_long_token_and_a_body_in_small_chunks_are_accepted(app: App) -> None:
    token = bearer(sub="alice", exp=time.time() + 60, padding="x" * 5_000).encode()
    body = b'{"query": "{ me { id } }"}' + b" " * 20_000
    chunks = b"".join(b"1\r\n%c\r\n" % character for character in body) + b"0\r\n\r\n"
    head = ANONYMOUS_POST + b"connection: close\r\ntransfer-encoding: chunked\r\nauthorization: " + token + b"\r\n\r\n"
    answer, _ = await send_until_answered(app, head, chunks, max_bytes=len(head) + 1)
    assert answer.endswith(b'{"data":{"me":{"id":"alice"}}}')


async def test_incomplete_requests_time_out(serve_app: ServeApp) -> None:
    async with serve_app(head_timeout_seconds=0.1, body_timeout_seconds=0.1) as app:
        assert await send_until_answered(app, b"GET /graphql HTTP/1.1\r\nhost: confab\r\nx-slow: ") == (b"", 45)
        for body in (b"", b"{"):
            answer, _ = await send_until_answered(app, POST + b"content-length: 100\r\n\r\n" + body)
            assert answer.startswith(b"HTTP/1.1 408 ") and b"INVALID_INPUT" in answer
            assert b"connection: close" in answer
        await until(lambda: not app.served.server.server_state.connections)


@pytest.mark.parametrize(
    ("head", "length", "status"),
    [(POST, b"100000000", b"413"), (ANONYMOUS_POST, b"100", b"401")],
    ids=["too long", "without a token"],
)
async def test_a_body_that_was_refused_early_has_a_time_limit(
    serve_app: ServeApp, head: bytes, length: bytes, status: bytes
) -> None:
    async with serve_app(body_timeout_seconds=0.1) as app:
        answer, _ = await send_until_answered(app, head + b"content-length: " + length + b"\r\n\r\n{")
        assert answer.startswith(b"HTTP/1.1 " + status) and b"HTTP/1.1 408" not in answer
        await until(lambda: not app.served.server.server_state.connections)

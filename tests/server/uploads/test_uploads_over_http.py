"""Uploads over real connections: slow clients, bodies that are refused before they are read, other origins."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from server.http.client_limits import ClientLimits
from server.http.uvicorn_protocol import BODY_TIME_EXTENSION
from server.overload.load_shedding import LoadShedding
from server.process.uvicorn_shutdown import HttpProtocol
from tests.protocol.serving import PATIENCE, Served, serving, until
from tests.server.served_app import App, ServeApp
from tests.server.tokens import bearer

Serve = Callable[..., Any]

CREATE = """mutation ($size: Int!) { createUpload(input: {
    conversationId: "p_alice_bob", filename: "a.txt", sizeBytes: $size }) { id url } }"""
COMPLETE = "mutation ($id: ID!) { completeUpload(uploadId: $id) { state sizeBytes } }"


async def call(app: App, query: str, **variables: Any) -> Any:
    headers = {"authorization": bearer(sub="alice", exp=time.time() + 60)}
    answer = await app.http.post("/graphql", json={"query": query, "variables": variables}, headers=headers)
    assert "errors" not in answer.json(), answer.json()
    return next(iter(answer.json()["data"].values()))


async def begin(app: App, size: int) -> tuple[str, str]:
    """Return the id of a new upload, and its address without the host."""
    await app.ask("{ me { id } }", "bob")
    upload = await call(app, CREATE, size=size)
    parts = urlsplit(upload["url"])
    return upload["id"], f"{parts.path}?{parts.query}"


async def send_raw(served: Served, head: str, *pieces: bytes, pause: float = 0.0) -> tuple[int, dict[str, Any]]:
    """Send a request piece by piece. Return status and body of the answer."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(head.encode())
        for piece in pieces:
            await asyncio.sleep(pause)
            writer.write(piece)
        status = int((await reader.readline()).split()[1])
        length = 0
        while line := (await reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = await reader.readexactly(length)
        writer.close()
    return status, json.loads(body) if body else {}


def head(target: str, *lines: str) -> str:
    return "\r\n".join((f"PUT {target} HTTP/1.1", "host: localhost", *lines, "", ""))


async def test_an_upload_may_take_longer_than_other_bodies(serve_app: ServeApp) -> None:
    async with serve_app(body_timeout_seconds=0.5, min_client_bytes_per_second=1) as app:
        id, target = await begin(app, 10)
        pieces = [b"x"] * 10
        assert await send_raw(app.served, head(target, "content-length: 10"), *pieces, pause=0.1) == (204, {})
        assert await call(app, COMPLETE, id=id) == {"state": "READY", "sizeBytes": 10}


async def test_a_body_that_is_announced_too_long_is_refused_before_it_is_read(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        _, target = await begin(app, 10)
        status, body = await send_raw(app.served, head(target, "content-length: 11"))
        assert (status, body["errors"][0]["extensions"]["code"]) == (413, "TOO_LARGE")
        # Without a length, as soon as there are too many bytes.
        chunked = head(target, "transfer-encoding: chunked")
        status, body = await send_raw(app.served, chunked, b"b\r\n" + b"x" * 11 + b"\r\n")
        assert (status, body["errors"][0]["extensions"]["field"]) == (413, "sizeBytes")


async def test_an_interrupted_upload_leaves_nothing_and_can_be_repeated(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        id, target = await begin(app, 1_000_000)
        _, writer = await asyncio.open_connection("127.0.0.1", app.served.port)
        writer.write(head(target, "content-length: 1000000").encode() + b"x" * 500_000)
        await writer.drain()
        writer.close()
        answer = await app.http.put(target, content=b"y" * 1_000_000)
        assert answer.status_code == 204
        assert await call(app, COMPLETE, id=id) == {"state": "READY", "sizeBytes": 1_000_000}


async def test_pages_of_all_origins_may_send_and_read_files(serve_app: ServeApp) -> None:
    async with serve_app(cors_origins=["https://chat.example.org"]) as app:
        for origin in ("https://chat.example.org", "https://other.example.org", "null"):
            id, target = await begin(app, 3)
            await expect_preflight(app, target, origin, "PUT", "content-type, x-sent-by")
            answer = await app.http.put(target, content=b"abc", headers={"origin": origin})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, "*")
            refused = await app.http.put(target[:-3], content=b"abc", headers={"origin": origin})
            assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (403, "*")
            parts = urlsplit(
                (await call(app, "mutation ($id: ID!) { completeUpload(uploadId: $id) { url } }", id=id))["url"]
            )
            target = f"{parts.path}?{parts.query}"
            await expect_preflight(app, target, origin, "GET", "if-none-match, range")
            part = await app.http.get(target, headers={"origin": origin, "range": "bytes=0-1"})
            assert (part.text, part.headers["access-control-allow-origin"]) == ("ab", "*")
            assert "content-range" in part.headers["access-control-expose-headers"]
        asked = {"origin": "https://other.example.org", "access-control-request-method": "POST"}
        assert (await app.http.options("/graphql", headers=asked)).status_code == 400


async def test_an_address_with_a_line_feed_at_its_end_is_another_one(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        id, target = await begin(app, 3)
        assert (await app.http.put(target.replace("?", "%0a?"), content=b"abc")).status_code == 403
        assert (await app.http.put(target, content=b"abc")).status_code == 204
        parts = urlsplit(
            (await call(app, "mutation ($id: ID!) { completeUpload(uploadId: $id) { url } }", id=id))["url"]
        )
        for end, status in (("%0a", 404), ("%0D%0A", 404), ("", 200)):
            assert (await app.http.get(f"{parts.path}{end}?{parts.query}")).status_code == status


async def test_pages_of_all_origins_see_that_the_server_is_overloaded(
    serve_app: ServeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_app(cors_origins=["https://chat.example.org"]) as app:
        _, target = await begin(app, 3)
        monkeypatch.setattr(LoadShedding, "is_full", property(lambda _: True))
        for origin in ("https://chat.example.org", "https://other.example.org", "null"):
            headers = {"origin": origin}
            answers = [
                await app.http.put(target, content=b"abc", headers=headers),
                await app.http.get("/files/f_1/file/a.txt", headers=headers),
                await app.http.get("/previews/abc", headers=headers),
            ]
            for answer in answers:
                assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (503, "*")
                assert int(answer.headers["retry-after"]) > 0 and "x-request-id" in answer.headers


async def expect_preflight(app: App, target: str, origin: str, method: str, headers: str) -> None:
    asked = {"access-control-request-method": method, "access-control-request-headers": headers}
    answer = await app.http.options(target, headers={"origin": origin, **asked})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == answer.headers["access-control-allow-headers"] == "*"
    assert method in answer.headers["access-control-allow-methods"]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Return a server that gives each body a minute, and reads it."""

    @asynccontextmanager
    async def start(limits: ClientLimits) -> AsyncIterator[Served]:
        monkeypatch.setattr(HttpProtocol, "default_limits", limits)

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            scope["extensions"][BODY_TIME_EXTENSION](60.0)
            while (await receive()).get("more_body"):
                pass
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body"})

        options: dict[str, Any] = {"http": HttpProtocol, "lifespan": "off", "log_config": None, "loop": "uvloop"}
        async with serving(uvicorn.Config(answer, **options)) as served:
            yield served

    return start


async def test_a_slow_body_does_not_hold_a_place(serve: Serve) -> None:
    limits = ClientLimits(window_seconds=0.1, min_bytes_per_second=1_000)
    async with serve(limits) as served, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(head("/", "content-length: 1000000").encode())

        async def drip() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert b" 408 " in await reader.readline()
        dripping.cancel()
        writer.close()
        await until(lambda: not served.server.server_state.connections)


async def test_the_time_limit_is_that_of_one_request(serve: Serve) -> None:
    limits = ClientLimits(body_seconds=0.2, min_bytes_per_second=0)
    async with serve(limits) as served:
        assert await send_raw(served, head("/", "content-length: 4"), *[b"x"] * 4, pause=0.1) == (204, {})

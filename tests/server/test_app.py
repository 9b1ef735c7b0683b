"""The application as it is served: engine, HTTP and WebSockets on real databases."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from pymongo import MongoClient
from websockets.exceptions import ConnectionClosed

from schema.execution.engine import Engine
from server.cli.dev import development_settings
from server.settings import Settings
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, Json
from tests.protocol.peer import Peer
from tests.protocol.serving import PATIENCE
from tests.server.served_app import LIVE, SEND, App, ServeApp
from tests.server.tokens import bearer

ORIGIN = "https://chat.example.org"
BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
INTROSPECTION = "{ __schema { queryType { name } } }"


async def test_message_sent_over_http_arrives_over_the_websocket(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        bob = await app.signed_in("bob")
        await bob.subscribe("live", LIVE)
        assert (await bob.receive())["payload"] == {"data": {"messageEvents": {"__typename": "CaughtUp"}}}
        await app.data(SEND, "alice")
        message = {"content": "hello", "sender": {"id": "alice"}}
        event = {"messageEvents": {"__typename": "MessageCreated", "message": message}}
        assert await bob.receive() == {"id": "live", "type": "next", "payload": {"data": event}}


async def test_first_sign_in_over_the_websocket_creates_the_user(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        await app.signed_in("bob", name="Bob Baker")
        assert await app.data('{ user(id: "bob") { displayName } }', "alice") == {"user": {"displayName": "Bob Baker"}}


async def test_websocket_with_a_forged_token_is_closed(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        peer = await app.socket()
        await peer.send({"type": "connection_init", "payload": {"Authorization": bearer(exp=time.time() + 60) + "A"}})
        assert (await peer.closed())[0] == 4403


# Settings


async def preflight(app: App, origin: str) -> httpx.Response:
    headers = {"origin": origin, "access-control-request-method": "POST"}
    wanted = "authorization, content-type, x-request-id, x-graphql-event-stream-token"
    return await app.http.options("/graphql", headers={**headers, "access-control-request-headers": wanted})


async def test_only_pages_of_configured_origins_may_call(serve_app: ServeApp) -> None:
    async with serve_app(cors_origins=(ORIGIN,)) as app:
        allowed = await preflight(app, ORIGIN)
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, ORIGIN)
        assert {"GET", "POST", "PUT", "DELETE"} <= set(allowed.headers["access-control-allow-methods"].split(", "))
        refused = await preflight(app, "https://evil.example.org")
        assert refused.status_code == 400
        assert "access-control-allow-origin" not in refused.headers
        answer = await app.http.post("/graphql", json={"query": "{ __typename }"}, headers={"origin": ORIGIN})
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        exposed = answer.headers["access-control-expose-headers"].lower()
        assert exposed == "x-request-id, retry-after, ratelimit, ratelimit-policy"
        assert answer.headers["x-request-id"]


async def test_responses_are_equal_with_and_without_cors_middleware(serve_app: ServeApp) -> None:
    async with serve_app(cors_origins=(ORIGIN,), introspection=True) as app:
        asked = [
            {"content": b'{"query": "{ __typename }"}'},
            {"content": b'{"query": "{ nonsense }"}'},
            {"content": b"nonsense"},
            {"content": b'{"query": "{ __typename }"}', "headers": {"accept": "application/graphql-response+json"}},
            {"content": b'{"query": "{ me { id } }"}', "headers": {"authorization": "Bearer nonsense"}},
        ]
        for options in asked:
            headers = {"content-type": "application/json", "x-request-id": "the-same"} | options.get("headers", {})
            straight, around = [
                await app.http.post("/graphql", content=options["content"], headers=headers | origin)
                for origin in ({}, {"origin": ORIGIN})
            ]
            assert (straight.status_code, straight.content) == (around.status_code, around.content)
            for_origins = {"date", "vary", *(name for name in around.headers if name.startswith("access-control-"))}
            assert len(for_origins) > 2
            plain = [
                {name: value for name, value in answer.headers.items() if name not in for_origins}
                for answer in (straight, around)
            ]
            assert plain[0] == plain[1]
            assert plain[0]["x-request-id"] == "the-same"
            assert "vary" in straight.headers


async def test_pipelined_requests_are_answered_in_order(
    serve_app: ServeApp,
) -> None:
    body = b'{"query": "{ __typename }"}'
    one = b"POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    async with serve_app(introspection=True) as app:
        reader, writer = await asyncio.open_connection("127.0.0.1", app.served.port)
        ids = [b"x-request-id: first\r\n\r\n", b"x-request-id: second\r\nconnection: close\r\n\r\n"]
        writer.write(b"".join(one + id + body for id in ids))
        async with asyncio.timeout(PATIENCE):
            first, second = (await reader.read()).split(b"HTTP/1.1 200 OK\r\n")[1:]
        writer.close()
    assert b"\r\nx-request-id: first\r\n" in first and b"connection: close" not in first
    assert b"\r\nx-request-id: second\r\n" in second and b"\r\nconnection: close\r\n\r\n" in second
    assert first.endswith(b'{"data":{"__typename":"Query"}}') and second.endswith(b'{"data":{"__typename":"Query"}}')


async def test_no_foreign_page_may_call_by_default(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        response = await preflight(app, ORIGIN)
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


async def test_a_line_feed_at_the_end_makes_another_path(serve_app: ServeApp) -> None:
    async with serve_app(graphiql=True, demo=True) as app:
        for path in ("/graphql", "/healthz", "/demo", "/", "/files/f_1/file/a.txt"):
            assert (await app.http.get(f"{path}%0a")).status_code == 404, path


@pytest.mark.parametrize("is_on", [True, False])
async def test_introspection_works_only_if_it_is_on(serve_app: ServeApp, is_on: bool) -> None:
    hidden = '{ ...R } fragment R on Query { ... { a: __type(name: "User") { name } } __typename }'
    async with serve_app(introspection=is_on) as app:
        for user in (None, "alice"):
            for query in (INTROSPECTION, hidden):
                answer = (await app.ask(query, user)).json()
                if is_on:
                    assert "errors" not in answer, query
                else:
                    assert "data" not in answer, query
                    expected = "FORBIDDEN" if user else "UNAUTHENTICATED"
                    assert answer["errors"][0]["extensions"]["code"] == expected, query
            if is_on or user:
                assert (await app.ask("{ __typename }", user)).json() == {"data": {"__typename": "Query"}}


async def test_introspection_and_graphiql_are_off_by_default(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        assert (await app.ask(INTROSPECTION, "alice")).json()["errors"][0]["extensions"]["code"] == "FORBIDDEN"
        assert (await app.http.get("/graphql", headers=BROWSER)).status_code == 401
        near = await app.ask("{ mee { id } sesions { totalUnread } user(idd: 1) { id } }", "alice")
        assert "id you mean" not in near.text and near.json()["errors"]


def test_development_settings_turn_everything_on(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = development_settings()
    assert (tried.introspection, tried.graphiql) == (True, True)
    monkeypatch.setenv("CONFAB_INTROSPECTION", "false")
    assert development_settings().introspection is False


@pytest.mark.parametrize("is_on", [True, False])
async def test_browser_gets_graphiql_only_if_it_is_on(serve_app: ServeApp, is_on: bool) -> None:
    async with serve_app(graphiql=is_on) as app:
        page = await app.http.get("/graphql", headers=BROWSER)
    assert page.status_code == (200 if is_on else 401)
    assert page.headers["content-type"].startswith("text/html") is is_on


async def test_body_above_the_configured_limit_is_answered_with_413(serve_app: ServeApp) -> None:
    async with serve_app(max_body_bytes=1024) as app:
        assert (await app.ask("{ __typename }" + " " * 900, "alice")).status_code == 200
        assert (await app.ask("{ __typename }" + " " * 1024, "alice")).status_code == 413


async def test_websockets_respect_the_configured_limits(serve_app: ServeApp) -> None:
    limits = {"ws_max_connections": 2, "ws_max_connections_per_user": 1, "ws_max_subscriptions": 1}
    async with serve_app(
        **limits, max_body_bytes=70_000, ws_init_timeout_seconds=2.0, ws_ping_interval_seconds=3.0
    ) as app:
        alice = await app.signed_in("alice")
        again = await app.socket()
        await again.send(
            {"type": "connection_init", "payload": {"Authorization": bearer(sub="alice", exp=time.time() + 60)}}
        )
        assert await again.closed() == (1013, "Try again later: too many connections of this user")
        evicted, silent = await app.socket(), await app.socket()
        assert await evicted.closed() == (1013, "Try again later: too many connections")
        await alice.subscribe("first", LIVE)
        assert (await _receive_no_ping(alice))["type"] == "next"
        await alice.subscribe("second", LIVE)
        refused = await _receive_no_ping(alice)
        assert (refused["id"], refused["type"]) == ("second", "error")
        assert refused["payload"][0]["extensions"]["code"] == "RATE_LIMITED"
        assert await alice.receive() == {"type": "ping"}
        assert (await silent.closed())[0] == 4408
        await alice.send({"type": "pong", "payload": {"a": "x" * 69_000}})
        await alice.send({"type": "ping"})
        assert await _receive_no_ping(alice) == {"type": "pong"}
        await alice.send({"type": "pong", "payload": {"a": "x" * 70_000}})
        with pytest.raises(ConnectionClosed):
            await _receive_no_ping(alice)
        assert alice.socket.close_code == 1009


async def _receive_no_ping(peer: Peer) -> dict[str, Any]:
    while (frame := await peer.receive()) == {"type": "ping"}:
        pass
    return frame


async def test_ids_contain_the_data_center(serve_app: ServeApp) -> None:
    async with serve_app(data_center=7) as app:
        await app.data("{ me { id } }", "bob")
        sent = await app.data(SEND, "alice")
    assert int(sent["sendMessage"]["message"]["id"].removeprefix("m_")) >> 17 & 0b11111 == 7


# Shutdown


async def test_websockets_are_closed_with_1012_when_the_server_stops(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        # Longer than the test waits.
        app.served.server.config.timeout_graceful_shutdown = 600
        alice = await app.signed_in("alice")
        await alice.subscribe("live", LIVE)
        await alice.receive()
        app.served.tell_to_stop()
        assert (await alice.closed())[0] == 1012
        async with asyncio.timeout(PATIENCE):
            await app.served.ended


@dataclass
class BlockedMutations:
    """Makes mutations begin, and wait at a gate."""

    begun: asyncio.Event
    gate: asyncio.Event


@pytest.fixture
def mutations(monkeypatch: pytest.MonkeyPatch) -> BlockedMutations:
    blocked = BlockedMutations(asyncio.Event(), asyncio.Event())
    execute = Engine.execute

    async def waiting(self: Engine, prepared: Any, request: GraphQLRequest, context: ConnectionContext) -> Json:
        if prepared.kind == "mutation":
            blocked.begun.set()
            await blocked.gate.wait()
        return await execute(self, prepared, request, context)

    monkeypatch.setattr(Engine, "execute", waiting)
    return blocked


async def test_stopping_server_answers_running_operations(serve_app: ServeApp, mutations: BlockedMutations) -> None:
    async with serve_app() as app:
        await app.data("{ me { id } }", "bob")
        alice, bob = await app.signed_in("alice"), await app.signed_in("bob")
        await alice.subscribe("send", SEND)
        async with asyncio.timeout(PATIENCE):
            await mutations.begun.wait()
        assert (await app.http.get("/readyz")).status_code == 200
        app.served.tell_to_stop()
        code, reason = await bob.closed()
        assert code == 1012
        assert re.fullmatch(r"Service restart; retry in \d+ ms", reason)
        # On an open connection, like that of a load balancer.
        unready = await app.http.get("/readyz")
        assert (unready.status_code, unready.json()["checks"]) == (503, {"server": "stopping"})
        # The next request goes to another server, instead of a connection that is being closed.
        assert unready.headers["connection"] == "close"
        with pytest.raises(ConnectionRefusedError):
            await app.socket()
        mutations.gate.set()
        answer = await alice.receive()
        assert "errors" not in answer["payload"]
        assert (await alice.receive())["type"] == "complete"
        assert (await alice.closed())[0] == 1012
        async with asyncio.timeout(PATIENCE):
            await app.served.ended


@pytest.mark.parametrize("way", ["http", "websocket"])
async def test_stopping_server_completes_running_mutations(
    serve_app: ServeApp, mutations: BlockedMutations, settings: Settings, way: str
) -> None:
    async with serve_app() as app:
        # After this uvicorn drops the request, and only the application waits for the mutation.
        app.served.server.config.timeout_graceful_shutdown = 0
        await app.data("{ me { id } }", "bob")
        alice = await app.signed_in("alice")
        asking = asyncio.gather(app.ask(SEND, "alice"), return_exceptions=True) if way == "http" else None
        if asking is None:
            await alice.subscribe("send", SEND)
        async with asyncio.timeout(PATIENCE):
            await mutations.begun.wait()
        app.served.tell_to_stop()
        assert (await alice.closed())[0] == 1012
        await asyncio.wait([app.served.ended], timeout=0.7)
        assert not app.served.ended.done()
        mutations.gate.set()
        async with asyncio.timeout(PATIENCE):
            await app.served.ended
            if asking is not None:
                await asking
    with MongoClient[Json](settings.mongo_url) as mongo:
        assert [row["t"] for row in mongo[settings.mongo_database]["messages"].find()] == ["hello"]

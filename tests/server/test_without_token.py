"""Callers without a token, on a server whose introspection is off: they are refused before anything is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from server.auth.websocket import NEEDS_TOKEN
from server.settings import Settings
from tests.protocol.serving import PATIENCE
from tests.server.served_app import App, ServeApp, serving_app

GRAPHQL_JSON = {"accept": "application/graphql-response+json"}
EVENTS = {"accept": "text/event-stream"}
QUERY = {"query": "{ __typename }"}
LIVE = {"query": "subscription { messageEvents { __typename } }"}

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "a query": ("POST", {"json": QUERY}),
    "a query of a newer client": ("POST", {"json": QUERY, "headers": GRAPHQL_JSON}),
    "a query in the URL": ("GET", {"params": QUERY}),
    "a head request": ("HEAD", {"params": QUERY}),
    "a persisted operation": ("POST", {"json": {"documentId": "x"}}),
    "a persisted operation in the URL": ("GET", {"params": {"documentId": "x"}}),
    "an event stream": ("POST", {"json": LIVE, "headers": EVENTS}),
    "an event stream in the URL": ("GET", {"params": LIVE, "headers": EVENTS}),
    "a reserved event stream": ("PUT", {}),
    "an operation on a reserved stream": ("POST", {"json": LIVE, "headers": {"x-graphql-event-stream-token": "x"}}),
    "the end of such an operation": ("DELETE", {"params": {"token": "x", "operationId": "1"}}),
    "a document that does not parse": ("POST", {"json": {"query": "{"}}),
    "no JSON": ("POST", {"content": "nonsense"}),
    "no body": ("POST", {}),
}


@pytest.fixture(scope="module")
async def app(module_settings: Settings) -> AsyncIterator[App]:
    """One server for all tests: none of them changes anything."""
    async with serving_app(module_settings) as app_:
        yield app_


@pytest.mark.parametrize("way", WAYS)
async def test_every_request_gets_401(app: App, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("parsed a document of nobody")

    monkeypatch.setattr("schema.execution.prepared_operations.parse_limited", fail)
    method, request = WAYS[way]
    answer = await app.http.request(method, "/graphql", **request)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    if method != "HEAD":
        (error,) = answer.json()["errors"]
        assert error["extensions"] == {"code": "UNAUTHENTICATED", "retryable": False}
        assert "Authorization: Bearer <token>" in error["message"]


async def test_the_body_is_not_awaited(app: App) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", app.served.port)
    writer.write(b"POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n")
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    writer.close()


@pytest.mark.parametrize("payload", [{}, {"deviceId": "phone"}])
async def test_a_connection_without_a_token_is_closed_with_4403(app: App, payload: dict[str, str]) -> None:
    peer = await app.socket()
    await peer.send({"type": "connection_init", "payload": payload})
    assert await peer.closed() == (4403, NEEDS_TOKEN.reason)


async def test_connections_without_a_token_are_acknowledged_if_introspection_is_on(serve_app: ServeApp) -> None:
    async with serve_app(introspection=True) as app:
        peer = await app.socket()
        await peer.init()
        await peer.subscribe("1", "{ __schema { queryType { name } } }")
        assert (await peer.receive())["payload"] == {"data": {"__schema": {"queryType": {"name": "Query"}}}}
        await peer.receive()
        await peer.subscribe("2", "{ me { id } }")
        assert (await peer.receive())["payload"][0]["extensions"]["code"] == "UNAUTHENTICATED"

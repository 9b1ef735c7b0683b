"""Invalid requests are INVALID_INPUT, never INTERNAL, and cheap to refuse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import uvicorn

GRAPHQL = "application/graphql-response+json"
JSON = "application/json"


@pytest.mark.parametrize("accept", [JSON, GRAPHQL])
@pytest.mark.parametrize(
    "body",
    [
        b" ",
        b"null",
        b"1",
        b'"{ok}"',
        b"true",
        b"{",
        b'{"query": "{ok}"',
        b'{"query": "{ok}"} {}',
        b"\xff\xfe",
        b'{"query": "\xff"}',
        b'{"query": "\\ud800"}',
        b'{"query": "{ok}", "variables": {"n": NaN}}',
        b'{"query": "{ok}", "variables": {"n": 1e999}}',
        b'{"query": "{ok}", "variables": {"n": ' + b"1" * 2000 + b'}, "x": ' + b"[" * 1500 + b"}",
        b"[" * 2000,
        b"[]",
        b'[{"query": "{ok}"}]',
        b"{}",
        b'{"query": null}',
        b'{"query": 7}',
        b'{"query": ["{ok}"]}',
        b'{"query": "{ok}", "variables": []}',
        b'{"query": "{ok}", "variables": "{}"}',
        b'{"query": "{ok}", "operationName": 7}',
        b'{"query": "{ok}", "extensions": "x"}',
    ],
)
async def test_invalid_graphql_request_is_invalid_input(side: Any, body: bytes, accept: str) -> None:
    response = await side.post(body, accept=accept)
    assert (response.status_code, side.code(response)) == (400, "INVALID_INPUT")
    assert response.json()["errors"][0]["extensions"]["retryable"] is False
    assert not side.engine.prepared


async def test_empty_body_is_invalid_input(side: Any) -> None:
    response = await side.client.post("/graphql", headers={"content-type": JSON})
    assert (response.status_code, side.code(response)) == (400, "INVALID_INPUT")


async def test_body_nested_100_000_deep_is_invalid_input(side: Any) -> None:
    for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
        response = await side.post(opened * 100_000 + b"1" + closed * 100_000)
        assert (response.status_code, side.code(response)) == (400, "INVALID_INPUT")


async def test_long_number_at_any_depth_is_exact_or_invalid_input(side: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python's own JSON parser has another depth limit and error, which depend on the version.
    number = 12345678901234567890
    nested = b'{"query":"{ok}","variables":{"n":%d,"d":%b}}' % (number, b"[" * 200 + b"]" * 200)
    assert (await side.post(nested)).status_code == 200
    assert side.engine.executed[0][0].variables["n"] == number

    def give_up(_: bytes) -> Any:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr("server.http.request.json.loads", give_up)
        response = await side.post(nested)
    assert (response.status_code, side.code(response)) == (400, "INVALID_INPUT")
    assert len(side.engine.prepared) == 1


async def test_error_names_the_invalid_field(side: Any) -> None:
    for name, value in (("query", 1), ("variables", 1), ("operationName", 1), ("extensions", 1)):
        response = await side.post({"query": "{ok}", name: value})
        assert response.json()["errors"][0]["extensions"]["field"] == name


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/graphql"},
        {"content-type": ""},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": JSON, "content-encoding": "gzip"},
    ],
)
async def test_other_content_types_are_answered_with_415(side: Any, headers: dict[str, str]) -> None:
    response = await side.client.post("/graphql", content=b'{"query":"{ok}"}', headers=headers)
    assert (response.status_code, side.code(response)) == (415, "INVALID_INPUT")
    assert not side.engine.prepared


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=UTF-8", "Application/JSON", 'application/json;charset="utf-8"']
)
async def test_content_type_json_is_accepted_in_any_spelling(side: Any, content_type: str) -> None:
    response = await side.client.post("/graphql", content=b'{"query":"{ok}"}', headers={"content-type": content_type})
    assert response.status_code == 200


async def test_body_limit_is_exact_to_the_byte(side: Any) -> None:
    empty = len(b'{"query":""}')
    whole = b'{"query":"' + b"a" * (side.max_body_bytes - empty) + b'"}'
    assert (await side.post(whole)).status_code == 200
    response = await side.post(whole + b" ")
    assert (response.status_code, side.code(response)) == (413, "INVALID_INPUT")


async def test_body_without_a_length_is_read_up_to_the_limit(side: Any) -> None:
    # The transport of httpx reads the body itself, so call the application directly.
    sent = 0
    answer: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent += 1024
        return {"type": "http.request", "body": b" " * 1024, "more_body": sent < 4 * side.max_body_bytes}

    async def send(message: Any) -> None:
        answer.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/graphql", "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")],
    }  # fmt: skip
    await side.app(scope, receive, send)
    assert answer[0]["status"] == 413
    assert sent <= side.max_body_bytes + 1024


async def test_connection_stays_usable_after_a_10_mb_body(side: Any) -> None:
    server = uvicorn.Server(uvicorn.Config(side.app, port=0, lifespan="off", log_config=None, http="httptools"))
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(160):
                yield b" " * 65_536

        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            for body in (b" " * 10_485_760, chunks()):
                response = await client.post("/graphql", content=body, headers={"content-type": JSON})
                assert (response.status_code, side.code(response)) == (413, "INVALID_INPUT")
            assert (await client.post("/graphql", json={"query": "{ok}"})).status_code == 200
    finally:
        server.should_exit = True
        await serving

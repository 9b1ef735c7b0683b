"""GraphQL over HTTP with a scripted engine: requests, responses, statuses and media types."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jwt
import pytest

from resolvers.base.errors import ConfabError, Forbidden, InvalidInput, Unauthenticated, Unavailable
from resolvers.users.callers import Caller
from server.http.request import MediaType, parse_accept
from store.base.errors import StoreError
from subscriptions.transport.engine import GraphQLRequest, Json
from tests.protocol.serving import PATIENCE
from tests.server.tokens import NOW, SECRET, bearer

GRAPHQL = "application/graphql-response+json"
JSON = "application/json"
NOBODY = {"message": "Send a token.", "extensions": {"code": "UNAUTHENTICATED", "retryable": False}}


# Valid requests


async def test_query_reaches_the_engine_unchanged(side: Any) -> None:
    body = {
        "query": "query Q($a: Int) {ok}",
        "variables": {"a": [1, None]},
        "operationName": "Q",
        "extensions": {"x": 1},
    }
    response = await side.post(body, authorization=bearer(), x_request_id="req-1")
    assert (response.status_code, response.json()) == (200, {"data": {"ok": True}})
    assert response.headers["cache-control"] == "no-store"
    ((request, context),) = side.engine.executed
    assert request == GraphQLRequest("query Q($a: Int) {ok}", {"a": [1, None]}, "Q")
    assert isinstance(context.caller, Caller)
    assert (context.caller.user_id, context.request_id, context.connection) == ("alice", "req-1", None)
    assert [caller.user_id for caller in side.signed_in] == ["alice"]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (JSON, JSON),
        (GRAPHQL, GRAPHQL),
        (f"{GRAPHQL}, {JSON};q=0.9", GRAPHQL),
        (f"{JSON}, {GRAPHQL}", GRAPHQL),
        (f"{JSON};q=0.9, {GRAPHQL};q=0.5", JSON),
        (f"{GRAPHQL};q=0, */*", JSON),
        (f"{JSON};q=0, */*;q=0.1", GRAPHQL),
        ("APPLICATION/GraphQL-Response+JSON; charset=utf-8", GRAPHQL),
        ("text/html, */*;q=0.8", JSON),
        ("text/html", None),
        (f"{JSON};q=0", None),
        (f"{JSON};q=nonsense", None),
    ],
)
def test_accept_header_selects_the_media_type(accept: str, expected: str | None) -> None:
    assert parse_accept(accept).media_type == (expected and MediaType(expected))


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("text/html", True),
        ("*/*", False),
        (f"{JSON}, text/html;q=0.9", False),
        ("text/html;q=0", False),
    ],
)
def test_only_clients_that_prefer_html_are_browsers(accept: str, html: bool) -> None:
    assert parse_accept(accept).prefers_html is html


@pytest.mark.parametrize(("accept", "form"), [(None, JSON), (JSON, JSON), (GRAPHQL, GRAPHQL)])
async def test_response_has_the_accepted_media_type(side: Any, accept: str | None, form: str) -> None:
    assert (await side.post(accept=accept)).headers["content-type"] == f"{form}; charset=utf-8"


async def test_unsupported_accept_header_is_answered_with_406(side: Any) -> None:
    response = await side.post(accept="image/png")
    assert (response.status_code, side.code(response)) == (406, "INVALID_INPUT")
    assert not side.engine.executed


async def test_numbers_above_64_bits_are_exact(side: Any) -> None:
    big = 123456789012345678901234567890
    side.engine.result = lambda: {"data": {"n": big, "s": "\ud800"}}
    response = await side.post({"query": "{ok}", "variables": {"n": big, "small": 1}})
    assert side.engine.executed[0][0].variables == {"n": big, "small": 1}
    assert response.status_code == 200
    assert json.loads(response.content)["data"]["n"] == big


async def test_get_runs_queries(side: Any) -> None:
    parameters = {"query": "query Q{ok}", "variables": '{"a":1}', "operationName": "Q", "extensions": "{}"}
    response = await side.client.get("/graphql", params=parameters)
    assert (response.status_code, response.json()) == (200, {"data": {"ok": True}})
    assert side.engine.executed[0][0] == GraphQLRequest("query Q{ok}", {"a": 1}, "Q")


async def test_get_refuses_mutations(side: Any) -> None:
    response = await side.client.get("/graphql", params={"query": "mutation {send}"})
    assert (response.status_code, side.code(response), response.headers["allow"]) == (405, "INVALID_INPUT", "POST")
    assert not side.engine.executed


@pytest.mark.parametrize(
    "parameters", [{}, {"query": ""}, {"query": "{ok}", "variables": "{"}, {"query": "{ok}", "variables": "[1]"}]
)
async def test_invalid_get_is_invalid_input(side: Any, parameters: dict[str, str]) -> None:
    response = await side.client.get("/graphql", params=parameters)
    assert (response.status_code, side.code(response)) == (400, "INVALID_INPUT")


@pytest.mark.parametrize("method", ["PATCH", "OPTIONS"])
async def test_other_methods_are_answered_with_405(side: Any, method: str) -> None:
    response = await side.client.request(
        method, "/graphql", content=b'{"query":"{ok}"}', headers={"content-type": JSON}
    )
    assert (response.status_code, side.code(response), response.headers["allow"]) == (
        405,
        "INVALID_INPUT",
        "GET, HEAD, POST, PUT, DELETE",
    )


@pytest.mark.parametrize("accept", [JSON, GRAPHQL])
async def test_refused_subscription_points_to_the_websocket(side: Any, accept: str) -> None:
    response = await side.post({"query": "subscription {events}"}, accept=accept)
    assert (response.status_code, side.code(response)) == (400, "INVALID_INPUT")
    assert "WebSocket" in response.json()["errors"][0]["message"]


# Failures of the engine


REFUSED = [{"message": "Syntax Error", "extensions": {"code": "INVALID_INPUT", "retryable": False}}]


@pytest.mark.parametrize(("accept", "status"), [(GRAPHQL, 400), (JSON, 200)])
async def test_refused_document_has_the_status_of_the_media_type(side: Any, accept: str, status: int) -> None:
    side.engine.refusal = REFUSED
    response = await side.post(accept=accept)
    assert (response.status_code, response.json()) == (status, {"errors": REFUSED})


@pytest.mark.parametrize("accept", [GRAPHQL, JSON])
async def test_field_errors_have_status_200(side: Any, accept: str) -> None:
    result = {"data": None, "errors": [{"message": "no", "extensions": {"code": "NOT_FOUND", "retryable": False}}]}
    side.engine.result = lambda: result
    response = await side.post(accept=accept, authorization=bearer())
    assert (response.status_code, response.json()) == (200, result)


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unavailable("later"), 503), (Forbidden("no"), 403), (InvalidInput("no", field="x"), 400)],
)
async def test_failure_before_execution_has_its_own_status(side: Any, error: ConfabError, status: int) -> None:
    side.sign_in_error = error
    response = await side.post(authorization=bearer())
    assert (response.status_code, side.code(response)) == (status, error.code)
    assert response.json()["errors"][0]["extensions"]["retryable"] is error.retryable
    assert response.json()["errors"][0]["extensions"].get("field") == error.field
    assert (await side.post(authorization=bearer(), accept=JSON)).status_code == 200
    assert not side.engine.executed


async def test_unreachable_database_is_unavailable(side: Any) -> None:
    side.sign_in_error = StoreError("mongo-7.internal: connection refused")
    response = await side.post(authorization=bearer())
    assert (response.status_code, side.code(response)) == (503, "UNAVAILABLE")
    assert response.json()["errors"][0]["extensions"]["retryable"] is True
    assert "mongo-7" not in response.text


async def test_defect_is_internal_and_contains_only_a_correlation_id(side: Any) -> None:
    def explode() -> Json:
        raise RuntimeError("password=hunter2")

    side.engine.result = explode
    for accept in (GRAPHQL, JSON):
        for query in ("{ok}", "mutation {ok}"):
            response = await side.post({"query": query}, accept=accept, x_request_id="find-me")
            assert (response.status_code, side.code(response)) == (500, "INTERNAL")
            assert response.json()["errors"][0]["extensions"]["correlationId"] == "find-me"
            assert "hunter2" not in response.text


# Callers


@pytest.mark.parametrize("accept", [GRAPHQL, JSON])
@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "nonsense",
        "Basic YWxpY2U6c2VjcmV0",
        "Bearer ",
        "Bearer nonsense",
        bearer(exp=NOW - 60),
        bearer(sub="no id"),
        "Bearer " + jwt.encode({"sub": "alice", "exp": NOW + 60}, SECRET + "!", algorithm="HS256"),
        "Bearer " + jwt.encode({"sub": "alice", "exp": NOW + 60}, None, algorithm="none"),
    ],
)
async def test_invalid_token_is_answered_with_401_and_nothing_runs(side: Any, accept: str, authorization: str) -> None:
    response = await side.post(accept=accept, authorization=authorization)
    assert (response.status_code, side.code(response)) == (401, "UNAUTHENTICATED")
    assert response.headers["www-authenticate"].startswith('Bearer realm="confab", error="invalid_token"')
    assert not side.engine.prepared


async def test_engine_decides_about_requests_without_a_token(side: Any) -> None:
    assert (await side.post()).status_code == 200
    ((_, context),) = side.engine.executed
    assert context.caller is None
    assert side.signed_in == []


@pytest.mark.parametrize("accept", [GRAPHQL, JSON])
async def test_anonymous_operation_refused_early_is_401(side: Any, accept: str) -> None:
    side.engine.refusal = [NOBODY]
    response = await side.post(accept=accept)
    assert (response.status_code, side.code(response)) == (401, "UNAUTHENTICATED")
    assert response.headers["www-authenticate"] == 'Bearer realm="confab"'


async def test_refusal_of_some_fields_has_status_200(side: Any) -> None:
    side.engine.result = lambda: {"data": {"__typename": "Query", "me": None}, "errors": [NOBODY]}
    assert (await side.post()).status_code == 200


@pytest.mark.parametrize("accept", [GRAPHQL, JSON])
@pytest.mark.parametrize("data", [{}, {"data": None}, {"data": {"me": None}}])
async def test_anonymous_operation_refused_by_the_engine_is_401(side: Any, data: Json, accept: str) -> None:
    side.engine.result = lambda: {**data, "errors": [NOBODY]}
    response = await side.post(accept=accept)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, 'Bearer realm="confab"')
    assert response.json() == {**data, "errors": [NOBODY]}


async def test_engine_may_raise_a_refusal(side: Any) -> None:
    def refuse() -> Json:
        raise Unauthenticated("Send a token.")

    side.engine.result = refuse
    response = await side.post()
    assert (response.status_code, side.code(response)) == (401, "UNAUTHENTICATED")


# Disconnects


def _gone(body: bytes) -> tuple[dict[str, Any], Any]:
    scope = {
        "type": "http", "method": "POST", "path": "/graphql", "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    return scope, receive


async def _unheard(_: Any) -> None:
    return


async def test_mutation_completes_after_its_request_is_cancelled(side: Any) -> None:
    side.engine.gate = asyncio.Event()
    scope, receive = _gone(b'{"query":"mutation {send}"}')
    request = asyncio.create_task(side.app(scope, receive, _unheard))
    while not side.engine.executed:  # noqa: ASYNC110 - the engine is at work in a few turns of the loop
        await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert side.engine.finished == 0
    side.engine.gate.set()
    await asyncio.wait_for(side.endpoint.drain(), PATIENCE)
    assert side.engine.finished == 1


async def test_query_is_cancelled_with_its_request(side: Any) -> None:
    side.engine.gate = asyncio.Event()
    scope, receive = _gone(b'{"query":"{ok}"}')
    request = asyncio.create_task(side.app(scope, receive, _unheard))
    while not side.engine.executed:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    side.engine.gate.set()
    await asyncio.wait_for(side.endpoint.drain(), PATIENCE)
    assert side.engine.finished == 0


async def test_disconnect_during_the_body_leaves_nothing_behind(side: Any) -> None:
    scope, _ = _gone(b"")

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await side.app(scope, receive, send)
    assert sent == []
    assert not side.engine.prepared

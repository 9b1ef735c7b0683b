"""Acting for users with a scripted engine: the header of HTTP requests and event streams, and the log."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from resolvers.users.callers import Caller, CallerRole
from tests.server.sse_peer import SSEPeer
from tests.server.tokens import bearer

SERVICE = bearer(sub="backend", role="service", name="The backend", picture="https://backend/me.png")
ADMIN = bearer(sub="backend", role="admin")

REQUESTS: dict[str, dict[str, Any]] = {
    "query by POST": {"method": "POST", "json": {"query": "{ok}"}},
    "query by GET": {"method": "GET", "params": {"query": "{ok}"}},
    "mutation": {"method": "POST", "json": {"query": "mutation {send}"}},
}

NOT_USERS = ["", "%", "%4", "%zz", "%FF", "%00", "two users", "two%20users", "al\u00efce", "a%0Ab", "u" * 129]


async def ask(side: Any, act_as: str, token: str | None = SERVICE, **request: Any) -> httpx.Response:
    headers = {"accept": "application/graphql-response+json", "confab-act-as": act_as.encode("latin-1")}
    if token is not None:
        headers["authorization"] = token
    request = request or REQUESTS["query by POST"]
    response = await side.client.request(url="/graphql", headers=headers, **request)
    assert isinstance(response, httpx.Response)
    return response


@pytest.mark.parametrize("token", [SERVICE, ADMIN], ids=["service", "admin"])
@pytest.mark.parametrize("name", REQUESTS)
async def test_operations_run_for_the_user_of_the_header(side: Any, name: str, token: str) -> None:
    assert (await ask(side, "alice", token, **REQUESTS[name])).status_code == 200
    ((_, context),) = side.engine.executed
    caller = context.caller
    assert (caller.user_id, caller.acted_by, caller.token_user) == ("alice", "backend", "backend")
    assert caller.role == (CallerRole.SERVICE if token == SERVICE else CallerRole.ADMIN)
    # The user comes into being, without the name and the picture of the token.
    assert side.signed_in == [caller]
    assert (caller.name, caller.picture) == (None, None)


async def test_event_streams_run_for_the_user_of_the_header(side: Any) -> None:
    stream = SSEPeer(side.app, {"query": "subscription {events}"}, authorization=SERVICE, confab_act_as="alice")
    await stream.until(lambda: stream.status)
    assert [(caller.user_id, caller.acted_by) for caller in side.signed_in] == [("alice", "backend")]
    assert side.streams._count_by_user == {"alice": 1}
    stream.leave()
    await stream.task


@pytest.mark.parametrize(
    ("value", "user"),
    [
        ("%61lice", "alice"),
        ("a.b%40c", "a.b@c"),
        ("auth0%7c7", "auth0|7"),
        ("auth0|7", "auth0|7"),
        ("100%25", "100%"),
        ("a+b", "a+b"),
        ("%F0%9F%98%80", "\N{GRINNING FACE}"),
        ("%75" * 128, "u" * 128),
    ],
)
async def test_the_header_is_percent_encoded(side: Any, value: str, user: str) -> None:
    assert (await ask(side, value)).status_code == 200
    assert side.engine.executed[0][1].caller.user_id == user


@pytest.mark.parametrize("value", NOT_USERS)
async def test_a_header_that_names_no_user_is_refused(side: Any, value: str) -> None:
    response = await ask(side, value)
    assert side.code(response) == "INVALID_INPUT"
    assert response.json()["errors"][0]["extensions"]["field"] == "Confab-Act-As"
    assert (side.engine.executed, side.signed_in) == ([], [])


async def test_two_headers_are_refused(side: Any) -> None:
    headers = [("authorization", SERVICE), ("confab-act-as", "alice"), ("confab-act-as", "bob")]
    response = await side.client.post("/graphql", json={"query": "{ok}"}, headers=headers)
    assert side.code(response) == "INVALID_INPUT"
    assert not side.engine.executed


@pytest.mark.parametrize("value", ["alice", "bob", "", "%"])
@pytest.mark.parametrize("role", [None, "user"])
async def test_acting_without_the_role_is_forbidden(side: Any, role: str | None, value: str) -> None:
    response = await ask(side, value, bearer(sub="alice", role=role))
    assert (response.status_code, side.code(response)) == (403, "FORBIDDEN")
    assert (side.engine.executed, side.signed_in) == ([], [])


async def test_acting_without_a_token_is_refused(side: Any) -> None:
    response = await ask(side, "alice", None)
    assert (response.status_code, side.code(response)) == (401, "UNAUTHENTICATED")
    assert not side.engine.executed


async def test_acting_for_oneself_is_the_same_as_not_acting(side: Any) -> None:
    await ask(side, "backend")
    await side.post(authorization=SERVICE)
    first, second = (context.caller for _, context in side.engine.executed)
    assert isinstance(first, Caller)
    assert first == second
    assert (first.acted_by, first.name) == (None, "The backend")


async def test_the_request_log_names_both_users(side: Any) -> None:
    for headers in ({"confab_act_as": "alice"}, {}):
        with capture_logs([merge_contextvars]) as logs:
            await side.post(authorization=SERVICE, **headers)
        (line,) = [entry for entry in logs if entry["event"] == "request"]
        named = {name: line[name] for name in ("user", "acted_by") if name in line}
        assert named == ({"user": "alice", "acted_by": "backend"} if headers else {"user": "backend"})

"""Renewing tokens on open WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
import uvicorn
from pymongo import MongoClient
from redis import Redis
from starlette.websockets import WebSocket

from resolvers.users.callers import Caller, CallerRole
from server.auth.authenticator import Authenticator
from server.auth.websocket import websocket_authenticator
from server.overload.load_shedding import LoadShedding
from server.services import Services, open_services
from server.settings import load_settings
from store.base.ids import UserId
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, Json
from subscriptions.transport.uvicorn_protocol import DirectWebSocketProtocol
from subscriptions.transport.websocket import TransportLimits, WebSocketTransport
from tests.conftest import own_database, own_prefix
from tests.protocol.peer import Peer, open_admitted_socket
from tests.protocol.serving import serving
from tests.server.tokens import NOW, SECRET, bearer, signed

RENEW = "mutation ($token: String!) { renewAuth(token: $token) }"
LIVE = "subscription { messageEvents { __typename ... on MessageCreated { message { content } } } }"
SEND = 'mutation { sendMessage(input: {toUserId: "alice", content: "hello"}) { message { id } } }'
UPSERT = 'mutation { upsertUsers(input: [{id: "made", displayName: "Made"}]) { id } }'
SOON = 0.05
"""Seconds until a token expires. Short, because timers use real time before they check the tests' clock."""


@dataclass
class Live:
    """A server whose WebSockets check tokens with the tests' clock."""

    services: Services
    database: Any
    url: str
    clock: Any
    sockets: AsyncExitStack
    transport: WebSocketTransport

    async def connect(self, user: str, **claims: Any) -> Peer:
        peer = await self.sockets.enter_async_context(open_admitted_socket(self.url))
        await peer.init({"Authorization": bearer(sub=user, **claims)})
        return peer

    async def listener(self, user: str, **claims: Any) -> Peer:
        """Open a WebSocket with a running subscription."""
        peer = await self.connect(user, **claims)
        await peer.subscribe("live", LIVE)
        assert (await peer.receive())["payload"]["data"]["messageEvents"] == {"__typename": "CaughtUp"}
        return peer

    async def pass_time(self, seconds: float) -> None:
        """Move the clock, and wait until the timers have checked it."""
        self.clock.now += seconds
        await asyncio.sleep(2 * SOON)


async def asked(peer: Peer, query: str, **variables: Any) -> Json:
    """Run an operation on an idle WebSocket, and return its response."""
    await peer.subscribe("ask", query, variables=variables)
    answer = await peer.receive()
    assert await peer.receive() == {"id": "ask", "type": "complete"}
    payload = answer["payload"]
    assert isinstance(payload, dict)
    return payload


def refusal_in(response: Json) -> tuple[str, str | None]:
    (error,) = response["errors"]
    return error["extensions"]["code"], error["extensions"].get("field")


def spelt(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


@pytest.fixture(scope="module")
async def services(
    mongo_url: str, redis_url: str, _mongo_janitor: MongoClient[Json], _redis_janitor: Redis
) -> AsyncIterator[Services]:
    with own_database(_mongo_janitor) as database, own_prefix(_redis_janitor) as prefix:
        settings = load_settings(mongo_url=mongo_url, redis_url=redis_url, mongo_database=database, redis_prefix=prefix)
        async with open_services(settings) as opened:
            for user in ("alice", "bob"):
                await opened.sign_in(Caller(UserId(user), CallerRole.USER, NOW))
            yield opened


@pytest.fixture
async def live(services: Services, clock: Any, _mongo_janitor: MongoClient[Json]) -> AsyncIterator[Live]:
    authenticator = Authenticator(load_settings(jwt_secret=SECRET), clock)
    transport = WebSocketTransport(
        services.engine,
        websocket_authenticator(authenticator.authenticate, services.sign_in, LoadShedding(100, 100)),
        TransportLimits(),
        authenticate_token=authenticator.authenticate,
        clock=clock,
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await transport.serve(WebSocket(scope, receive, send))

    config = uvicorn.Config(app, ws=DirectWebSocketProtocol, ws_ping_interval=None, lifespan="off", log_config=None)
    async with serving(config) as served, AsyncExitStack() as sockets:
        database = _mongo_janitor[services.app.store.mongo._database.name]
        yield Live(services, database, f"ws://127.0.0.1:{served.port}", clock, sockets, transport)


async def test_subscriptions_continue_until_the_renewed_token_expires(live: Live) -> None:
    alice = await live.listener("alice", exp=NOW + SOON)
    renewed = await asked(alice, RENEW, token=signed(sub="alice", exp=NOW + 2 * SOON))
    assert renewed == {"data": {"renewAuth": spelt(NOW + 2 * SOON)}}
    await live.pass_time(SOON)
    bob = await live.connect("bob")
    assert "errors" not in await asked(bob, SEND)
    message = {"__typename": "MessageCreated", "message": {"content": "hello"}}
    assert await alice.receive() == {"id": "live", "type": "next", "payload": {"data": {"messageEvents": message}}}
    assert await alice.is_alive()
    await live.pass_time(SOON)
    assert await alice.closed() == (4403, "Token expired")


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (signed(sub="mallory", name="Mallory", exp=NOW + 900), "FORBIDDEN"),
        (signed(sub="alice", exp=NOW + 900)[:-4] + "AAAA", "UNAUTHENTICATED"),
        (signed(sub="alice", exp=NOW - 60), "UNAUTHENTICATED"),
        (signed(sub="alice", exp=NOW - 1), "UNAUTHENTICATED"),
        ("", "UNAUTHENTICATED"),
    ],
    ids=["another user's", "forged", "expired", "expired within the leeway", "empty"],
)
async def test_refused_token_changes_nothing(live: Live, token: str, code: str) -> None:
    before = list(live.database["users"].find())
    alice = await live.listener("alice", exp=NOW + SOON)
    await alice.send({"id": "ask", "type": "subscribe", "payload": {"query": RENEW, "variables": {"token": token}}})
    answer = (await alice.receive())["payload"]
    assert (answer["data"], refusal_in(answer)) == (None, (code, "token"))
    assert (await alice.receive())["type"] == "complete"
    assert await asked(alice, "{ me { id } }") == {"data": {"me": {"id": "alice"}}}
    assert list(live.database["users"].find()) == before
    await live.pass_time(SOON)
    assert await alice.closed() == (4403, "Token expired")


async def test_last_of_two_concurrent_renewals_counts(live: Live) -> None:
    judge, first_is_asked = live.transport._host.authenticate_token, asyncio.Event()
    last_is_answered = asyncio.Event()

    async def slowly(token: str) -> object:
        if not first_is_asked.is_set():
            first_is_asked.set()
            await last_is_answered.wait()
        return await judge(token)

    live.transport._host = replace(live.transport._host, authenticate_token=slowly)
    alice = await live.connect("alice", exp=NOW + 60)
    for id, expires in (("first", NOW + 100), ("last", NOW + 200)):
        await alice.subscribe(id, RENEW, variables={"token": signed(sub="alice", exp=expires)})
    frames = [await alice.receive() for _ in range(2)]
    last_is_answered.set()
    frames += [await alice.receive() for _ in range(2)]
    assert [frame["id"] for frame in frames] == ["last", "last", "first", "first"]
    assert [frame["payload"]["data"]["renewAuth"] for frame in frames[::2]] == [spelt(NOW + 200)] * 2


async def test_new_token_determines_the_rights_from_then_on(live: Live) -> None:
    alice = await live.connect("alice")
    assert refusal_in(await asked(alice, UPSERT))[0] == "FORBIDDEN"
    assert "errors" not in await asked(alice, RENEW, token=signed(sub="alice", role="service"))
    assert await asked(alice, UPSERT) == {"data": {"upsertUsers": [{"id": "made"}]}}
    assert "errors" not in await asked(alice, RENEW, token=signed(sub="alice"))
    assert refusal_in(await asked(alice, UPSERT))[0] == "FORBIDDEN"


async def test_renewal_needs_a_connection(services: Services) -> None:
    request = GraphQLRequest(RENEW, {"token": signed(sub="alice")})
    context = ConnectionContext(Caller(UserId("alice"), CallerRole.USER, NOW), "test")
    response = await services.engine.execute(await services.engine.prepare(request, context.caller), request, context)
    assert (response["data"], refusal_in(response)) == (None, ("INVALID_INPUT", None))

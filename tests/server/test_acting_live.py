"""Acting for users on running servers: WebSockets, event streams, limits and renewal."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from tests.protocol.peer import Peer
from tests.server.served_app import LIVE, App, ServeApp
from tests.server.tokens import bearer, signed

ME = "{ me { id displayName } }"
SEND = """mutation ($to: ID!, $content: String!) {
    sendMessage(input: {toUserId: $to, content: $content}) {
        message { content sender { id } } session { readSeq } } }"""
UPSERT = 'mutation { upsertUsers(input: [{id: "made", displayName: "Made"}]) { id } }'
RENEW = "mutation ($token: String!) { renewAuth(token: $token) }"
STREAM = "x-graphql-event-stream-token"
FORBIDDEN = "only callers with role service or admin may act for a user"
NO_USER = "name the user to act for by a user id"


def claims_of_backend(**changes: Any) -> dict[str, Any]:
    now = time.time()
    return {"sub": "backend", "role": "service", "name": "Backend", "exp": now + 60, "iat": now - 1} | changes


def headers_for(user: str, **claims: Any) -> dict[str, str]:
    return {"authorization": bearer(**claims_of_backend(**claims)), "Confab-Act-As": user}


async def ask(app: App, user: str, query: str, **variables: Any) -> Any:
    """Return the response to a POST of the backend that acts for a user."""
    body = {"query": query, "variables": variables}
    return (await app.http.post("/graphql", json=body, headers=headers_for(user))).json()


async def connect(app: App, user: Any, **claims: Any) -> Peer:
    """Open a WebSocket of the backend that acts for a user. The answer to connection_init is not read yet."""
    peer = await app.socket()
    payload = {"Authorization": bearer(**claims_of_backend(**claims)), "actAs": user}
    await peer.send({"type": "connection_init", "payload": payload})
    return peer


async def answer(peer: Peer, query: str, **variables: Any) -> Any:
    """Return the response to an operation on a WebSocket."""
    await peer.subscribe("ask", query, variables=variables)
    response = (await peer.receive())["payload"]
    assert (await peer.receive())["type"] == "complete"
    return response


async def listen(app: App, user: str, **claims: Any) -> Peer:
    """Open a WebSocket of the backend that acts for a user, with a running subscription."""
    peer = await connect(app, user, **claims)
    assert await peer.receive() == {"type": "connection_ack"}
    await peer.subscribe("live", LIVE)
    assert (await peer.receive())["payload"]["data"]["messageEvents"] == {"__typename": "CaughtUp"}
    return peer


def refusal(response: Any) -> tuple[str, str]:
    (error,) = response["errors"]
    return error["extensions"]["code"], error["message"]


async def test_every_transport_answers_as_the_user(serve_app: ServeApp, tmp_path: Path) -> None:
    operations = tmp_path / "operations.json"
    operations.write_text(json.dumps({hashlib.sha256(ME.encode()).hexdigest(): ME}))
    async with serve_app(operations_file=operations) as app:
        alice = {"me": {"id": "alice", "displayName": "alice"}}
        assert await ask(app, "alice", ME) == {"data": alice}
        for parameters in ({"query": ME}, {"documentId": hashlib.sha256(ME.encode()).hexdigest()}):
            got = await app.http.get("/graphql", params=parameters, headers=headers_for("%61lice"))
            assert got.json() == {"data": alice}
        events = headers_for("alice") | {"accept": "text/event-stream"}
        got = await app.http.post("/graphql", json={"query": ME}, headers=events)
        assert got.text.startswith(f":\n\nevent: next\ndata: {json.dumps({'data': alice}, separators=(',', ':'))}")

        # Nobody but the one who acts comes into being, and what the token says of its user stays with its user.
        assert await app.data('{ user(id: "backend") { id } }', "alice") == {"user": None}
        assert (await ask(app, "backend", ME))["data"]["me"] == {"id": "backend", "displayName": "Backend"}

        await ask(app, "bob", ME)
        live = await listen(app, "bob")
        assert (await answer(live, ME))["data"]["me"]["id"] == "bob"
        sent = (await ask(app, "alice", SEND, to="bob", content="from a backend"))["data"]["sendMessage"]
        assert sent == {
            "message": {"content": "from a backend", "sender": {"id": "alice"}},
            "session": {"readSeq": 1},
        }
        message = (await live.receive())["payload"]["data"]["messageEvents"]["message"]
        assert message == {"content": "from a backend", "sender": {"id": "alice"}}


async def test_websockets_that_may_not_act_are_closed(serve_app: ServeApp) -> None:
    refused: list[tuple[str, Any, tuple[int, str]]] = [
        ("user", "alice", (4403, FORBIDDEN)),
        ("user", "backend", (4403, FORBIDDEN)),
        ("user", "", (4403, FORBIDDEN)),
        ("service", "", (4400, NO_USER)),
        ("admin", "two users", (4400, NO_USER)),
        ("service", 7, (4400, NO_USER)),
        ("service", ["alice"], (4400, NO_USER)),
    ]
    async with serve_app() as app:
        for role, user, close in refused:
            assert await (await connect(app, user, role=role)).closed() == close, (role, user)
        peer = await app.socket()
        await peer.send({"type": "connection_init", "payload": {"actAs": "alice"}})
        assert await peer.closed() == (4403, "actAs needs a token in Authorization.")
        for not_acting in (None, "backend"):
            peer = await connect(app, not_acting)
            assert await peer.receive() == {"type": "connection_ack"}
            assert (await answer(peer, ME))["data"]["me"] == {"id": "backend", "displayName": "Backend"}
        # None of them has made a user.
        assert await app.data('{ user(id: "alice") { id } }', "backend") == {"user": None}


async def test_an_acting_service_keeps_its_role_and_gains_no_membership(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        made = await ask(app, "alice", UPSERT)
        assert made == {"data": {"upsertUsers": [{"id": "made"}]}}
        for user in ("bob", "carol"):
            await ask(app, user, ME)
        group = 'mutation { createGroup(input: {name: "G", memberIds: ["bob", "carol"]}) { id owner { id } } }'
        created = (await ask(app, "alice", group))["data"]["createGroup"]
        assert created["owner"] == {"id": "alice"}
        read = "query ($id: ID!) { messages(conversationId: $id) { edges { cursor } } group(id: $id) { id } }"
        assert (await ask(app, "made", read, id=created["id"]))["data"] == {"messages": None, "group": None}
        rename = 'mutation ($id: ID!) { updateGroup(groupId: $id, input: {name: "H"}) { id } }'
        assert refusal(await ask(app, "bob", rename, id=created["id"]))[0] == "FORBIDDEN"


async def test_limits_are_those_of_the_user(serve_app: ServeApp) -> None:
    async with serve_app(ws_max_connections_per_user=1, sends_per_minute=2) as app:
        for user in ("alice", "bob", "carol"):
            await ask(app, user, ME)
        alice, bob = await connect(app, "alice"), await connect(app, "bob")
        assert [await peer.receive() for peer in (alice, bob)] == [{"type": "connection_ack"}] * 2
        assert (await (await connect(app, "alice")).closed())[0] == 1013
        for user in ("alice", "bob"):
            assert "errors" not in await ask(app, user, SEND, to="carol", content="first")
        assert refusal(await ask(app, "alice", SEND, to="carol", content="second"))[0] == "RATE_LIMITED"


async def test_an_event_stream_belongs_to_the_pair_of_service_and_user(serve_app: ServeApp) -> None:
    async with serve_app() as here, serve_app() as there:
        acting, other_backend = headers_for("alice"), headers_for("alice", sub="other")
        alice = {"authorization": bearer(sub="alice", exp=time.time() + 60)}
        itself = {"authorization": bearer(**claims_of_backend())}
        token = (await there.http.put("/graphql", headers=acting)).text
        opening = {"accept": "text/event-stream", STREAM: token}
        for others in (alice, itself, other_backend, headers_for("bob")):
            assert (await here.http.get("/graphql", headers=others | opening)).status_code == 404
        body = {"query": "{ me { id } }", "extensions": {"operationId": "1"}}
        async with here.http.stream("GET", "/graphql", headers=acting | opening) as stream:
            for others in (alice, itself, other_backend):
                assert (
                    await there.http.post("/graphql", json=body, headers=others | {STREAM: token})
                ).status_code == 404
            # The request reaches another server, which passes the caller on.
            started = await there.http.post("/graphql", json=body, headers=acting | {STREAM: token})
            assert started.status_code == 202
            text = ""
            async with asyncio.timeout(20):
                async for chunk in stream.aiter_text():
                    text += chunk
                    if "complete" in text:
                        break
            assert '"data":{"me":{"id":"alice"}}' in text


async def test_only_a_token_of_the_acting_service_renews_the_connection(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        live = await listen(app, "alice")
        # The token is the backend's: no other one renews the connection, and acting goes on.
        for claims, code in (
            ({"sub": "alice", "role": "user"}, "FORBIDDEN"),
            ({"sub": "other"}, "FORBIDDEN"),
            ({"role": "user"}, "FORBIDDEN"),
        ):
            token = signed(**claims_of_backend(**claims))
            assert refusal(await answer(live, RENEW, token=token))[0] == code
        assert "errors" not in await answer(live, RENEW, token=signed(**claims_of_backend(role="admin")))
        assert (await answer(live, ME))["data"]["me"]["id"] == "alice"
        assert await live.is_alive()


async def test_a_service_and_the_user_get_live_results_of_their_own(serve_app: ServeApp) -> None:
    """Three callers share a selection: the user, a service and an admin that act for the user."""
    own = """subscription { messageEvents { __typename ... on MessageCreated {
        message { content idempotencyKey delivery { status } replyTo { id } } } } }"""
    async with serve_app() as app:
        await ask(app, "bob", ME)
        peers = [await app.signed_in("alice"), await connect(app, "alice"), await connect(app, "alice", role="admin")]
        for peer in peers[1:]:
            assert await peer.receive() == {"type": "connection_ack"}
        stranger = await connect(app, "bob")
        assert await stranger.receive() == {"type": "connection_ack"}
        for peer in (*peers, stranger):
            await peer.subscribe("live", own)
            assert (await peer.receive())["payload"]["data"]["messageEvents"] == {"__typename": "CaughtUp"}
        sent = await ask(
            app,
            "alice",
            'mutation { sendMessage(input: {toUserId: "bob", content: "x", idempotencyKey: "k"}) { replayed } }',
        )
        assert "errors" not in sent
        results = [(await peer.receive())["payload"]["data"]["messageEvents"]["message"] for peer in (*peers, stranger)]
        assert [result["idempotencyKey"] for result in results] == ["k", "k", "k", None]
        assert [result["delivery"] for result in results] == [{"status": "SENT"}] * 3 + [None]

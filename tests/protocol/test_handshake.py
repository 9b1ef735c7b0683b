"""The handshake, and the effect of the token's expiry on the connection."""

from __future__ import annotations

import asyncio
import time

import pytest
from structlog.testing import capture_logs
from websockets.exceptions import ConnectionClosed

from store.base.errors import Unreachable
from subscriptions.transport.close_codes import FORBIDDEN
from subscriptions.transport.websocket import Authenticated, ConnectionRefusedByAuth, TransportLimits
from tests.protocol.serving import PATIENCE


async def test_the_modern_subprotocol_is_chosen_among_those_offered(server):
    peer = await server.connect(["graphql-ws", "graphql-transport-ws"])
    assert peer.subprotocol == "graphql-transport-ws"
    assert await peer.is_alive()


@pytest.mark.parametrize("offered", [["graphql-ws"], ["chat"], []], ids=["legacy", "foreign", "none"])
async def test_a_socket_without_the_modern_subprotocol_is_closed_4406(server, offered):
    peer = await server.connect(offered, init=False)
    assert peer.subprotocol is None
    assert await peer.closed() == (4406, "Subprotocol not acceptable")


@pytest.mark.parametrize(
    "frame",
    ['{"type":"connection_init"}', '{"type":"connection_init","payload":null}'],
    ids=["no payload", "payload null"],
)
async def test_an_init_without_payload_is_acknowledged(server, frame):
    peer = await server.connect(init=False)
    await peer.send(frame)
    assert await peer.receive() == {"type": "connection_ack"}


async def test_the_init_payload_is_authenticated_and_sets_the_caller(start, engine):
    async def authenticate(payload):
        return Authenticated(caller=payload["Authorization"])

    async def whoami(request, context):
        return {"data": {"caller": context.caller}}

    engine.executions["query whoami"] = whoami
    server = await start(authenticate=authenticate)
    peer = await server.connect(init=False)
    await peer.init({"Authorization": "Bearer alice"})
    await peer.subscribe("1", "query whoami")
    assert (await peer.receive())["payload"] == {"data": {"caller": "Bearer alice"}}


async def test_without_an_init_the_socket_is_closed_4408(start):
    server = await start(TransportLimits(init_timeout_seconds=0.1))
    peer = await server.connect(init=False)
    assert await peer.closed() == (4408, "Connection initialisation timeout")


async def test_an_authentication_that_takes_too_long_is_closed_4408(start):
    async def authenticate(payload):
        await asyncio.sleep(60)

    server = await start(TransportLimits(init_timeout_seconds=0.1), authenticate=authenticate)
    peer = await server.connect(init=False)
    await peer.send({"type": "connection_init"})
    assert (await peer.closed())[0] == 4408
    await server.idle()


async def test_an_acknowledged_connection_outlives_the_init_timeout(start):
    for seconds in (0.1, 1.0, 10.0):
        server = await start(TransportLimits(init_timeout_seconds=seconds))
        peer = await server.connect(init=False)
        try:
            await peer.send({"type": "connection_init"})
            assert await peer.receive() == {"type": "connection_ack"}
            break
        except ConnectionClosed as late:
            # A busy machine may need longer for the handshake.
            assert late.rcvd is not None and late.rcvd.code == 4408
    await asyncio.sleep(2.5 * seconds)
    assert await peer.is_alive()


async def test_a_second_init_is_closed_4429(server):
    peer = await server.connect()
    await peer.send({"type": "connection_init"})
    assert await peer.closed() == (4429, "Too many initialisation requests")


async def test_an_operation_before_the_init_is_closed_4401(server):
    peer = await server.connect(init=False)
    await peer.subscribe("1", "query hello")
    assert await peer.closed() == (4401, "Unauthorized")


@pytest.mark.parametrize(
    ("frame", "close"),
    [
        ({"type": "connection_init"}, (4429, "Too many initialisation requests")),
        ({"id": "1", "type": "subscribe", "payload": {"query": "query hello"}}, (4401, "Unauthorized")),
    ],
    ids=["a second init", "an operation"],
)
async def test_frames_forbidden_before_the_acknowledgement_close_the_socket(start, frame, close):
    async def authenticate(payload):
        await asyncio.sleep(60)

    server = await start(authenticate=authenticate)
    peer = await server.connect(init=False)
    await peer.send({"type": "connection_init"})
    await peer.send(frame)
    assert await peer.closed() == close


async def test_ping_pong_and_complete_are_allowed_before_the_init(server):
    peer = await server.connect(init=False)
    await peer.send({"type": "pong"})
    await peer.complete("unknown")
    assert await peer.is_alive()


async def test_a_refused_token_is_closed_with_the_authenticators_code(start):
    async def authenticate(payload):
        raise ConnectionRefusedByAuth(FORBIDDEN.because("The signature is wrong."))

    server = await start(authenticate=authenticate)
    peer = await server.connect(init=False)
    await peer.send({"type": "connection_init", "payload": {"Authorization": "Bearer forged"}})
    assert await peer.closed() == (4403, "The signature is wrong.")


async def test_a_refusal_is_4403_forbidden_by_default(start):
    async def authenticate(payload):
        raise ConnectionRefusedByAuth

    server = await start(authenticate=authenticate)
    peer = await server.connect(init=False)
    await peer.send({"type": "connection_init"})
    assert await peer.closed() == (4403, "Forbidden")


async def test_a_failing_authenticator_is_logged_and_closed_with_a_retried_code(start):
    async def authenticate(payload):
        raise ZeroDivisionError("in authenticate")

    server = await start(authenticate=authenticate)
    peer = await server.connect(init=False)
    with capture_logs() as logs:
        await peer.send({"type": "connection_init"})
        assert await peer.closed() == (1013, "Try again later")
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["websocket_authentication_failed"]


async def test_an_unreachable_database_is_closed_with_a_retried_code(start):
    async def authenticate(payload):
        raise Unreachable("no primary")

    server = await start(authenticate=authenticate)
    peer = await server.connect(init=False)
    with capture_logs() as logs:
        await peer.send({"type": "connection_init"})
        assert await peer.closed() == (1013, "Try again later")
    assert [entry["event"] for entry in logs if "exc_info" in entry or entry["log_level"] == "error"] == []


def with_token(expires_at, caller="alice"):
    async def authenticate(payload):
        return Authenticated(caller, expires_at)

    return authenticate


@pytest.mark.parametrize(
    ("garbage", "end"),
    [
        (None, {"ended_by": "client", "code": 1000, "reason": None}),
        ("{", {"ended_by": "server", "code": 4400, "reason": "Message is not valid JSON"}),
    ],
)
async def test_the_log_names_the_user_and_the_reason_of_an_ended_connection(start, garbage, end):
    async def authenticate(payload):
        return Authenticated("alice's caller", user="alice")

    server = await start(authenticate=authenticate)
    with capture_logs() as logs:
        peer = await server.connect()
        if garbage is None:
            await peer.socket.close()
        else:
            await peer.send(garbage)
            await peer.closed()
        await server.idle()
    (line,) = logs
    assert line.pop("duration_ms") < PATIENCE * 1000 and line.pop("connection_id")
    assert line == {"event": "websocket", "log_level": "info", "user": "alice", **end}


async def test_an_expired_token_is_closed_4403_without_an_acknowledgement(start):
    server = await start(authenticate=with_token(expires_at=1000.0), clock=lambda: 1000.0)
    peer = await server.connect(init=False)
    await peer.send({"type": "connection_init"})
    assert await peer.closed() == (4403, "Token expired")


async def test_a_live_connection_is_closed_4403_when_its_token_expires(start):
    expires_at = []

    async def authenticate(payload):
        expires_at.append(time.time() + 0.3)
        return Authenticated("alice", expires_at[0])

    server = await start(authenticate=authenticate)
    peer = await server.connect()
    assert await peer.closed() == (4403, "Token expired")
    assert time.time() >= expires_at[0]


@pytest.fixture
def connection_of(engine):
    """Return the server's object of a peer's connection, as resolvers get it."""

    async def connection(peer):
        caught = []

        async def catch(request, context):
            caught.append(context.connection)
            return {"data": {"caller": context.caller}}

        engine.executions["query catch"] = catch
        await peer.subscribe("catch", "query catch")
        answer = await peer.receive()
        await peer.receive()
        return caught[0], answer["payload"]["data"]["caller"]

    return connection


async def test_a_renewed_token_keeps_the_connection_past_the_first_expiry(start, engine, connection_of):
    async def tick(request, context):
        while True:
            await asyncio.sleep(0.05)
            yield {"data": {"tick": context.caller}}

    engine.streams["subscription tick"] = tick
    seconds = [0.0]
    server = await start(authenticate=with_token(0.4), clock=lambda: seconds[0])
    peer = await server.connect()
    connection, _ = await connection_of(peer)
    await peer.subscribe("1", "subscription tick")
    connection.renew(60.0, "alice")
    seconds[0] = 0.5
    deadline = time.monotonic() + 0.8
    while time.monotonic() < deadline:
        assert (await peer.receive())["type"] == "next"


async def test_operations_after_a_renewal_are_started_by_the_new_caller(start, connection_of):
    server = await start(authenticate=with_token(time.time() + 60, "alice"))
    peer = await server.connect()
    connection, before = await connection_of(peer)
    connection.renew(None, "alice, renewed")
    _, after = await connection_of(peer)
    assert (before, after) == ("alice", "alice, renewed")


async def test_a_renewal_that_expires_sooner_closes_sooner(start, connection_of):
    server = await start(authenticate=with_token(time.time() + 60))
    peer = await server.connect()
    connection, _ = await connection_of(peer)
    connection.renew(time.time() + 0.1, "alice")
    assert await peer.closed() == (4403, "Token expired")


async def test_renewing_a_closed_connection_does_nothing(start, connection_of):
    server = await start(authenticate=with_token(time.time() + 60))
    peer = await server.connect()
    connection, _ = await connection_of(peer)
    await peer.socket.close()
    await server.idle()
    context = connection._context
    connection.renew(time.time() + 60, "alice, renewed")
    # A timer would keep the connection alive until the token expires.
    assert (connection._context, connection._deadline) == (context, None)
    connection.close(FORBIDDEN)
    assert connection._close_frame is None


async def test_expiry_uses_the_given_clock(start):
    seconds = [0.0]
    server = await start(authenticate=with_token(0.2), clock=lambda: seconds[0])
    peer = await server.connect()
    await asyncio.sleep(0.3)
    assert await peer.is_alive()
    seconds[0] = 0.2
    assert await peer.closed() == (4403, "Token expired")

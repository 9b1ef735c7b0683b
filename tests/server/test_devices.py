"""Devices on running servers: their names in connection_init, removed ones, and event streams."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.protocol.peer import Peer
from tests.protocol.serving import PATIENCE
from tests.server.served_app import LIVE, SEND, App, ServeApp
from tests.server.tokens import bearer

DEVICES = "{ devices { id type isCurrent } }"
REMOVE = "mutation ($id: ID!) { removeDevice(deviceId: $id) }"


def token_of(user: str, **claims: Any) -> str:
    return bearer(sub=user, exp=time.time() + 60, **claims)


async def connect(app: App, user: str, claims: dict[str, Any] | None = None, **payload: Any) -> Peer:
    """Open a WebSocket. The answer to connection_init is not read yet."""
    peer = await app.socket()
    authorization = token_of(user, **(claims or {}))
    await peer.send({"type": "connection_init", "payload": {"Authorization": authorization, **payload}})
    return peer


async def answer(peer: Peer, query: str, **variables: Any) -> Any:
    await peer.subscribe("ask", query, variables=variables)
    response = (await peer.receive())["payload"]
    assert (await peer.receive())["type"] == "complete"
    return response["data"]


async def list_named(peer: Peer, *names: str) -> Any:
    """Return the devices once there are these: rows are written behind the acknowledgement."""
    async with asyncio.timeout(PATIENCE):
        while True:
            devices = (await answer(peer, DEVICES))["devices"]
            if {device["id"] for device in devices} == set(names):
                return devices
            await asyncio.sleep(0.02)


BAD = [
    {"deviceId": ""},
    {"deviceId": "x" * 65},
    {"deviceId": "a\nb"},
    {"deviceId": 7},
    {"deviceType": "TABLET"},
    {"deviceType": "web"},
    {"deviceId": "phone", "deviceType": ["WEB"]},
]


async def test_a_malformed_device_closes_the_connection_with_4400(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        for payload in BAD:
            peer = await app.socket()
            # Before the token is looked at.
            await peer.send({"type": "connection_init", "payload": {"Authorization": "Bearer x", **payload}})
            code, reason = await peer.closed()
            field = "deviceType" if "deviceType" in payload else "deviceId"
            assert code == 4400 and reason.startswith(f"{field} must"), payload
        peer = await connect(app, "alice", deviceId="phone")
        assert await peer.receive() == {"type": "connection_ack"}
        await list_named(peer, "phone")


async def test_a_removed_device_gets_its_answer_and_is_closed_with_4401(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        phone = await connect(app, "alice", deviceId="phone", deviceType="MOBILE")
        again = await connect(app, "alice", deviceId="phone", deviceType="MOBILE")
        laptop = await connect(app, "alice", deviceId="laptop")
        other = await connect(app, "bob", deviceId="phone")
        for peer in (phone, again, laptop, other):
            assert await peer.receive() == {"type": "connection_ack"}
        await again.subscribe("live", LIVE)
        assert (await again.receive())["type"] == "next"
        devices = await list_named(phone, "phone", "laptop")
        assert sorted(devices, key=lambda device: device["id"]) == [
            {"id": "laptop", "type": "WEB", "isCurrent": False},
            {"id": "phone", "type": "MOBILE", "isCurrent": True},
        ]
        assert await answer(phone, REMOVE, id="phone") == {"removeDevice": True}
        for peer in (phone, again):
            assert await peer.closed() == (4401, "This device was removed")
        await list_named(laptop, "laptop")
        await list_named(other, "phone")


async def test_a_connection_of_a_service_is_a_device_of_the_user_it_acts_for(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        service = await connect(app, "backend", {"role": "service"}, actAs="alice", deviceId="bridge")
        phone = await connect(app, "alice", deviceId="phone")
        for peer in (service, phone):
            assert await peer.receive() == {"type": "connection_ack"}
        await list_named(phone, "bridge", "phone")
        assert {d["id"]: d["isCurrent"] for d in (await answer(service, DEVICES))["devices"]} == {
            "bridge": True,
            "phone": False,
        }


@pytest.mark.parametrize("payload", [{}, {"deviceId": None, "deviceType": None}])
async def test_a_connection_without_an_id_has_no_row(serve_app: ServeApp, payload: dict[str, Any]) -> None:
    async with serve_app() as app:
        peer, named = await connect(app, "alice", **payload), await connect(app, "alice", deviceId="phone")
        for each in (peer, named):
            assert await each.receive() == {"type": "connection_ack"}
        assert await list_named(peer, "phone") == [{"id": "phone", "type": "WEB", "isCurrent": False}]


async def test_an_event_stream_is_a_nameless_device_while_it_is_open(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        watching = await app.signed_in("bob")
        await app.data(SEND, "alice")
        await watching.subscribe("live", 'subscription { presenceEvents(userIds: ["alice"]) { status } }')
        assert status_in(await watching.receive()) == "OFFLINE"
        headers = {"authorization": token_of("alice"), "accept": "text/event-stream"}
        # A query in a stream is a request like any other.
        async with app.http.stream("POST", "/graphql", json={"query": DEVICES}, headers=headers) as stream:
            await stream.aread()
        assert await watching.nothing_comes()
        async with app.http.stream("POST", "/graphql", json={"query": LIVE}, headers=headers) as stream:
            assert stream.status_code == 200
            assert status_in(await watching.receive()) == "ONLINE"
            assert await app.data(DEVICES, "alice") == {"devices": []}


def status_in(frame: Any) -> str:
    status: str = frame["payload"]["data"]["presenceEvents"]["status"]
    return status

"""The deployment of docker-compose.yml as local processes: clients see one service behind the proxy."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.api.client import cancel_tasks
from tests.conftest import ON_CLUSTER, folder_in_memory
from tests.deployment.local_deployment import PROXY_PATH, Deployment, client, deployed
from tests.protocol.peer import Peer, open_admitted_socket
from tests.waiting import TIMEOUT_SECONDS

pytestmark = [
    pytest.mark.skipif(
        shutil.which("haproxy", path=PROXY_PATH) is None, reason="haproxy is not installed (apt-get install haproxy)"
    ),
    pytest.mark.skipif(ON_CLUSTER, reason="brings a Redis of its own"),
]

LIVE = "subscription { messageEvents { __typename ... on MessageCreated { message { content } } } }"


@pytest.fixture(scope="module")
async def deployment() -> AsyncIterator[Deployment]:
    # pytest's tmp_path would keep 300 MB for three runs.
    folder = Path(tempfile.mkdtemp(prefix="confab-deployment-", dir=folder_in_memory()))
    try:
        async with deployed(folder) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
async def tokens(deployment: Deployment) -> dict[str, str]:
    found = await asyncio.gather(*(asyncio.to_thread(deployment.token, user) for user in ("alice", "bob")))
    return dict(zip(("alice", "bob"), found, strict=True))


@pytest.fixture
async def alice(deployment: Deployment, tokens: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    async with client(deployment, tokens["alice"]) as http, client(deployment, tokens["bob"]) as bob:
        assert (await bob.post("/graphql", json={"query": "{ me { id } }"})).status_code == 200
        yield http


async def send(http: httpx.AsyncClient, content: str) -> httpx.Response:
    query = 'mutation { sendMessage(input: {toUserId: "bob", content: "%s"}) { message { id } } }'
    return await http.post("/graphql", json={"query": query % content})


async def listening(deployment: Deployment, token: str, sockets: AsyncExitStack) -> Peer:
    peer = await sockets.enter_async_context(open_admitted_socket(f"ws://{deployment.address}/graphql"))
    await peer.init({"Authorization": f"Bearer {token}"})
    await peer.subscribe("live", LIVE)
    # Messages that are sent before may not come.
    assert (await peer.receive())["payload"]["data"]["messageEvents"]["__typename"] == "CaughtUp"
    return peer


async def next_message(peer: Peer) -> str:
    """Return the next message event."""
    while True:
        frame = await peer.receive()
        assert frame["type"] == "next", frame
        event = frame["payload"]["data"]["messageEvents"]
        if event["__typename"] == "MessageCreated":
            return str(event["message"]["content"])


async def test_token_made_on_a_server_works_through_the_proxy(alice: httpx.AsyncClient) -> None:
    answer = (await alice.post("/graphql", json={"query": "{ me { id } }"})).json()
    assert answer == {"data": {"me": {"id": "alice"}}}


async def test_only_pages_of_the_proxy_address_may_call(deployment: Deployment, alice: httpx.AsyncClient) -> None:
    query = {"query": "{ me { id } }"}
    assert (await alice.post("/graphql", json=query, headers={"origin": deployment.url})).status_code == 200
    foreign = await alice.post("/graphql", json=query, headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403


async def test_message_reaches_subscribers_on_both_servers(
    deployment: Deployment, alice: httpx.AsyncClient, tokens: dict[str, str]
) -> None:
    async with AsyncExitStack() as sockets, client(deployment, tokens["bob"]) as http:
        # The proxy balances by connection count, so these are on both servers.
        peers = [await listening(deployment, tokens["bob"], sockets) for _ in range(2)]
        stream = await sockets.enter_async_context(
            http.stream("POST", "/graphql", json={"query": LIVE}, headers={"accept": "text/event-stream"})
        )
        lines = stream.aiter_lines()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while "CaughtUp" not in await anext(lines):
                pass
        assert (await send(alice, "to all")).json()["data"]
        assert [await next_message(peer) for peer in peers] == ["to all"] * 2
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while "to all" not in await anext(lines):
                pass


async def test_clients_are_served_while_servers_are_replaced_and_killed(
    deployment: Deployment, alice: httpx.AsyncClient, tokens: dict[str, str]
) -> None:
    statuses: list[int] = []

    async def ask_on() -> None:
        while True:
            statuses.append((await alice.post("/graphql", json={"query": "{ me { id } }"})).status_code)
            await asyncio.sleep(0.02)

    async with AsyncExitStack() as sockets:
        peers = [await listening(deployment, tokens["bob"], sockets) for _ in range(2)]
        asking = asyncio.create_task(ask_on())
        assert await asyncio.to_thread(deployment.stop, "server-1") == 0
        ending = [asyncio.create_task(_until_end(peer)) for peer in peers]
        ended, going_on = await asyncio.wait(ending, timeout=TIMEOUT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in ended] == [1012], "a code with which clients reconnect"
        await cancel_tasks(*going_on)
        (other,) = (peer for peer, task in zip(peers, ending, strict=True) if task in going_on)
        assert await other.is_alive()
        # The client reconnects to the other server.
        again = await listening(deployment, tokens["bob"], sockets)
        await deployment.start("server-1")
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        assert set(statuses) == {200}
        assert len(statuses) > 20
        assert (await send(alice, "on the one that was left")).json()["data"]
        assert await next_message(again) == "on the one that was left"

        deployment.kill("server-2")
        # The proxy may not have checked the other server since its start. It ends the connection of a client whose
        # request was on its way to the killed server.
        for _ in range(200):
            with contextlib.suppress(httpx.RemoteProtocolError):
                if (await send(alice, "first after the kill")).status_code == 200:
                    break
            await asyncio.sleep(0.1)
        for number in range(10):
            assert (await send(alice, f"after {number}")).json()["data"]
        last = await listening(deployment, tokens["bob"], sockets)
        assert (await send(alice, "heard")).json()["data"]
        assert await next_message(last) == "heard"


async def _until_end(peer: Peer) -> int | None:
    """Wait until a connection has ended, and return its close code."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            await peer.socket.recv()
    return peer.socket.close_code

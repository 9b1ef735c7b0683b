"""The chat server that Confab is compared with (bench/baseline) does what the benchmarks need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from pymongo import MongoClient

from bench.baseline import seed
from bench.baseline.app import app
from bench.selections import CREATE_GROUP, MESSAGE_EVENTS, SEND_MESSAGE, SYNC_SESSION
from tests.processes import token
from tests.protocol.peer import Peer, open_socket
from tests.protocol.serving import serving

PAGE = """query ($after: String, $since: Cursor) {
    sessions(first: 2, after: $after) { totalUnread cursor
        pageInfo { hasNextPage endCursor } edges { node { ...Shown } } }
    syncSessions(since: $since, first: 100) { hasMore cursor sessions { ...Shown } } }
    fragment Shown on Session { unreadCount readSeq writeSeq conversation { id title }
        lastMessage { content sender { displayName } } }"""

HISTORY = """query ($id: ID!, $before: String) { messages(conversationId: $id, last: 3, before: $before) {
    pageInfo { hasPreviousPage startCursor } edges { node { seq sender { displayName } } } } }"""

SEND_PRIVATE = """mutation ($to: ID!, $text: String!, $key: String) {
    sendMessage(input: {toUserId: $to, content: $text, idempotencyKey: $key}) {
        message { id seq } session { readSeq unreadCount } replayed } }"""

READ = "mutation ($id: ID!) { markRead(conversationId: $id) { readSeq unreadCount } }"


class RunningBaseline:
    """The baseline, running on an empty database."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False, trust_env=False, timeout=60)

    async def ask(self, user: str, query: str, **variables: object) -> Any:
        answer = await self._http.post(
            "/graphql",
            json={"query": query, "variables": variables},
            headers={"authorization": f"Bearer {user}"},
        )
        assert "errors" not in answer.json(), answer.text
        return answer.json()["data"]

    async def close(self) -> None:
        await self._http.aclose()

    @asynccontextmanager
    async def listening(self, bearer: str, *subscriptions: str) -> AsyncIterator[Peer]:
        """Open a connection whose subscriptions have caught up."""
        async with open_socket(f"ws://127.0.0.1:{self.port}/graphql", proxy=None) as socket:
            peer = Peer(socket)
            await peer.init({"Authorization": f"Bearer {bearer}"})
            for number, query in enumerate(subscriptions):
                await peer.subscribe(str(number), query)
                assert (await next_event(peer))["reset"] is False
            yield peer


async def next_event(peer: Peer) -> Any:
    """Return the value of the next event's one field."""
    frame = await peer.receive()
    assert frame["type"] == "next", frame
    (value,) = frame["payload"]["data"].values()
    return value


@pytest.fixture
async def chat(
    mongo_url: str, mongo_database_name: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningBaseline]:
    monkeypatch.setenv("BASELINE_MONGO_URL", mongo_url)
    monkeypatch.setenv("BASELINE_DATABASE", mongo_database_name)
    monkeypatch.setenv("BASELINE_REDIS_URL", redis_url)
    async with serving(uvicorn.Config(app, lifespan="on", ws="websockets-sansio", log_level="error")) as served:
        chat = RunningBaseline(served.port)
        yield chat
        await chat.close()


async def test_the_baseline_stores_counts_and_delivers_messages(chat: RunningBaseline) -> None:
    async with (
        chat.listening("bob", MESSAGE_EVENTS, SYNC_SESSION) as bob,
        chat.listening(token("alice"), MESSAGE_EVENTS) as alice,
        chat.listening("carol") as carol,
    ):
        sent = (await chat.ask("alice", SEND_PRIVATE, to="bob", text="Hello", key="k"))["sendMessage"]
        again = (await chat.ask("alice", SEND_PRIVATE, to="bob", text="Hello", key="k"))["sendMessage"]
        assert (sent["message"]["seq"], sent["session"]) == (1, {"readSeq": 1, "unreadCount": 0})
        assert again == sent | {"replayed": True}
        for peer in (bob, alice):
            received = (await next_event(peer))["message"]
            assert (received["id"], received["content"], received["sender"]["id"]) == (
                sent["message"]["id"],
                "Hello",
                "alice",
            )
        await chat.ask("bob", SEND_PRIVATE, to="alice", text="Who is there?")
        assert (await next_event(alice))["message"]["seq"] == (await next_event(bob))["message"]["seq"] == 2

        made = {"name": "All", "memberIds": ["bob", "carol"]}
        group = (await chat.ask("alice", CREATE_GROUP, input=made))["createGroup"]
        assert group["memberCount"] == 3
        assert (await next_event(bob))["reason"] == "MEMBERSHIP"
        await carol.subscribe("0", SEND_MESSAGE, variables={"id": group["id"], "text": "In the group"})
        assert (await next_event(carol))["message"]["id"] == (await next_event(bob))["message"]["id"]
        assert await carol.receive() == {"type": "complete", "id": "0"}
        read = (await chat.ask("bob", READ, id=group["id"]))["markRead"]
        assert read == {"readSeq": 1, "unreadCount": 0}
        # The two subscriptions may deliver in any order.
        events = [await next_event(bob), await next_event(bob)]
        assert {event.get("reason", event.get("__typename")) for event in events} == {"READ", "ReceiptAdvanced"}
    found = await chat.ask("alice", PAGE)
    assert found["sessions"]["totalUnread"] == 2
    assert [edge["node"]["conversation"]["title"] for edge in found["sessions"]["edges"]] == ["All", "bob"]
    assert [session["unreadCount"] for session in found["syncSessions"]["sessions"]] == [1, 1]


async def test_pages_of_bulk_inserted_messages_fit_together(
    chat: RunningBaseline, mongo_url: str, mongo_database_name: str
) -> None:
    with MongoClient[dict[str, Any]](mongo_url) as mongo:
        owner = seed.insert_owner(mongo[mongo_database_name], "owner", 5)
        group = seed.insert_group(mongo[mongo_database_name], ["owner", "x", "y"])
        seed.insert_people(mongo[mongo_database_name], ["owner", *owner.peers])
        seed.insert_messages(mongo[mongo_database_name], group, 5)
    names: list[str] = []
    after, more = None, True
    while more:
        page = (await chat.ask("owner", PAGE, after=after))["sessions"]
        names += [edge["node"]["conversation"]["id"] for edge in page["edges"]]
        assert page["totalUnread"] == len(owner.unread)
        after, more = page["pageInfo"]["endCursor"], page["pageInfo"]["hasNextPage"]
    assert names == [group, *reversed(owner.conversations)]
    cursor = (await chat.ask("owner", PAGE))["syncSessions"]["cursor"]
    await chat.ask("x", SEND_MESSAGE, id=group, text="The sixth")
    (changed,) = (await chat.ask("owner", PAGE, since=cursor))["syncSessions"]["sessions"]
    assert (changed["unreadCount"], changed["writeSeq"], changed["readSeq"]) == (1, 6, 5)

    last = (await chat.ask("y", HISTORY, id=group))["messages"]
    first = (await chat.ask("y", HISTORY, id=group, before=last["pageInfo"]["startCursor"]))["messages"]
    assert [edge["node"]["seq"] for edge in first["edges"] + last["edges"]] == [1, 2, 3, 4, 5, 6]
    assert first["edges"][0]["node"]["sender"]["displayName"] == "x"
    assert (last["pageInfo"]["hasPreviousPage"], first["pageInfo"]["hasPreviousPage"]) == (True, False)
    assert await chat.ask("z", HISTORY, id=group) == {"messages": None}

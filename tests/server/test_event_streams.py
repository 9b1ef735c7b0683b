"""Single connection mode of npm graphql-sse: one event stream for many operations, on two servers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from server.app import create_app
from server.settings import load_settings
from store.deployment.event_streams import MAX_QUEUED_OPERATIONS, EventStreamStore, QueueOutcome
from subscriptions.realtime.server_calls import ServerCalls
from tests.conftest import own_database, own_prefix
from tests.server.sse_peer import SSEPeer
from tests.server.stream_server import SEND, Server, authorization, client_of, events_of
from tests.server.tokens import SECRET
from tests.waiting import TIMEOUT_SECONDS

EVENTS = """subscription ($since: Cursor) { messageEvents(since: $since) { __typename
    ... on MessageCreated { cursor message { content } } ... on CaughtUp { cursor reset } } }"""
PRESENCE = "subscription ($users: [ID!]!) { presenceEvents(userIds: $users) { user { id } status } }"
SESSIONS = "subscription { syncSession { reason } }"
ME = "{ me { id } }"
MAX_WAITING = 24
"""Operations of a user that may wait on the servers of these tests."""


@pytest.fixture(scope="module")
async def servers(
    mongo_url: str, redis_url: str, _mongo_janitor: Any, _redis_janitor: Any
) -> AsyncIterator[tuple[Server, Server]]:
    """Two servers of one deployment."""
    with own_database(_mongo_janitor) as database, own_prefix(_redis_janitor) as prefix:
        settings = load_settings(
            mongo_url=mongo_url,
            redis_url=redis_url,
            mongo_database=database,
            redis_prefix=prefix,
            jwt_secret=SECRET,
            ws_max_subscriptions=MAX_QUEUED_OPERATIONS,
            sse_max_waiting_operations_per_user=MAX_WAITING,
        )
        one, two = create_app(settings), create_app(settings)
        async with one.router.lifespan_context(one), two.router.lifespan_context(two):
            made = [Server(app, client_of(app)) for app in (one, two)]
            yield made[0], made[1]
            for server in made:
                await server.client.aclose()


@pytest.fixture
async def here(servers: tuple[Server, Server]) -> AsyncIterator[Server]:
    """Server that opens streams. Open streams end with the test."""
    yield servers[0]
    for server in servers:
        for peer in server.peers:
            peer.leave()
            await peer.ended()
        server.peers.clear()


@pytest.fixture
def there(servers: tuple[Server, Server]) -> Server:
    """Server that gets all other requests."""
    return servers[1]


@pytest.fixture
async def people(there: Server) -> tuple[str, str]:
    mark = secrets.token_hex(4)
    alice, bob = f"alice-{mark}", f"bob-{mark}"
    for user in (alice, bob):
        assert (await there.ask("POST", user, json={"query": ME})).status_code == 200
    return alice, bob


def code(response: httpx.Response) -> tuple[int, str]:
    (error,) = response.json()["errors"]
    return response.status_code, error["extensions"]["code"]


async def test_operations_share_a_stream_across_servers(here: Server, there: Server, people: tuple[str, str]) -> None:
    alice, bob = people
    stream = await there.reserve(alice)
    peer = await here.open(alice, stream)
    assert peer.body == b":\n\n"
    await here.begin(alice, stream, "live", EVENTS)
    await there.begin(alice, stream, "other", EVENTS)
    await there.begin(alice, stream, "me", ME)
    await there.begin(alice, stream, "send", SEND, input={"toUserId": bob, "content": "hello"})
    await peer.until(
        lambda: len(events_of(peer, "live")) == len(events_of(peer, "other")) == len(events_of(peer, "send")) == 2
    )
    assert events_of(peer, "me") == [{"me": {"id": alice}}, None]
    assert events_of(peer, "send") == [{"sendMessage": {"message": {"content": "hello"}}}, None]
    for id in ("live", "other"):
        assert [each["messageEvents"]["__typename"] for each in events_of(peer, id)] == ["CaughtUp", "MessageCreated"]
    assert (await there.stop(alice, stream, "live")).status_code == 200
    await there.send(bob, alice, "again")
    await peer.until(lambda: len(events_of(peer, "other")) >= 3)
    assert len(events_of(peer, "live")) == 2, "it was stopped without an event"
    await there.begin(alice, stream, "live", ME)
    peer.leave()
    await peer.ended()
    assert code(await there.perform(alice, stream, "late", ME)) == (404, "NOT_FOUND")


async def test_an_open_stream_is_seen_by_others_on_their_streams(
    here: Server, there: Server, people: tuple[str, str]
) -> None:
    alice, bob = people
    await there.send(alice, bob, "hello")
    stream = await there.reserve(bob)
    peer = await here.open(bob, stream)
    await here.begin(bob, stream, "presence", PRESENCE, users=[alice])
    await peer.until(lambda: len(events_of(peer, "presence")) == 1)
    await there.open(alice, await here.reserve(alice))
    await peer.until(lambda: len(events_of(peer, "presence")) == 2)
    assert [event["presenceEvents"] for event in events_of(peer, "presence")] == [
        {"user": {"id": alice}, "status": status} for status in ("OFFLINE", "ONLINE")
    ]


async def test_client_that_resumes_on_another_stream_misses_nothing(
    here: Server, there: Server, people: tuple[str, str]
) -> None:
    alice, bob = people
    stream = await here.reserve(alice)
    peer = await here.open(alice, stream)
    await there.begin(alice, stream, "live", EVENTS)
    await there.send(bob, alice, "seen")
    await peer.until(lambda: len(events_of(peer, "live")) == 2)
    since = events_of(peer, "live")[-1]["messageEvents"]["cursor"]
    peer.leave()
    await there.send(bob, alice, "missed")
    again = await here.reserve(alice)
    back = await there.open(alice, again)
    await here.begin(alice, again, "live", EVENTS, since=since)
    await there.send(bob, alice, "live")
    await back.until(lambda: len(events_of(back, "live")) == 3)
    events = [each["messageEvents"] for each in events_of(back, "live")]
    assert [each.get("message", each) for each in events][::2] == [{"content": "missed"}, {"content": "live"}]
    assert (events[1]["__typename"], events[1]["reset"]) == ("CaughtUp", False)


async def test_stream_does_not_exist_for_other_users(here: Server, there: Server, people: tuple[str, str]) -> None:
    alice, mallory = people
    reserved, stream = await there.reserve(alice), await there.reserve(alice)
    peer = await here.open(alice, stream)
    await here.begin(alice, stream, "live", EVENTS)
    send = {"toUserId": alice, "content": "by mallory"}
    for token in (reserved, stream, "no-such-stream"):
        for server in (here, there):
            opening = SSEPeer(server.app, parameters={"token": token}, authorization=authorization(mallory))
            await opening.ended()
            assert opening.status == 404
            assert code(await server.perform(mallory, token, "x", SEND, input=send)) == (404, "NOT_FOUND")
            assert code(await server.stop(mallory, token, "live")) == (404, "NOT_FOUND")
            for method in ("GET", "POST", "DELETE"):
                answer = await server.ask(method, None, token, params={"operationId": "live", "query": ME})
                assert code(answer) == (401, "UNAUTHENTICATED")
    assert code(await here.ask("PUT", None)) == (401, "UNAUTHENTICATED")
    await there.send(mallory, alice, "the first")
    await peer.until(lambda: len(events_of(peer, "live")) == 2)
    assert events_of(peer, "live")[-1]["messageEvents"]["message"] == {"content": "the first"}
    assert {data["id"] for _, data in peer.events} == {"live"}
    assert (await there.open(alice, reserved)).body == b":\n\n"


async def test_stream_can_be_opened_only_once(here: Server, there: Server, people: tuple[str, str]) -> None:
    alice, _ = people
    stream = await here.reserve(alice)
    peer = await here.open(alice, stream)
    for server in (here, there):
        second = SSEPeer(server.app, parameters={"token": stream}, authorization=authorization(alice))
        await second.ended()
        assert second.status == 409
    await there.begin(alice, stream, "me", ME)
    await peer.until(lambda: events_of(peer, "me") == [{"me": {"id": alice}}, None])
    peer.leave()
    await peer.ended()
    status = 409
    async with asyncio.timeout(TIMEOUT_SECONDS):
        # The server forgets the stream a moment later.
        while status == 409:
            third = SSEPeer(here.app, parameters={"token": stream}, authorization=authorization(alice))
            await third.ended()
            status = third.status
    assert status == 404


Refuse = Callable[[Server, str, str], Awaitable[httpx.Response]]


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        (lambda server, who, stream: server.perform(who, stream, None, ME), (400, "INVALID_INPUT")),
        (lambda server, who, stream: server.perform(who, stream, "", ME), (400, "INVALID_INPUT")),
        (lambda server, who, stream: server.perform(who, stream, 7, ME), (400, "INVALID_INPUT")),
        (lambda server, who, stream: server.perform(who, stream, "x" * 257, ME), (400, "INVALID_INPUT")),
        (lambda server, who, stream: server.perform(who, stream, "x", "{ nonsense }"), (400, "INVALID_INPUT")),
        (lambda server, who, stream: server.perform(who, stream, "live", ME), (409, "INVALID_INPUT")),
        (lambda server, who, stream: server.ask("DELETE", who, stream), (400, "INVALID_INPUT")),
        (lambda server, who, _: server.ask("DELETE", who), (404, "NOT_FOUND")),
        (
            lambda server, who, stream: server.ask(
                "GET", who, stream, params={"query": "mutation { __typename }", "extensions": '{"operationId":"x"}'}
            ),
            (405, "INVALID_INPUT"),
        ),
    ],
    ids=["no id", "empty", "number", "long", "bad document", "in use", "stop what", "stop where", "GET mutation"],
)
async def test_invalid_stream_requests_change_nothing(
    here: Server, there: Server, people: tuple[str, str], refused: Refuse, expected: tuple[int, str]
) -> None:
    alice, bob = people
    stream = await here.reserve(alice)
    peer = await here.open(alice, stream)
    await there.begin(alice, stream, "live", EVENTS)
    for server in (here, there):
        assert code(await refused(server, alice, stream)) == expected
    await there.send(bob, alice, "hello")
    await peer.until(lambda: len(events_of(peer, "live")) == 2)
    assert {data["id"] for _, data in peer.events} == {"live"}


async def test_failure_after_the_start_is_reported_on_the_stream(
    here: Server, there: Server, people: tuple[str, str]
) -> None:
    alice, _ = people
    stream = await here.reserve(alice)
    peer = await here.open(alice, stream)
    await there.begin(alice, stream, "nowhere", 'subscription { messageEvents(conversationId: "g_9") { __typename } }')
    await there.begin(alice, stream, "variables", SEND)
    await peer.until(lambda: len(events_of(peer, "nowhere")) == len(events_of(peer, "variables")) == 2)
    assert events_of(peer, "nowhere")[0][0]["extensions"]["code"] == "NOT_FOUND"
    assert events_of(peer, "variables")[0][0]["extensions"]["code"] == "INVALID_INPUT"
    assert events_of(peer, "nowhere")[1] is events_of(peer, "variables")[1] is None


async def test_operations_per_stream_are_limited(here: Server, there: Server, people: tuple[str, str]) -> None:
    alice, _ = people
    stream = await here.reserve(alice)
    await here.open(alice, stream)
    for number in range(MAX_QUEUED_OPERATIONS):
        await here.begin(alice, stream, str(number), SESSIONS)
    for server in (here, there):
        assert code(await server.perform(alice, stream, "more", SESSIONS)) == (429, "RATE_LIMITED")
    assert (await there.stop(alice, stream, "0")).status_code == 200
    await there.begin(alice, stream, "more", SESSIONS)


async def test_queued_operations_start_when_the_stream_is_opened(
    here: Server, there: Server, people: tuple[str, str]
) -> None:
    alice, bob = people
    stream = await here.reserve(alice)
    await there.begin(alice, stream, "live", EVENTS)
    await here.begin(alice, stream, "me", ME)
    await here.begin(alice, stream, "bad", SEND)
    await there.begin(alice, stream, "withdrawn", SEND, input={"toUserId": bob, "content": "never"})
    assert code(await there.perform(alice, stream, "me", ME)) == (409, "INVALID_INPUT")
    assert (await there.stop(alice, stream, "withdrawn")).status_code == 200
    for number in range(MAX_QUEUED_OPERATIONS - 3):
        await there.begin(alice, stream, str(number), ME)
    assert code(await there.perform(alice, stream, "more", ME)) == (429, "RATE_LIMITED")
    peer = await here.open(alice, stream)
    await peer.until(
        lambda: events_of(peer, "live") and all(events_of(peer, id)[-1:] == [None] for id in ("me", "bad", "0"))
    )
    await there.send(bob, alice, "hello")
    await peer.until(lambda: len(events_of(peer, "live")) == 2)
    assert events_of(peer, "me") == [{"me": {"id": alice}}, None]
    assert events_of(peer, "bad")[0][0]["extensions"]["code"] == "INVALID_INPUT"
    assert events_of(peer, "live")[1]["messageEvents"]["message"] == {"content": "hello"}
    assert not {"withdrawn", "more"} & {data["id"] for _, data in peer.events}


async def test_operations_of_a_user_that_wait_for_all_their_streams_are_limited(
    here: Server, there: Server, people: tuple[str, str]
) -> None:
    alice, bob = people
    streams = [await here.reserve(alice) for _ in range(3)]
    for stream in streams[:2]:
        for number in range(MAX_WAITING // 2):
            await there.begin(alice, stream, str(number), ME)
    refused = await there.perform(alice, streams[2], "more", ME)
    assert code(refused) == (429, "RATE_LIMITED")
    assert (refused.headers["retry-after"], refused.json()["errors"][0]["extensions"]["retryAfterMs"]) == ("1", 1_000)
    # Other users are not affected. A stream that is opened makes room, and runs what waits for it.
    await there.begin(bob, await here.reserve(bob), "me", ME)
    assert (await there.stop(alice, streams[0], "0")).status_code == 200
    await there.begin(alice, streams[2], "first", ME)
    assert code(await there.perform(alice, streams[2], "more", ME)) == (429, "RATE_LIMITED")
    peer = await there.open(alice, streams[1])
    await peer.until(lambda: events_of(peer, "0")[-1:] == [None])
    await there.begin(alice, streams[2], "more", ME)
    last = await here.open(alice, streams[2])
    await last.until(lambda: all(events_of(last, id)[-1:] == [None] for id in ("first", "more")))
    assert {data["id"] for _, data in last.events} == {"first", "more"}


async def test_operation_during_opening_starts_exactly_once(
    here: Server, there: Server, people: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = people
    stream = await here.reserve(alice)
    peers: list[SSEPeer] = []
    wait = EventStreamStore.enqueue

    async def overtaken(store: EventStreamStore, *about: Any) -> QueueOutcome:
        peers.append(await here.open(alice, stream))
        return await wait(store, *about)

    monkeypatch.setattr(EventStreamStore, "enqueue", overtaken)
    await there.begin(alice, stream, "send", SEND, input={"toUserId": bob, "content": "once"})
    (peer,) = peers
    await peer.until(lambda: len(events_of(peer, "send")) == 2)
    await there.begin(alice, stream, "me", ME)
    await peer.until(lambda: len(events_of(peer, "me")) == 2)
    assert len(events_of(peer, "send")) == 2


async def test_requests_during_opening_wait_for_queued_operations(
    here: Server, there: Server, people: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, _ = people
    stream = await here.reserve(alice)
    for id in ("live", "stopped", "stopped late"):
        await there.begin(alice, stream, id, SESSIONS)
    asked: list[asyncio.Task[httpx.Response]] = []
    take_over, withdraw = EventStreamStore.open, EventStreamStore.withdraw

    async def overtaken(store: EventStreamStore, *about: Any) -> Any:
        asked.append(asyncio.create_task(here.perform(alice, stream, "live", ME)))
        asked.append(asyncio.create_task(here.stop(alice, stream, "stopped")))
        await asyncio.sleep(0.02)
        return await take_over(store, *about)

    async def too_late(store: EventStreamStore, *about: Any) -> bool:
        await here.open(alice, stream)
        return await withdraw(store, *about)

    monkeypatch.setattr(EventStreamStore, "open", overtaken)
    monkeypatch.setattr(EventStreamStore, "withdraw", too_late)
    assert (await there.stop(alice, stream, "stopped late")).status_code == 200
    assert [(await answer).status_code for answer in asked] == [409, 200]
    (peer,) = here.peers
    await peer.until(lambda: events_of(peer, "live"))
    assert events_of(peer, "live") == [{"syncSession": {"reason": "CATCH_UP"}}]
    for id in ("stopped", "stopped late"):
        await there.begin(alice, stream, id, ME)


async def test_long_numbers_are_forwarded_exactly(here: Server, there: Server, people: tuple[str, str]) -> None:
    alice, _ = people
    stream = await here.reserve(alice)
    peer = await here.open(alice, stream)
    await there.begin(alice, stream, "long", "query ($n: Int) { sessions(first: $n) { totalUnread } }", n=2**80)
    await peer.until(lambda: events_of(peer, "long"))
    assert str(2**80) in events_of(peer, "long")[0][0]["message"]


async def test_clients_retry_if_the_server_of_a_stream_is_gone(
    there: Server, people: tuple[str, str], _redis_janitor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, _ = people
    # In production, the caller waits 5 s for a server that does not answer.
    monkeypatch.setitem(ServerCalls.ask.__kwdefaults__, "timeout_seconds", 600.0)
    stream = await there.reserve(alice)
    (key,) = _redis_janitor.scan_iter(match=f"*{{s:{stream}}}:user")
    _redis_janitor.set(key.decode().removesuffix("user") + "server", "nobody")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert code(await there.perform(alice, stream, "x", ME)) == (503, "UNAVAILABLE")
        assert code(await there.stop(alice, stream, "x")) == (503, "UNAVAILABLE")

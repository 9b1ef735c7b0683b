"""The session list, single sessions, and their nodes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from store.base.ids import UserId
from store.mongo.collections import SESSIONS as SESSION_ROWS
from store.sessions.loading.state_loader import StateLoader
from tests.api.client import LIVE_SESSIONS, SYNC, TIMEOUT_SECONDS, Api, Json, cancel_tasks, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import SESSION, SESSIONS


def comparable(sessions: list[Json]) -> list[Json]:
    """Return sessions without `activeTs`, which the loss of a cache may change."""
    return [{name: value for name, value in session.items() if name != "activeTs"} for session in sessions]


async def test_a_new_user_has_no_sessions(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    listed = (await api.data(alice, SESSIONS))["sessions"]
    assert listed["edges"] == []
    assert listed["totalUnread"] == 0
    assert listed["pageInfo"] == {
        "hasNextPage": False,
        "hasPreviousPage": False,
        "startCursor": None,
        "endCursor": None,
    }
    assert await api.data(alice, "{ totalUnread }") == {"totalUnread": 0}
    delta = (await api.data(alice, SYNC))["syncSessions"]
    assert (delta["sessions"], delta["hasMore"], delta["reset"], delta["totalUnread"]) == ([], False, False, 0)


async def test_the_list_is_ordered_by_the_last_write(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    for other in (bob, carol, dave):
        await api.send(alice, other)
    assert await api.titles(alice) == [dave, carol, bob]
    await api.send(bob, alice)
    assert await api.titles(alice) == [bob, dave, carol]
    group = await api.create_group(carol, alice, dave, name="The group")
    assert await api.titles(alice) == ["The group", bob, dave, carol]
    await api.send(alice, carol)
    assert await api.titles(alice) == [carol, "The group", bob, dave]
    await api.send(dave, group)
    assert await api.titles(alice) == ["The group", carol, bob, dave]


async def test_reading_and_system_messages_do_not_change_the_order(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, name="The group")
    await api.send(bob, alice)
    await api.send(carol, alice)
    before = await api.sessions(alice)
    await api.mark_read(alice, private_id(alice, bob))
    await api.invite(bob, group, dave)
    assert await api.titles(alice) == [carol, bob, "The group"]
    write_times = {session["id"]: session["writeTs"] for session in before}
    assert {session["id"]: session["writeTs"] for session in await api.sessions(alice)} == write_times


@pytest.mark.parametrize("page", [1, 3, 8])
async def test_pages_of_any_size_make_up_the_list(api: Api, eight_sessions: tuple[str, list[str]], page: int) -> None:
    alice, expected = eight_sessions
    assert await api.titles(alice, page) == expected


@pytest.fixture(scope="module")
async def eight_sessions(process: Api) -> tuple[str, list[str]]:
    """A user with eight sessions, and their titles in order. The last five were written concurrently."""
    alice, *others = await process.create_users("alice", *(f"u{number}" for number in range(8)))
    for other in others[:3]:
        await process.send(other, alice)
    await gather_all(*(process.send(other, alice) for other in others[3:]))
    return alice, await process.titles(alice)


async def test_page_info_describes_neighbouring_pages(api: Api, eight_sessions: tuple[str, list[str]]) -> None:
    alice, expected = eight_sessions
    first = (await api.data(alice, SESSIONS, first=5))["sessions"]
    cursors = [edge["cursor"] for edge in first["edges"]]
    assert first["pageInfo"] == {
        "hasNextPage": True,
        "hasPreviousPage": False,
        "startCursor": cursors[0],
        "endCursor": cursors[4],
    }
    rest = (await api.data(alice, SESSIONS, first=5, after=cursors[4]))["sessions"]
    assert (rest["pageInfo"]["hasNextPage"], rest["pageInfo"]["hasPreviousPage"]) == (False, True)
    assert [edge["node"]["conversation"]["title"] for edge in rest["edges"]] == expected[5:]
    exact = (await api.data(alice, SESSIONS, first=8))["sessions"]
    assert exact["pageInfo"]["hasNextPage"] is False
    beyond = (await api.data(alice, SESSIONS, first=5, after=exact["pageInfo"]["endCursor"]))["sessions"]
    assert (beyond["edges"], beyond["pageInfo"]["hasNextPage"]) == ([], False)


async def test_the_next_page_skips_sessions_that_moved_to_the_top(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    for other in others:
        await api.send(other, alice)
    page = (await api.data(alice, SESSIONS, first=3))["sessions"]
    listed = [edge["node"]["conversation"]["title"] for edge in page["edges"]]
    assert listed == others[:2:-1]
    # A session on the first page moves, one not listed yet moves, and a new one appears.
    (newcomer,) = await api.create_users("newcomer")
    for other in (others[4], others[1], newcomer):
        await api.send(other, alice)
    rest = (await api.data(alice, SESSIONS, first=3, after=page["pageInfo"]["endCursor"]))["sessions"]
    assert [edge["node"]["conversation"]["title"] for edge in rest["edges"]] == [others[2], others[0]]
    delta = (await api.data(alice, SYNC, since=page["cursor"]))["syncSessions"]
    moved = [session["conversation"]["title"] for session in delta["sessions"]]
    assert moved == [others[4], others[1], newcomer]
    assert delta["totalUnread"] == rest["totalUnread"] == 9


async def test_a_session_is_the_same_in_every_query(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(bob, alice)
    await api.send(carol, group)
    for conversation in (group, private_id(alice, bob)):
        expected = await api.session(alice, conversation)
        assert expected is not None
        assert expected["id"] == f"s_{alice}_{conversation}"
        query = f"""query ($session: ID!, $conversation: ID!) {{
            node(id: $session) {{ __typename ... on Session {{ {SESSION} }} }}
            conversation(id: $conversation) {{ session {{ {SESSION} }} }} }}"""
        data = await api.data(alice, query, session=expected["id"], conversation=conversation)
        assert data["node"] == expected | {"__typename": "Session"}
        assert data["conversation"]["session"] == expected
        assert expected in await api.sessions(alice)
        assert expected in (await api.data(alice, SYNC))["syncSessions"]["sessions"]


async def test_an_empty_group_is_listed_but_an_empty_conversation_is_not(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol, name="Silent")
    await api.expect_send_refusal(alice, bob, "")
    (session,) = await api.sessions(bob)
    assert session["lastMessage"] is None
    assert (session["writeSeq"], session["readSeq"], session["unreadCount"], session["status"]) == (0, 0, 0, "ACTIVE")
    assert await api.session(alice, private_id(alice, bob)) is None


async def test_fields_without_a_value_are_null(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, bob)
    for conversation, peer in ((group, None), (private_id(alice, bob), 0)):
        session = await api.session(alice, conversation)
        assert session is not None
        assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == (peer, peer)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadStatus"]) == (False, None, False)
        assert (session["priority"], session["categoryId"]) == (0, None)


async def test_the_loss_of_redis_changes_nothing_that_a_client_shows(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("lost") as api:
        alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
        group = await api.create_group(alice, bob, carol)
        for user in (alice, bob):
            await api.sessions(user)
        for number in range(3):
            await api.send(bob, group, f"{number}")
            await api.send(carol, alice, f"{number}")
            await api.send(alice, dave, f"{number}")
        await gather_all(*(api.send(bob, to) for to in (group, alice, carol, dave)))
        await api.mark_read(alice, group, 2)
        await api.mark_read(dave, private_id(alice, dave))
        await api.invite(carol, group, dave)
        await api.wait_until_idle()
        users = (alice, bob, carol, dave)
        before = [(await api.sessions(user), await api.total_unread(user)) for user in users]
        deployments.flush_redis("lost")
        after = [(await api.sessions(user), await api.total_unread(user)) for user in users]
        for (sessions, total), (sessions_after, total_after) in zip(before, after, strict=True):
            assert comparable(sessions_after) == comparable(sessions)
            assert total_after == total


async def test_the_loss_of_redis_moves_no_clock_back(open_api: OpenApi, deployments: Deployments) -> None:
    async with open_api("lost") as api:
        alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(8)))
        await api.sessions(alice)
        for _ in range(3):
            await gather_all(*(api.send(other, alice) for other in others))
        await gather_all(*(api.send(alice, other) for other in others))
        await gather_all(*(api.mark_read(other, private_id(alice, other)) for other in others))
        await api.wait_until_idle()
        before = {session["id"]: session["activeTs"] for session in await api.sessions(alice)}
        deployments.flush_redis("lost")
        after = {session["id"]: session["activeTs"] for session in await api.sessions(alice)}
        assert {name for name, time in after.items() if time < before[name]} == set()


class DelayedReads:
    """Delays MongoDB's answers to reads of session rows until `answer` is called."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = api.services.app.store
        self._find, self._join = self._store.mongo.find, StateLoader._join
        self._may_answer = asyncio.Event()
        self.begun = asyncio.Event()
        self.reads = 0
        self.loads = 0
        monkeypatch.setattr(self._store.mongo, "find", self._delayed_find)
        monkeypatch.setattr(StateLoader, "_join", lambda loader, user: self._counting_join(loader, user))

    async def _delayed_find(self, collection: str, *query: Any, **options: Any) -> Any:
        if collection == SESSION_ROWS and not self._may_answer.is_set():
            # The query for a mute in a channel asks for one row.
            self.reads += options.get("limit") != 1
            self.begun.set()
            await self._may_answer.wait()
        return await self._find(collection, *query, **options)

    def _counting_join(self, loader: StateLoader, user: UserId) -> Any:
        self.loads += 1
        return self._join(loader, user)

    def answer(self) -> None:
        """Answer all reads, also those that wait."""
        self._may_answer.set()


# When an operation is cancelled, graphql-core leaves coroutines that it had not awaited yet.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize(
    ("cancelled_call", "order"),
    [
        ("list", "first"),
        ("synchronise", "second"),
        ("mark read", "first"),
        ("subscribe", "second"),
        *(
            pytest.param(call, order, marks=pytest.mark.long)
            for call, order in (
                ("list", "second"),
                ("synchronise", "first"),
                ("mark read", "second"),
                ("subscribe", "first"),
            )
        ),
    ],
)
async def test_a_client_cancelled_while_its_state_is_read_blocks_no_other(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, cancelled_call: str, order: str
) -> None:
    async with open_api("lost") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        await api.send(bob, group)
        before = await api.sessions(alice)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        reads = DelayedReads(api, monkeypatch)
        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "list": lambda: api.sessions(alice),
            "synchronise": lambda: api.data(alice, SYNC),
            "mark read": lambda: api.mark_read(alice, group),
            "subscribe": lambda: api.subscribe(alice, LIVE_SESSIONS),
        }
        order_of_calls = [calls[cancelled_call], calls["list"]]
        tasks = []
        for count, call in enumerate(order_of_calls if order == "first" else reversed(order_of_calls), start=1):
            tasks.append(asyncio.create_task(call()))
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await reads.begun.wait()
                while reads.loads < count:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        cancelled, remaining = tasks if order == "first" else reversed(tasks)
        await cancel_tasks(cancelled)
        gc.collect()
        assert not remaining.done()
        reads.answer()
        await asyncio.wait({remaining}, timeout=TIMEOUT_SECONDS)
        assert remaining.done() and not remaining.cancelled()
        assert comparable(remaining.result()) == comparable(before)
        assert reads.reads == 1


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
async def test_a_client_cancelled_while_holding_the_lock_blocks_no_other(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("lost") as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(bob, alice)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        reads = DelayedReads(api, monkeypatch)
        cancelled = asyncio.create_task(api.mark_read(alice, private_id(alice, bob)))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await reads.begun.wait()
        await cancel_tasks(cancelled)
        reads.answer()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert (await api.mark_read(alice, private_id(alice, bob)))["unreadCount"] == 0

"""The session list, one session, and the nodes of both."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from store.base.ids import UserId
from store.mongo.collections import SESSIONS as SESSION_ROWS
from tests.api.client import LIVE_SESSIONS, SYNC, TIMEOUT_SECONDS, Api, Json, cancel_tasks, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import SESSION, SESSIONS


async def titles(api: Api, user: str, page: int = 100) -> list[str]:
    return [session["conversation"]["title"] for session in await api.sessions(user, page)]


def comparable(sessions: list[Json]) -> list[Json]:
    """Sessions without their place on the user's clock, which a lost cache may move."""
    return [{name: value for name, value in session.items() if name != "activeTs"} for session in sessions]


async def test_somebody_new_has_no_sessions(api: Api) -> None:
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


async def test_the_list_shows_what_was_written_to_last_first(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    for other in (bob, carol, dave):
        await api.send(alice, other)
    assert await titles(api, alice) == [dave, carol, bob]
    await api.send(bob, alice)
    assert await titles(api, alice) == [bob, dave, carol]
    group = await api.create_group(carol, alice, dave, name="The group")
    assert await titles(api, alice) == ["The group", bob, dave, carol]
    await api.send(alice, carol)
    assert await titles(api, alice) == [carol, "The group", bob, dave]
    await api.send(dave, group)
    assert await titles(api, alice) == ["The group", carol, bob, dave]


async def test_reading_and_system_messages_leave_the_order_alone(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, name="The group")
    await api.send(bob, alice)
    await api.send(carol, alice)
    before = await api.sessions(alice)
    await api.mark_read(alice, private_id(alice, bob))
    await api.invite(bob, group, dave)
    assert await titles(api, alice) == [carol, bob, "The group"]
    write_times = {session["id"]: session["writeTs"] for session in before}
    assert {session["id"]: session["writeTs"] for session in await api.sessions(alice)} == write_times


@pytest.mark.parametrize("page", [1, 3, 8])
async def test_pages_of_any_size_make_up_the_list(api: Api, eight: tuple[str, list[str]], page: int) -> None:
    alice, expected = eight
    assert await titles(api, alice, page) == expected


@pytest.fixture(scope="module")
async def eight(process: Api) -> tuple[str, list[str]]:
    """Somebody with eight sessions, and their titles in order. The last five moved in the same moment."""
    alice, *others = await process.create_users("alice", *(f"u{number}" for number in range(8)))
    for other in others[:3]:
        await process.send(other, alice)
    await gather_all(*(process.send(other, alice) for other in others[3:]))
    return alice, await titles(process, alice)


async def test_pages_say_what_is_before_and_after_them(api: Api, eight: tuple[str, list[str]]) -> None:
    alice, expected = eight
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


async def test_a_page_is_followed_by_what_it_was_followed_by_though_others_moved_up(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    for other in others:
        await api.send(other, alice)
    page = (await api.data(alice, SESSIONS, first=3))["sessions"]
    shown = [edge["node"]["conversation"]["title"] for edge in page["edges"]]
    assert shown == others[:2:-1]
    # One that is shown already moves, one that isn't yet, and one appears.
    (newcomer,) = await api.create_users("newcomer")
    for other in (others[4], others[1], newcomer):
        await api.send(other, alice)
    rest = (await api.data(alice, SESSIONS, first=3, after=page["pageInfo"]["endCursor"]))["sessions"]
    assert [edge["node"]["conversation"]["title"] for edge in rest["edges"]] == [others[2], others[0]]
    delta = (await api.data(alice, SYNC, since=page["cursor"]))["syncSessions"]
    moved = [session["conversation"]["title"] for session in delta["sessions"]]
    assert moved == [others[4], others[1], newcomer]
    assert delta["totalUnread"] == rest["totalUnread"] == 9


async def test_one_session_is_the_same_wherever_it_is_asked_for(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(bob, alice)
    await api.send(carol, group)
    for conversation in (group, private_id(alice, bob)):
        one = await api.session(alice, conversation)
        assert one is not None
        assert one["id"] == f"s_{alice}_{conversation}"
        query = f"""query ($session: ID!, $conversation: ID!) {{
            node(id: $session) {{ __typename ... on Session {{ {SESSION} }} }}
            conversation(id: $conversation) {{ session {{ {SESSION} }} }} }}"""
        data = await api.data(alice, query, session=one["id"], conversation=conversation)
        assert data["node"] == one | {"__typename": "Session"}
        assert data["conversation"]["session"] == one
        assert one in await api.sessions(alice)
        assert one in (await api.data(alice, SYNC))["syncSessions"]["sessions"]


async def test_a_group_nobody_wrote_in_is_listed_and_a_conversation_nobody_wrote_in_is_not(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol, name="Silent")
    await api.expect_send_refusal(alice, bob, "")
    (session,) = await api.sessions(bob)
    assert session["lastMessage"] is None
    assert (session["writeSeq"], session["readSeq"], session["unreadCount"], session["status"]) == (0, 0, 0, "ACTIVE")
    assert await api.session(alice, private_id(alice, bob)) is None


async def test_what_a_session_does_not_have_is_null(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, bob)
    for conversation, peer in ((group, None), (private_id(alice, bob), 0)):
        session = await api.session(alice, conversation)
        assert session is not None
        assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == (peer, peer)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadStatus"]) == (False, None, False)
        assert (session["priority"], session["categoryId"]) == (0, None)


async def test_losing_redis_changes_nothing_that_a_client_shows(open_api: OpenApi, deployments: Deployments) -> None:
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
        people = (alice, bob, carol, dave)
        before = [(await api.sessions(user), await api.total_unread(user)) for user in people]
        deployments.flush_redis("lost")
        after = [(await api.sessions(user), await api.total_unread(user)) for user in people]
        for (sessions, total), (again, total_again) in zip(before, after, strict=True):
            assert comparable(again) == comparable(sessions)
            assert total_again == total


async def test_losing_redis_moves_nobodys_clock_back(open_api: OpenApi, deployments: Deployments) -> None:
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
        assert {name for name, at in after.items() if at < before[name]} == set()


class SlowReads:
    """MongoDB that does not answer reads of sessions until it is told to."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = api.services.app.store
        self._find, self._load = self._store.mongo.find, self._store.sessions.load
        self._go_on = asyncio.Event()
        self.begun = asyncio.Event()
        self.reads = 0
        self.waiting = 0
        monkeypatch.setattr(self._store.mongo, "find", self._slow_find)
        monkeypatch.setattr(self._store.sessions, "load", self._counted_load)

    async def _slow_find(self, collection: str, *query: Any, **options: Any) -> Any:
        if collection == SESSION_ROWS and not self._go_on.is_set():
            self.reads += 1
            self.begun.set()
            await self._go_on.wait()
        return await self._find(collection, *query, **options)

    async def _counted_load(self, user: UserId) -> None:
        self.waiting += 1
        await self._load(user)

    def answer(self) -> None:
        """From now on all reads are answered, those that wait too."""
        self._go_on.set()


# What graphql-core had not awaited yet is never awaited where an operation is cancelled.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("who", ["lists", "synchronises", "marks read", "subscribes"])
@pytest.mark.parametrize("order", ["first", "second"])
async def test_a_client_that_gives_up_while_its_state_is_read_leaves_the_others_their_answer(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, who: str, order: str
) -> None:
    async with open_api("lost") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        await api.send(bob, group)
        before = await api.sessions(alice)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        slow = SlowReads(api, monkeypatch)
        asking: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "lists": lambda: api.sessions(alice),
            "synchronises": lambda: api.data(alice, SYNC),
            "marks read": lambda: api.mark_read(alice, group),
            "subscribes": lambda: api.subscribe(alice, LIVE_SESSIONS),
        }
        begin = [asking[who], asking["lists"]]
        tasks = []
        for count, call in enumerate(begin if order == "first" else reversed(begin), start=1):
            tasks.append(asyncio.create_task(call()))
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await slow.begun.wait()
                while slow.waiting < count:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        gone, staying = tasks if order == "first" else reversed(tasks)
        await cancel_tasks(gone)
        gc.collect()
        assert not staying.done()
        slow.answer()
        await asyncio.wait({staying}, timeout=2)
        assert staying.done() and not staying.cancelled()
        assert comparable(staying.result()) == comparable(before)
        assert slow.reads == 1


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
async def test_who_gives_up_holding_the_lock_while_the_state_is_read_keeps_nobody_waiting(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("lost") as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(bob, alice)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        slow = SlowReads(api, monkeypatch)
        gone = asyncio.create_task(api.mark_read(alice, private_id(alice, bob)))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await slow.begun.wait()
        await cancel_tasks(gone)
        slow.answer()
        async with asyncio.timeout(2):
            assert (await api.mark_read(alice, private_id(alice, bob)))["unreadCount"] == 0

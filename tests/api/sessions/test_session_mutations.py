"""What holds for every mutation of a session: who may, what it answers, what it moves, whom it tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import ASSIGN, DELETE, MARK_READ, MUTE, PIN, SET_UNREAD


@dataclass(frozen=True)
class Call:
    """One mutation: why others are told of it, and what has to be so before it can change anything."""

    query: str
    reason: str
    variables: Json = field(default_factory=dict)
    before: tuple[str, ...] = ()
    moves_write_ts: bool = False

    @property
    def field(self) -> str:
        return "conversationIds" if self.query is ASSIGN else "conversationId"

    def on(self, conversation: str) -> Json:
        named: Json = {"ids": [conversation]} if self.query is ASSIGN else {"id": conversation}
        return self.variables | named

    async def run(self, api: Api, user: str, conversation: str) -> Json:
        """The session that it answers."""
        (answer,) = (await api.data(user, self.query, **self.on(conversation))).values()
        (session,) = answer if isinstance(answer, list) else [answer]
        assert isinstance(session, dict)
        return session


CALLS = {
    "reading": Call(MARK_READ, "READ"),
    "reading in part": Call(MARK_READ, "READ", {"seq": 1}),
    "deleting": Call(DELETE, "DELETE", {"hard": False}),
    "deleting for good": Call(DELETE, "DELETE", {"hard": True}, before=("pinning", "muting")),
    "forgetting what is deleted": Call(DELETE, "DELETE", {"hard": True}, before=("muting", "deleting")),
    "muting": Call(MUTE, "MUTE", {"muted": True}),
    "muting for a while": Call(MUTE, "MUTE", {"muted": True, "until": "2200-01-01T00:00:00.000Z"}),
    "muting on": Call(MUTE, "MUTE", {"muted": True}, before=("muting for a while",)),
    "unmuting": Call(MUTE, "UNMUTE", {"muted": False}, before=("muting",)),
    "pinning": Call(PIN, "PIN", {"priority": 7}, moves_write_ts=True),
    "pinning elsewhere": Call(PIN, "PIN", {"priority": 1000}, before=("pinning",), moves_write_ts=True),
    "unpinning": Call(PIN, "UNPIN", {"priority": 0}, before=("pinning",)),
    "marking unread": Call(SET_UNREAD, "UNREAD", moves_write_ts=True),
    "filing": Call(ASSIGN, "CATEGORY", {"category": "work"}),
    "filing elsewhere": Call(ASSIGN, "CATEGORY", {"category": "home"}, before=("filing",)),
    "unfiling": Call(ASSIGN, "CATEGORY", {"category": None}, before=("filing",)),
}
ONE_OF_EACH = ("reading", "deleting", "muting", "pinning", "marking unread", "filing")
CLOCKS = ("activeTs", "writeTs")

calls = pytest.mark.parametrize("name", CALLS)
one_of_each = pytest.mark.parametrize("name", ONE_OF_EACH)


def without(names: tuple[str, ...], session: Json) -> Json:
    return {name: value for name, value in session.items() if name not in names}


async def cursor_of(api: Api, user: str) -> str:
    cursor: str = (await api.data(user, SYNC))["syncSessions"]["cursor"]
    return cursor


async def prepare(api: Api, call: Call, user: str, conversation: str) -> None:
    for name in call.before:
        await CALLS[name].run(api, user, conversation)
    await api.wait_until_idle()
    # So that what moves, moves to another millisecond.
    await asyncio.sleep(0.002)


async def two_talks(api: Api) -> tuple[str, str, str]:
    """Somebody whom a friend wrote two messages, and somebody else three. Answers them, the friend, and where."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for sender, count in ((bob, 2), (carol, 3)):
        for _ in range(count):
            await api.send(sender, alice)
    return alice, bob, private_id(alice, bob)


@calls
async def test_a_change_is_answered_whole_as_it_is_from_then_on(api: Api, other_api: Api, name: str) -> None:
    call = CALLS[name]
    alice, _, conversation = await two_talks(api)
    await prepare(api, call, alice, conversation)
    before = await api.own_session(alice, conversation)
    session = await call.run(api, alice, conversation)
    for process in (api, other_api):
        assert await process.session(alice, conversation) == session
    assert without(CLOCKS, session) != without(CLOCKS, before)
    assert session["activeTs"] > before["activeTs"]
    assert (session["writeTs"] > before["writeTs"]) is call.moves_write_ts
    assert (session["writeTs"] == before["writeTs"]) is not call.moves_write_ts


@calls
async def test_every_device_is_told_once_and_nobody_else(api: Api, other_api: Api, name: str) -> None:
    call = CALLS[name]
    alice, bob, conversation = await two_talks(api)
    await prepare(api, call, alice, conversation)
    own = [await process.listen(alice, LIVE_SESSIONS) for process in (api, api, other_api)]
    quiet = [await process.listen(bob, LIVE_SESSIONS) for process in (api, other_api)]
    if call.reason != "READ":
        quiet += [await api.listen(user) for user in (alice, bob)]
    peer = await api.session(bob, conversation)
    session = await call.run(api, alice, conversation)
    for device in own:
        event = await device.next()
        assert (event["reason"], event["hasMore"], event["reset"]) == (call.reason, False, False)
        assert event["sessions"] == [session]
        assert event["totalUnread"] == await api.total_unread(alice)
        delta = (await api.data(alice, SYNC, since=event["cursor"]))["syncSessions"]
        assert (delta["sessions"], delta["reset"]) == ([], False)
    await api.wait_until_idle()
    for listener in (*own, *quiet):
        await listener.expect_no_event(0.02)
    if call.reason != "READ":
        assert await api.session(bob, conversation) == peer


@calls
async def test_synchronising_from_before_brings_the_change(api: Api, name: str) -> None:
    call = CALLS[name]
    alice, _, conversation = await two_talks(api)
    await prepare(api, call, alice, conversation)
    cursor = await cursor_of(api, alice)
    session = await call.run(api, alice, conversation)
    delta = (await api.data(alice, SYNC, since=cursor))["syncSessions"]
    assert (delta["sessions"], delta["hasMore"], delta["reset"]) == ([session], False, False)
    assert delta["totalUnread"] == await api.total_unread(alice)


@pytest.fixture(scope="module")
async def losing_process(open_api: OpenApi) -> AsyncIterator[Api]:
    """One whose cache may be lost."""
    async with open_api("lost") as api:
        yield api


@calls
@pytest.mark.parametrize("lost", ["before", "after"])
async def test_a_change_is_kept_though_the_cache_is_lost(
    losing_process: Api, deployments: Deployments, name: str, lost: str
) -> None:
    call, api = CALLS[name], losing_process
    alice, _, conversation = await two_talks(api)
    await prepare(api, call, alice, conversation)
    before = await api.own_session(alice, conversation)
    if lost == "before":
        deployments.flush_redis("lost")
    session = await call.run(api, alice, conversation)
    total = await api.total_unread(alice)
    await api.wait_until_idle()
    if lost == "after":
        deployments.flush_redis("lost")
    again = await api.own_session(alice, conversation)
    assert without(("activeTs",), again) == without(("activeTs",), session)
    assert min(session["activeTs"], again["activeTs"]) > before["activeTs"]
    assert await api.total_unread(alice) == total
    assert without(CLOCKS, session) != without(CLOCKS, before)


@calls
async def test_the_same_again_changes_nothing_and_tells_nobody(api: Api, other_api: Api, name: str) -> None:
    call = CALLS[name]
    alice, _, conversation = await two_talks(api)
    await prepare(api, call, alice, conversation)
    session = await call.run(api, alice, conversation)
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    stored, cursor = await api.stored_documents(), await cursor_of(api, alice)
    for process in (api, other_api):
        assert await call.run(process, alice, conversation) == session
    assert await api.stored_documents() == stored
    assert await cursor_of(api, alice) == cursor
    for device in devices:
        await device.expect_no_event(0.02)


@pytest.mark.parametrize("name", ["unmuting", "unpinning", "unfiling"])
async def test_undoing_what_was_never_done_changes_nothing(api: Api, name: str) -> None:
    alice, _, conversation = await two_talks(api)
    session = await api.own_session(alice, conversation)
    device = await api.listen(alice, LIVE_SESSIONS)
    stored = await api.stored_documents()
    assert await CALLS[name].run(api, alice, conversation) == session
    assert await api.stored_documents() == stored
    await device.expect_no_event(0.02)


# --- who may


def foreign_to(dave: str, *others: str, group: str) -> list[str]:
    """What dave has no session of, and what is no conversation at all."""
    alice, bob, carol = others
    unwritten = [
        private_id(carol, dave),
        private_id(dave, "nobody"),
        private_id(dave, alice, "shop"),
        f"p_{dave}_{dave}",
    ]
    nonsense = [
        "",
        " ",
        "x",
        "p_",
        "g_",
        "b_",
        "m_1",
        "c_1",
        "w_1",
        "g_1",
        f"g_{'9' * 40}",
        "\x00",
        "\ud800",
        "é" * 300,
    ]
    near = [
        group + " ",
        group.upper(),
        f"s_{dave}_{group}",
        private_id(alice, bob) + "~",
        "b_shop",
        f"p_{bob}_{alice}",
        alice,
    ]
    return [private_id(alice, bob), private_id(alice, bob, "shop"), group, *unwritten, *nonsense, *near]


@one_of_each
async def test_what_one_has_no_session_of_is_not_found(api: Api, other_api: Api, name: str) -> None:
    call = CALLS[name]
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.send(alice, bob)
    await api.send(alice, bob, subBiz="shop")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    devices = [await process.listen(user, LIVE_SESSIONS) for process in (api, other_api) for user in (alice, bob, dave)]
    stored = await api.stored_documents()
    for conversation in foreign_to(dave, alice, bob, carol, group=group):
        refusal = await api.expect_refusal(dave, call.query, **call.on(conversation))
        assert refusal == Refusal("NOT_FOUND", call.field), ascii(conversation)
    assert await api.stored_documents() == stored
    for device in devices:
        await device.expect_no_event(0.01)
    assert await api.all_sessions(dave) == {}


@one_of_each
async def test_who_has_not_said_who_they_are_changes_nothing(api: Api, name: str) -> None:
    call = CALLS[name]
    _, _, conversation = await two_talks(api)
    stored = await api.stored_documents()
    assert (await api.expect_refusal(None, call.query, **call.on(conversation))).code == "UNAUTHENTICATED"
    assert await api.stored_documents() == stored


@pytest.mark.parametrize("target", ["known", "unknown"])
@pytest.mark.parametrize(
    ("query", "variables", "wrong"),
    [
        (MARK_READ, {"seq": -1}, "upToSeq"),
        (MUTE, {"muted": True, "until": "2020-01-01T00:00:00.000Z"}, "until"),
        (MUTE, {"muted": False, "until": "2200-01-01T00:00:00.000Z"}, "until"),
        (PIN, {"priority": 1001}, "priority"),
        (PIN, {"priority": -1}, "priority"),
        (ASSIGN, {"category": ""}, "categoryId"),
    ],
)
async def test_what_is_out_of_range_is_invalid_whatever_it_was_meant_for(
    api: Api, query: str, variables: Json, wrong: str, target: str
) -> None:
    alice, _, conversation = await two_talks(api)
    device = await api.listen(alice, LIVE_SESSIONS)
    before = await api.session(alice, conversation)
    stored = await api.stored_documents()
    call = Call(query, "", variables)
    refusal = await api.expect_refusal(alice, query, **call.on(conversation if target == "known" else "g_1"))
    assert refusal == Refusal("INVALID_INPUT", wrong)
    assert await api.stored_documents() == stored
    assert await api.session(alice, conversation) == before
    await device.expect_no_event(0.02)


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        (MUTE, {"id": "x", "muted": None}),
        (MUTE, {"id": "x", "muted": "yes"}),
        (MUTE, {"id": None, "muted": True}),
        (MUTE, {"id": "x", "muted": True, "until": "tomorrow"}),
        (MUTE, {"id": "x", "muted": True, "until": "2200-01-01T00:00:00"}),
        (MUTE, {"id": "x", "muted": True, "until": 1}),
        (PIN, {"id": "x", "priority": 1.5}),
        (PIN, {"id": "x", "priority": 2**31}),
        (PIN, {"id": "x", "priority": "1"}),
        (SET_UNREAD, {"id": None}),
        (DELETE, {"id": "x", "hard": "no"}),
        (ASSIGN, {"ids": None}),
        (ASSIGN, {"ids": [None]}),
        (ASSIGN, {"ids": [["x"]]}),
    ],
)
async def test_what_is_no_value_of_its_type_is_invalid(api: Api, query: str, variables: Json) -> None:
    (alice,) = await api.create_users("alice")
    stored = await api.stored_documents()
    assert (await api.expect_refusal(alice, query, **variables)).code == "INVALID_INPUT"
    assert await api.stored_documents() == stored


# --- many at once


async def test_changes_from_many_devices_at_once_are_told_alike_and_in_order(api: Api, other_api: Api) -> None:
    alice, _, conversation = await two_talks(api)
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    names = ("muting", "pinning", "filing", "marking unread", "reading", "unmuting", "unpinning", "filing elsewhere")
    await gather_all(
        *(CALLS[name].run((api, other_api)[turn % 2], alice, conversation) for turn, name in enumerate(names * 2))
    )
    await CALLS["deleting"].run(api, alice, conversation)
    told = []
    for device in devices:
        events = [await device.next()]
        while events[-1]["reason"] != "DELETE":
            events.append(await device.next())
        told.append([(event["reason"], event["sessions"], event["totalUnread"]) for event in events])
        await device.expect_no_event(0.02)
    assert told[0] == told[1]
    moved = [sessions[0]["activeTs"] for _, sessions, _ in told[0]]
    assert moved == sorted(set(moved))
    for process in (api, other_api):
        assert [await process.session(alice, conversation)] == told[0][-1][1]
    assert len(told[0]) <= 2 * len(names) + 1


async def test_none_of_it_is_a_message_event(api: Api) -> None:
    alice, bob, conversation = await two_talks(api)
    cursor = await cursor_of(api, alice)
    for name in ("muting", "pinning", "marking unread", "unmuting", "filing", "deleting"):
        await CALLS[name].run(api, alice, conversation)
    await api.send(bob, alice)
    await CALLS["reading"].run(api, alice, conversation)
    missed = await api.subscribe(alice, LIVE_MESSAGES, since=cursor)
    told = [event["__typename"] for event in await missed.take(3)]
    assert told == ["MessageCreated", "ReceiptAdvanced", "CaughtUp"]

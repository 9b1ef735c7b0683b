"""Rules for every mutation of a session: permission, answer, times, events, validation and idempotence."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments
from tests.api.events import current_cursor
from tests.api.session_calls import (
    ASSIGN,
    CALLS,
    DELETE,
    FIRST_OF_EACH,
    MUTE,
    OUT_OF_RANGE,
    PIN,
    SET_UNREAD,
    SessionCall,
)

CLOCKS = ("activeTs", "writeTs")

SIMILAR = (
    "reading in part",
    "hard deleting a deleted session",
    "muting for a while",
    "muting without an end",
    "changing the priority",
    "changing the category",
)
"""Calls of a mutation that another call of the table makes with a similar effect: `make long` runs them."""

calls = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in SIMILAR else name for name in CALLS]
)
one_of_each = pytest.mark.parametrize("name", FIRST_OF_EACH)


def remove_fields(names: tuple[str, ...], session: Json) -> Json:
    return {name: value for name, value in session.items() if name not in names}


async def prepare(api: Api, call: SessionCall, user: str, conversation: str) -> None:
    for name in call.before:
        await CALLS[name].run(api, user, conversation)
    await api.wait_until_idle()
    # Wait for the next millisecond, so that the change has a later time.
    await asyncio.sleep(0.002)


async def create_two_conversations(api: Api) -> tuple[str, str, str]:
    """Return alice, bob who sent her two messages while carol sent one, and the conversation with bob."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for sender in (bob, bob, carol):
        await api.send(sender, alice)
    return alice, bob, private_id(alice, bob)


@calls
async def test_a_change_returns_the_session_as_later_queries_and_synchronisations_do(
    api: Api, other_api: Api, name: str
) -> None:
    call = CALLS[name]
    alice, _, conversation = await create_two_conversations(api)
    await prepare(api, call, alice, conversation)
    before, cursor = await api.own_session(alice, conversation), await current_cursor(api, alice)
    session = await call.run(api, alice, conversation)
    for process in (api, other_api):
        assert await process.session(alice, conversation) == session
    delta = (await api.data(alice, SYNC, since=cursor))["syncSessions"]
    assert (delta["sessions"], delta["hasMore"], delta["reset"]) == ([session], False, False)
    assert delta["totalUnread"] == await api.total_unread(alice)
    assert remove_fields(CLOCKS, session) != remove_fields(CLOCKS, before)
    assert session["activeTs"] > before["activeTs"]
    assert (session["writeTs"] > before["writeTs"]) is call.moves_write_ts
    assert (session["writeTs"] == before["writeTs"]) is not call.moves_write_ts


@calls
async def test_every_device_of_the_user_receives_one_event(api: Api, other_api: Api, name: str) -> None:
    call = CALLS[name]
    alice, bob, conversation = await create_two_conversations(api)
    await prepare(api, call, alice, conversation)
    own_devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, api, other_api)]
    silent = [await process.listen(bob, LIVE_SESSIONS) for process in (api, other_api)]
    if call.reason != "READ":
        silent += [await api.listen(user) for user in (alice, bob)]
    peer = await api.session(bob, conversation)
    session = await call.run(api, alice, conversation)
    for device in own_devices:
        event = await device.next()
        assert (event["reason"], event["hasMore"], event["reset"]) == (call.reason, False, False)
        assert event["sessions"] == [session]
        assert event["totalUnread"] == await api.total_unread(alice)
        delta = (await api.data(alice, SYNC, since=event["cursor"]))["syncSessions"]
        assert (delta["sessions"], delta["reset"]) == ([], False)
    await api.wait_until_idle()
    for listener in (*own_devices, *silent):
        await listener.expect_no_event(0.02)
    if call.reason != "READ":
        assert await api.session(bob, conversation) == peer


@calls
@pytest.mark.parametrize(
    "lost", [*(pytest.param(lost, marks=pytest.mark.long) for lost in ("before", "after")), "before and after"]
)
async def test_a_change_survives_the_loss_of_the_cache(
    losing_api: Api, deployments: Deployments, name: str, lost: str
) -> None:
    call, api = CALLS[name], losing_api
    alice, _, conversation = await create_two_conversations(api)
    await prepare(api, call, alice, conversation)
    before = await api.own_session(alice, conversation)
    if lost.startswith("before"):
        deployments.flush_redis("lost")
    session = await call.run(api, alice, conversation)
    total = await api.total_unread(alice)
    await api.wait_until_idle()
    if lost.endswith("after"):
        deployments.flush_redis("lost")
    after_loss = await api.own_session(alice, conversation)
    assert remove_fields(("activeTs",), after_loss) == remove_fields(("activeTs",), session)
    assert min(session["activeTs"], after_loss["activeTs"]) > before["activeTs"]
    assert await api.total_unread(alice) == total
    assert remove_fields(CLOCKS, session) != remove_fields(CLOCKS, before)


@calls
async def test_repeating_a_change_changes_nothing(api: Api, other_api: Api, name: str) -> None:
    call = CALLS[name]
    alice, _, conversation = await create_two_conversations(api)
    await prepare(api, call, alice, conversation)
    session = await call.run(api, alice, conversation)
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    stored, cursor = await api.stored_hashes(), await current_cursor(api, alice)
    for process in (api, other_api):
        assert await call.run(process, alice, conversation) == session
    assert await api.stored_hashes() == stored
    assert await current_cursor(api, alice) == cursor
    for device in devices:
        await device.expect_no_event(0.02)


@pytest.mark.parametrize("name", ["unmuting", "unpinning", "removing the category"])
async def test_undoing_a_change_never_made_changes_nothing(api: Api, name: str) -> None:
    alice, _, conversation = await create_two_conversations(api)
    session = await api.own_session(alice, conversation)
    device = await api.listen(alice, LIVE_SESSIONS)
    stored = await api.stored_hashes()
    assert await CALLS[name].run(api, alice, conversation) == session
    assert await api.stored_hashes() == stored
    await device.expect_no_event(0.02)


def foreign_ids(dave: str, *others: str, group: str) -> list[str]:
    """Return ids of conversations in which dave has no session, and ids of nothing."""
    alice, bob, carol = others
    without_messages = [
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
    similar = [
        group + " ",
        group.upper(),
        f"s_{dave}_{group}",
        private_id(alice, bob) + "~",
        "b_shop",
        f"p_{bob}_{alice}",
        alice,
    ]
    return [private_id(alice, bob), private_id(alice, bob, "shop"), group, *without_messages, *nonsense, *similar]


@one_of_each
async def test_a_conversation_without_a_session_is_not_found(api: Api, other_api: Api, name: str) -> None:
    call = CALLS[name]
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.send(alice, bob)
    await api.send(alice, bob, subBiz="shop")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    devices = [await process.listen(user, LIVE_SESSIONS) for process in (api, other_api) for user in (alice, bob, dave)]
    stored = await api.stored_hashes()
    for conversation in foreign_ids(dave, alice, bob, carol, group=group):
        refusal = await api.expect_refusal(dave, call.query, **call.variables_for(conversation))
        assert refusal == Refusal("NOT_FOUND", call.field), ascii(conversation)
    assert await api.stored_hashes() == stored
    for device in devices:
        await device.expect_no_event(0.01)
    assert await api.all_sessions(dave) == {}


async def test_a_change_needs_a_token(api: Api) -> None:
    _, _, conversation = await create_two_conversations(api)
    stored = await api.stored_hashes()
    for name in FIRST_OF_EACH:
        refusal = await api.expect_refusal(None, CALLS[name].query, **CALLS[name].variables_for(conversation))
        assert refusal.code == "UNAUTHENTICATED", name
    assert await api.stored_hashes() == stored


@pytest.mark.parametrize(
    ("query", "variables", "invalid_field"),
    OUT_OF_RANGE,
)
async def test_an_argument_out_of_range_is_refused_for_any_target(
    api: Api, query: str, variables: Json, invalid_field: str
) -> None:
    alice, _, conversation = await create_two_conversations(api)
    device = await api.listen(alice, LIVE_SESSIONS)
    before = await api.session(alice, conversation)
    stored = await api.stored_hashes()
    call = SessionCall(query, "", variables)
    for target in (conversation, "g_1"):
        refusal = await api.expect_refusal(alice, query, **call.variables_for(target))
        assert refusal == Refusal("INVALID_INPUT", invalid_field), target
    assert await api.stored_hashes() == stored
    assert await api.session(alice, conversation) == before
    await device.expect_no_event(0.02)


WRONG_TYPES = [
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
]


async def test_an_argument_of_the_wrong_type_is_refused(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    stored = await api.stored_hashes()
    for query, variables in WRONG_TYPES:
        assert (await api.expect_refusal(alice, query, **variables)).code == "INVALID_INPUT", variables
    assert await api.stored_hashes() == stored


async def test_concurrent_changes_reach_all_devices_in_the_same_order(api: Api, other_api: Api) -> None:
    alice, _, conversation = await create_two_conversations(api)
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    names = (
        "muting",
        "pinning",
        "assigning",
        "marking unread",
        "reading",
        "unmuting",
        "unpinning",
        "changing the category",
    )
    await gather_all(
        *(CALLS[name].run((api, other_api)[turn % 2], alice, conversation) for turn, name in enumerate(names * 2))
    )
    await CALLS["deleting"].run(api, alice, conversation)
    received = []
    for device in devices:
        events = [await device.next()]
        while events[-1]["reason"] != "DELETE":
            events.append(await device.next())
        received.append([(event["reason"], event["sessions"], event["totalUnread"]) for event in events])
        await device.expect_no_event(0.02)
    assert received[0] == received[1]
    times = [sessions[0]["activeTs"] for _, sessions, _ in received[0]]
    assert times == sorted(set(times))
    for process in (api, other_api):
        assert [await process.session(alice, conversation)] == received[0][-1][1]
    assert len(received[0]) <= 2 * len(names) + 1


async def test_changes_of_sessions_are_no_message_events(api: Api) -> None:
    alice, bob, conversation = await create_two_conversations(api)
    cursor = await current_cursor(api, alice)
    for name in ("muting", "pinning", "marking unread", "unmuting", "assigning", "deleting"):
        await CALLS[name].run(api, alice, conversation)
    await api.send(bob, alice)
    await CALLS["reading"].run(api, alice, conversation)
    missed_events = await api.subscribe(alice, LIVE_MESSAGES, since=cursor)
    received = [event["__typename"] for event in await missed_events.take(3)]
    assert received == ["MessageCreated", "ReceiptAdvanced", "CaughtUp"]

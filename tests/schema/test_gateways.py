"""The gateway of a subBiz: one session that stands for all within."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.clock import ManualClock
from tests.schema.api import LIVE_SESSIONS, SYNC, Api, Json, Refusal, private
from tests.schema.conftest import OpenApi, Places
from tests.schema.device import Device
from tests.schema.session_calls import ASSIGN, DELETE, SESSION, SET_UNREAD

GATEWAY = f"""query ($id: ID!, $session: ID!) {{
    conversation(id: $id) {{ __typename id type title lastMessage {{ id }} session {{ {SESSION} }}
        ... on SubBizGateway {{ subBiz }} }}
    node(id: $id) {{ __typename id ... on SubBizGateway {{ subBiz title }} }}
    session: node(id: $session) {{ __typename ... on Session {{ {SESSION} }} }} }}"""


async def shop(api: Api, *counts: int) -> tuple[str, list[str], list[str]]:
    """Somebody to whom others wrote within a subBiz, so many messages each. Answers them, the others, and where."""
    alice, *others = await api.people("alice", *(f"u{number}" for number in range(len(counts))))
    for other, count in zip(others, counts, strict=True):
        for _ in range(count):
            await api.send(other, alice, subBiz="shop")
    return alice, others, [private(alice, other, "shop") for other in others]


async def sync(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


def ids(sessions: list[Json]) -> list[str]:
    return [session["conversation"]["id"] for session in sessions]


async def test_it_sums_up_what_it_stands_for(api: Api) -> None:
    alice, others, conversations = await shop(api, 2, 3)
    last = (await api.send(others[0], alice, subBiz="shop", mentions=[alice]))["message"]
    newest = await api.own(alice, conversations[0])
    gateway = await api.own(alice, "b_shop")
    assert gateway["activeTs"] > newest["activeTs"]
    assert gateway == {
        "id": f"s_{alice}_b_shop",
        "writeSeq": 0,
        "readSeq": 0,
        "deliveredSeq": 0,
        "unreadCount": 6,
        "unreadMentionCount": 1,
        "unreadStatus": False,
        "muteStatus": False,
        "mutedUntil": None,
        "priority": 0,
        "categoryId": None,
        "subBiz": None,
        "status": "ACTIVE",
        "activeTs": gateway["activeTs"],
        "writeTs": newest["writeTs"],
        "peerDeliveredSeq": None,
        "peerReadSeq": None,
        "conversation": {"__typename": "SubBizGateway", "id": "b_shop", "type": "SUB_BIZ", "title": "shop"},
        "lastMessage": {"id": last["id"], "seq": 3, "content": "hello", "sender": {"id": others[0]}},
    }
    assert await api.total_unread(alice) == 6


async def test_it_is_the_same_wherever_it_is_asked_for(api: Api, other_api: Api) -> None:
    alice, _, _ = await shop(api, 1, 2)
    for process in (api, other_api):
        gateway = await process.own(alice, "b_shop")
        assert await process.sessions(alice) == [gateway]
        assert gateway in (await sync(process, alice))["sessions"]
        data = await process.data(alice, GATEWAY, id="b_shop", session=gateway["id"])
        assert data == {
            "conversation": {
                "__typename": "SubBizGateway",
                "id": "b_shop",
                "type": "SUB_BIZ",
                "title": "shop",
                "subBiz": "shop",
                "lastMessage": {"id": gateway["lastMessage"]["id"]},
                "session": gateway,
            },
            "node": {"__typename": "SubBizGateway", "id": "b_shop", "title": "shop", "subBiz": "shop"},
            "session": {"__typename": "Session"} | gateway,
        }


async def test_of_muted_and_deleted_ones_it_counts_nothing(api: Api) -> None:
    alice, others, (a, b, c) = await shop(api, 1, 2, 4)
    await api.mute(alice, b)
    gateway = await api.own(alice, "b_shop")
    assert (gateway["unreadCount"], await api.total_unread(alice)) == (5, 5)
    await api.delete(alice, c)
    gateway = await api.own(alice, "b_shop")
    assert (gateway["unreadCount"], gateway["lastMessage"]["sender"]["id"]) == (1, others[1])
    assert gateway["writeTs"] == (await api.own(alice, b))["writeTs"]
    await api.mark_read(alice, a)
    assert ((await api.own(alice, "b_shop"))["unreadCount"], await api.total_unread(alice)) == (0, 0)
    await api.unmute(alice, b)
    assert ((await api.own(alice, "b_shop"))["unreadCount"], await api.total_unread(alice)) == (2, 2)


async def test_it_goes_with_the_last_one_and_comes_back_with_the_first(api: Api) -> None:
    alice, others, (a, b) = await shop(api, 1, 1)
    await api.delete(alice, a)
    assert (await api.own(alice, "b_shop"))["status"] == "ACTIVE"
    cursor = (await sync(api, alice))["cursor"]
    device = await api.listen(alice, LIVE_SESSIONS)
    deleted = await api.delete(alice, b)
    gateway = await api.own(alice, "b_shop")
    assert (gateway["status"], gateway["unreadCount"], await api.sessions(alice)) == ("INVALID", 0, [])
    assert (await device.next())["sessions"] == [deleted, gateway]
    assert (await sync(api, alice, cursor))["sessions"] == [deleted, gateway]
    assert (await sync(api, alice))["sessions"] == []
    await api.send(others[0], alice, subBiz="shop")
    gateway = await api.own(alice, "b_shop")
    assert (gateway["status"], gateway["unreadCount"]) == ("ACTIVE", 1)
    assert await api.sessions(alice) == [gateway]


# --- moving with what is within


async def test_it_moves_with_every_message_within(api: Api) -> None:
    alice, others, (a, b) = await shop(api, 1, 1)
    for sender, conversation in ((others[0], a), (others[1], b), (alice, a)):
        before = await sync(api, alice)
        await api.send(sender, conversation)
        delta = await sync(api, alice, before["cursor"])
        assert ids(delta["sessions"]) == [conversation, "b_shop"]
        inside, gateway = delta["sessions"]
        assert gateway["activeTs"] > inside["activeTs"] > before["sessions"][-1]["activeTs"]
        assert gateway["lastMessage"] == inside["lastMessage"]
        assert gateway["writeTs"] == inside["writeTs"]
        assert await api.own(alice, "b_shop") == gateway


@pytest.mark.parametrize("what", ["reading", "muting", "pinning", "marking unread", "filing", "deleting"])
async def test_it_is_told_beside_the_one_that_changed(api: Api, other_api: Api, what: str) -> None:
    alice, _, (a, _) = await shop(api, 2, 1)
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "reading": lambda: api.mark_read(alice, a),
        "muting": lambda: api.mute(alice, a),
        "pinning": lambda: api.pin(alice, a),
        "marking unread": lambda: api.set_unread(alice, a),
        "filing": lambda: api.assign(alice, "work", a),
        "deleting": lambda: api.delete(alice, a),
    }
    cursor = (await sync(api, alice))["cursor"]
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    await acts[what]()
    inside, gateway = await api.own(alice, a), await api.own(alice, "b_shop")
    assert gateway["activeTs"] > inside["activeTs"]
    for device in devices:
        event = await device.next()
        assert event["sessions"] == [inside, gateway]
        assert event["totalUnread"] == await api.total_unread(alice)
        await device.none(0.02)
        assert (await sync(api, alice, event["cursor"]))["sessions"] == []
    assert (await sync(api, alice, cursor))["sessions"] == [inside, gateway]


async def test_who_is_put_into_a_group_within_is_told_of_both(api: Api) -> None:
    alice, bob, carol, dave = await api.people("alice", "bob", "carol", "dave")
    devices = {user: await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol, dave)}
    group = await api.create_group(alice, bob, carol, subBiz="shop")
    await api.invite(bob, group, dave)
    for user, device in devices.items():
        event = await device.next()
        assert (event["reason"], ids(event["sessions"])) == ("MEMBERSHIP", [group, "b_shop"]), user
        await device.none(0.02)
        assert await api.titles(user) == ["shop"]


async def test_filing_several_within_moves_it_in_the_same_event(api: Api) -> None:
    alice, _, conversations = await shop(api, 1, 1, 1)
    device = await api.listen(alice, LIVE_SESSIONS)
    answer = await api.assign(alice, "work", *conversations)
    event = await device.next()
    assert sorted(ids(event["sessions"])) == sorted([*conversations, "b_shop"])
    assert ids(answer) == conversations
    await device.none(0.03)


# --- as a session of its own


async def test_muting_it_takes_its_sum_out_of_the_total(api: Api) -> None:
    alice, others, (a, b) = await shop(api, 1, 2)
    (dave,) = await api.people("dave")
    await api.send(dave, alice)
    device = await api.listen(alice, LIVE_SESSIONS)
    gateway = await api.mute(alice, "b_shop")
    assert (gateway["muteStatus"], gateway["unreadCount"], await api.total_unread(alice)) == (True, 3, 1)
    assert gateway == await api.session(alice, "b_shop")
    event = await device.next()
    assert (event["reason"], event["sessions"], event["totalUnread"]) == ("MUTE", [gateway], 1)
    assert [(await api.own(alice, conversation))["muteStatus"] for conversation in (a, b)] == [False, False]
    await api.send(others[0], alice, subBiz="shop")
    await api.mark_read(alice, b)
    assert ((await api.own(alice, "b_shop"))["unreadCount"], await api.total_unread(alice)) == (2, 1)
    gateway = await api.unmute(alice, "b_shop")
    assert (gateway["muteStatus"], await api.total_unread(alice)) == (False, 3)


async def test_its_mute_ends_by_itself(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ends", clock) as api:
        alice, _, _ = await shop(api, 2, 1)
        until = clock.ms + 10_000
        await api.mute(alice, "b_shop", until)
        assert await api.total_unread(alice) == 0
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until
        event = await device.next(within=2)
        assert (event["reason"], ids(event["sessions"]), event["totalUnread"]) == ("UNMUTE", ["b_shop"], 3)
        assert event["sessions"] == [await api.session(alice, "b_shop")]
        assert await api.total_unread(alice) == 3


async def test_a_mute_within_that_ends_moves_it_too(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("within", clock) as api:
        alice, _, (a, _) = await shop(api, 2, 1)
        until = clock.ms + 10_000
        await api.mute(alice, a, until)
        assert (await api.own(alice, "b_shop"))["unreadCount"] == 1
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until
        event = await device.next(within=2)
        assert (event["reason"], ids(event["sessions"]), event["totalUnread"]) == ("UNMUTE", [a, "b_shop"], 3)
        assert event["sessions"][1]["unreadCount"] == 3


async def test_pinning_it_moves_it_in_the_main_list(api: Api) -> None:
    alice, others, (a, _) = await shop(api, 1, 1)
    dave, erin = await api.people("dave", "erin")
    for other in (dave, erin):
        await api.send(other, alice)
    assert await api.titles(alice) == [erin, dave, "shop"]
    await asyncio.sleep(0.002)
    before, inside = await api.own(alice, "b_shop"), await api.sessions(alice, sub_biz="shop")
    pinned = await api.pin(alice, "b_shop", 3)
    assert (pinned["priority"], await api.titles(alice)) == (3, ["shop", erin, dave])
    assert pinned["writeTs"] > before["writeTs"] and pinned["activeTs"] > before["activeTs"]
    assert await api.sessions(alice, sub_biz="shop") == inside
    await asyncio.sleep(0.002)
    unpinned = await api.pin(alice, "b_shop", 0)
    assert (unpinned["writeTs"], unpinned["priority"]) == (pinned["writeTs"], 0)
    assert await api.titles(alice) == ["shop", erin, dave]
    await api.pin(alice, a, 9)
    await api.send(dave, alice)
    assert await api.titles(alice) == [dave, "shop", erin]
    await api.send(others[1], alice, subBiz="shop")
    assert await api.titles(alice) == ["shop", dave, erin]


async def test_reading_it_reads_everything_within_and_tells_the_senders(api: Api, other_api: Api) -> None:
    alice, others, conversations = await shop(api, 1, 2, 0)
    group = await api.create_group(others[2], others[0], alice, subBiz="shop")
    await api.send(others[2], group)
    await api.mark_read(alice, conversations[0])
    await api.settled()
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    senders = {other: await api.listen(other) for other in others}
    gateway = await api.mark_read(alice, "b_shop", 0)
    assert (gateway["conversation"]["id"], gateway["unreadCount"], await api.total_unread(alice)) == ("b_shop", 0, 0)
    assert gateway == await api.session(alice, "b_shop")
    for device in devices:
        events = await device.take(2)
        assert {event["reason"] for event in events} == {"READ"}
        assert {event["sessions"][0]["conversation"]["id"] for event in events} == {conversations[1], group}
        assert [event["sessions"][1]["conversation"]["id"] for event in events] == ["b_shop"] * 2
        assert (events[-1]["totalUnread"], events[-1]["sessions"][1]["unreadCount"]) == (0, 0)
        await device.none(0.03)
    for other, conversation in ((others[1], conversations[1]), (others[2], group)):
        event = await senders[other].next()
        told = event["__typename"], event["conversationId"], event["user"]["id"], event["status"]
        assert told == ("ReceiptAdvanced", conversation, alice, "READ")
    await api.settled()
    for sender in senders.values():
        await sender.none(0.02)


async def test_reading_it_takes_marks_within_away_and_again_changes_nothing(api: Api) -> None:
    alice, _, (a, b) = await shop(api, 1, 1)
    await api.mark_read(alice, a)
    await api.set_unread(alice, a)
    read = await api.mark_read(alice, "b_shop")
    assert [(await api.own(alice, conversation))["unreadStatus"] for conversation in (a, b)] == [False, False]
    device = await api.listen(alice, LIVE_SESSIONS)
    stored = await api.stored()
    assert await api.mark_read(alice, "b_shop") == read
    assert await api.refusal(alice, READ_UP_TO, id="b_shop", seq=-1) == Refusal("INVALID_INPUT", "upToSeq")
    assert await api.stored() == stored
    await device.none(0.02)


READ_UP_TO = "mutation ($id: ID!, $seq: Int) { markRead(conversationId: $id, upToSeq: $seq) { id } }"


@pytest.mark.parametrize("within", [True, False], ids=["valid", "invalid"])
async def test_what_does_not_apply_to_it_is_refused(api: Api, within: bool) -> None:
    alice, _, (a,) = await shop(api, 1)
    (dave,) = await api.people("dave")
    await api.send(dave, alice)
    if not within:
        await api.delete(alice, a)
    device = await api.listen(alice, LIVE_SESSIONS)
    before, stored = await api.session(alice, "b_shop"), await api.stored()
    for query in (SET_UNREAD, DELETE):
        assert await api.refusal(alice, query, id="b_shop") == Refusal("INVALID_INPUT", "conversationId")
    for named in (["b_shop"], [private(alice, dave), "b_shop"]):
        refusal = await api.refusal(alice, ASSIGN, ids=named, category="work")
        assert refusal == Refusal("INVALID_INPUT", "conversationIds")
    assert await api.stored() == stored
    assert await api.session(alice, "b_shop") == before
    await device.none(0.02)


# --- what is lost, and a device


async def test_it_is_the_same_after_the_cache_was_lost(open_api: OpenApi, places: Places) -> None:
    async with open_api("lost") as api:
        alice, others, (_, b, c) = await shop(api, 1, 2, 4)
        await api.send(others[0], alice, subBiz="help", mentions=[alice])
        await api.mute(alice, b)
        await api.delete(alice, c)
        await asyncio.sleep(0.002)
        await api.pin(alice, "b_shop", 3)
        await api.mute(alice, "b_help", 4_000_000_000_000)
        await api.settled()
        before = [{n: v for n, v in s.items() if n != "activeTs"} for s in await api.sessions(alice)]
        assert [(s["unreadCount"], s["muteStatus"], s["priority"]) for s in before] == [(1, False, 3), (1, True, 0)]
        assert await api.total_unread(alice) == 1
        places.lose_redis("lost")
        after = [{n: v for n, v in s.items() if n != "activeTs"} for s in await api.sessions(alice)]
        assert after == before
        assert await api.total_unread(alice) == 1
        assert await api.titles(alice, sub_biz="shop") == [others[1], others[0]]
        await api.pin(alice, "b_shop", 0)
        await api.unmute(alice, "b_help")
        await api.settled()
        places.lose_redis("lost")
        gateways = {session["conversation"]["title"]: session for session in await api.sessions(alice)}
        assert (gateways["shop"]["priority"], gateways["help"]["muteStatus"]) == (0, False)
        assert await api.total_unread(alice) == 2


async def test_a_device_shows_it_as_a_fresh_one_would(api: Api, other_api: Api) -> None:
    alice, others, (a, b) = await shop(api, 1, 1)
    devices = [Device(process, alice) for process in (api, other_api)]
    for device in devices:
        await device.start()
    await api.send(others[0], alice, subBiz="shop")
    await api.mute(alice, b)
    await api.send(others[1], alice, subBiz="shop")
    await api.mute(alice, "b_shop")
    await api.delete(alice, a)
    await api.send(alice, b)
    await api.delete(alice, b)
    await api.send(others[1], alice, subBiz="shop", mentions=[alice])
    await api.create_group(others[0], others[1], alice, subBiz="help")
    for device in devices:
        await device.agrees()

"""Changes of a gateway: muting, pinning and reading it, and its state when no session is behind it."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from tests.api.client import LIVE_SESSIONS, Api, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.session_calls import ASSIGN, DELETE, MARK_READ, SET_UNREAD
from tests.api.sub_biz import conversation_ids, create_shop_conversations
from tests.clock import ManualClock


async def test_muting_a_gateway_removes_its_sum_from_the_total(api: Api) -> None:
    alice, others, (a, b) = await create_shop_conversations(api, 1, 2)
    (dave,) = await api.create_users("dave")
    await api.send(dave, alice)
    device = await api.listen(alice, LIVE_SESSIONS)
    gateway = await api.mute(alice, "b_shop")
    assert (gateway["muteStatus"], gateway["unreadCount"], await api.total_unread(alice)) == (True, 3, 1)
    assert gateway == await api.session(alice, "b_shop")
    event = await device.next()
    assert (event["reason"], event["sessions"], event["totalUnread"]) == ("MUTE", [gateway], 1)
    assert [(await api.own_session(alice, conversation))["muteStatus"] for conversation in (a, b)] == [False, False]
    await api.send(others[0], alice, subBiz="shop")
    await api.mark_read(alice, b)
    assert ((await api.own_session(alice, "b_shop"))["unreadCount"], await api.total_unread(alice)) == (2, 1)
    gateway = await api.unmute(alice, "b_shop")
    assert (gateway["muteStatus"], await api.total_unread(alice)) == (False, 3)


async def test_the_mute_of_a_gateway_expires(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ends", clock) as api:
        alice, _, _ = await create_shop_conversations(api, 2, 1)
        until = clock.ms + 10_000
        await api.mute(alice, "b_shop", until)
        assert await api.total_unread(alice) == 0
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until
        event = await device.next()
        assert (event["reason"], conversation_ids(event["sessions"]), event["totalUnread"]) == ("UNMUTE", ["b_shop"], 3)
        assert event["sessions"] == [await api.session(alice, "b_shop")]
        assert await api.total_unread(alice) == 3


async def test_the_end_of_a_mute_inside_a_sub_biz_updates_the_gateway(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("within", clock) as api:
        alice, _, (a, _) = await create_shop_conversations(api, 2, 1)
        until = clock.ms + 10_000
        await api.mute(alice, a, until)
        assert (await api.own_session(alice, "b_shop"))["unreadCount"] == 1
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until
        event = await device.next()
        assert (event["reason"], conversation_ids(event["sessions"]), event["totalUnread"]) == (
            "UNMUTE",
            [a, "b_shop"],
            3,
        )
        assert event["sessions"][1]["unreadCount"] == 3


async def test_pinning_a_gateway_moves_it_in_the_main_list(api: Api) -> None:
    alice, others, (a, _) = await create_shop_conversations(api, 1, 1)
    dave, erin = await api.create_users("dave", "erin")
    for other in (dave, erin):
        await api.send(other, alice)
    assert await api.titles(alice) == [erin, dave, "shop"]
    await asyncio.sleep(0.002)
    before, inside = await api.own_session(alice, "b_shop"), await api.sessions(alice, sub_biz="shop")
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


async def test_reading_a_gateway_reads_all_sessions_and_sends_receipts(api: Api, other_api: Api) -> None:
    alice, others, conversations = await create_shop_conversations(api, 1, 2, 0)
    group = await api.create_group(others[2], others[0], alice, subBiz="shop")
    await api.send(others[2], group)
    await api.mark_read(alice, conversations[0])
    await api.wait_until_idle()
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    senders = {other: await api.listen(other) for other in others}
    gateway = await api.mark_read(alice, "b_shop", 0)
    assert (gateway["conversation"]["id"], gateway["unreadCount"], await api.total_unread(alice)) == ("b_shop", 0, 0)
    assert gateway == await api.session(alice, "b_shop")
    for device in devices:
        event = await device.next()
        *inside, last = event["sessions"]
        assert (event["reason"], event["totalUnread"], last) == ("READ", 0, gateway)
        assert {session["conversation"]["id"] for session in inside} == {conversations[1], group}
        await device.expect_no_event(0.03)
    for other, conversation in ((others[1], conversations[1]), (others[2], group)):
        event = await senders[other].next()
        receipt = event["__typename"], event["conversationId"], event["user"]["id"], event["status"]
        assert receipt == ("ReceiptAdvanced", conversation, alice, "READ")
    await api.wait_until_idle()
    for sender in senders.values():
        await sender.expect_no_event(0.02)


async def test_reading_a_gateway_clears_unread_marks_once(api: Api) -> None:
    alice, _, (a, b) = await create_shop_conversations(api, 1, 1)
    await api.mark_read(alice, a)
    await api.set_unread(alice, a)
    read = await api.mark_read(alice, "b_shop")
    assert [(await api.own_session(alice, conversation))["unreadStatus"] for conversation in (a, b)] == [False, False]
    device = await api.listen(alice, LIVE_SESSIONS)
    stored = await api.stored_hashes()
    assert await api.mark_read(alice, "b_shop") == read
    assert await api.expect_refusal(alice, MARK_READ, id="b_shop", seq=-1) == Refusal("INVALID_INPUT", "upToSeq")
    assert await api.stored_hashes() == stored
    await device.expect_no_event(0.02)


@pytest.mark.parametrize("has_session", [True, False], ids=["valid", "invalid"])
async def test_mutations_that_gateways_do_not_support_are_refused(api: Api, has_session: bool) -> None:
    alice, _, (a,) = await create_shop_conversations(api, 1)
    (dave,) = await api.create_users("dave")
    await api.send(dave, alice)
    if not has_session:
        await api.delete(alice, a)
    device = await api.listen(alice, LIVE_SESSIONS)
    before, stored = await api.session(alice, "b_shop"), await api.stored_hashes()
    for query in (SET_UNREAD, DELETE):
        assert await api.expect_refusal(alice, query, id="b_shop") == Refusal("INVALID_INPUT", "conversationId")
    for given in (["b_shop"], [private_id(alice, dave), "b_shop"]):
        refusal = await api.expect_refusal(alice, ASSIGN, ids=given, category="work")
        assert refusal == Refusal("INVALID_INPUT", "conversationIds")
    assert await api.stored_hashes() == stored
    assert await api.session(alice, "b_shop") == before
    await device.expect_no_event(0.02)


async def test_gateways_survive_the_loss_of_the_cache(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    alice, others, (_, b, c) = await create_shop_conversations(api, 1, 2, 4)
    await api.send(others[0], alice, subBiz="help", mentions=[alice])
    await api.mute(alice, b)
    await api.delete(alice, c)
    await asyncio.sleep(0.002)
    await api.pin(alice, "b_shop", 3)
    await api.mute(alice, "b_help", 4_000_000_000_000)
    await api.wait_until_idle()
    before = [{n: v for n, v in s.items() if n != "activeTs"} for s in await api.sessions(alice)]
    assert [(s["unreadCount"], s["muteStatus"], s["priority"]) for s in before] == [(1, False, 3), (1, True, 0)]
    assert await api.total_unread(alice) == 1
    deployments.flush_redis("lost")
    after = [{n: v for n, v in s.items() if n != "activeTs"} for s in await api.sessions(alice)]
    assert after == before
    assert await api.total_unread(alice) == 1
    assert await api.titles(alice, sub_biz="shop") == [others[1], others[0]]
    await api.pin(alice, "b_shop", 0)
    await api.unmute(alice, "b_help")
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    gateways = {session["conversation"]["title"]: session for session in await api.sessions(alice)}
    assert (gateways["shop"]["priority"], gateways["help"]["muteStatus"]) == (0, False)
    assert await api.total_unread(alice) == 2


async def test_a_device_that_applies_events_matches_a_fresh_client(api: Api, other_api: Api) -> None:
    alice, others, (a, b) = await create_shop_conversations(api, 1, 1)
    devices = [ApiDevice(process, alice) for process in (api, other_api)]
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


async def test_a_gateway_without_sessions_keeps_its_settings(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    alice, others, (conversation,) = await create_shop_conversations(api, 1)
    await api.delete(alice, conversation)
    gateway = await api.pin(alice, "b_shop", 3)
    assert (gateway["status"], gateway["priority"], await api.sessions(alice)) == ("INVALID", 3, [])
    before = await api.mute(alice, "b_shop")
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    after = await api.own_session(alice, "b_shop")
    assert {name for name in before if before[name] != after[name]} <= {"activeTs"}
    assert await api.sessions(alice) == []
    await api.send(others[0], alice, subBiz="shop")
    gateway = await api.own_session(alice, "b_shop")
    assert (gateway["status"], gateway["priority"], gateway["muteStatus"]) == ("ACTIVE", 3, True)
    assert (gateway["unreadCount"], await api.total_unread(alice)) == (1, 0)


async def test_one_call_reads_more_sessions_than_one_lock_covers(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.sessions.reading.MAX_SESSIONS", 40)
    (alice,) = await api.create_users("alice")
    others = await api.create_many_users(f"u{secrets.token_hex(4)}", 50)
    await gather_all(*(api.send(other, alice, subBiz="shop") for other in others))
    device = await api.listen(alice, LIVE_SESSIONS)
    gateway = await api.mark_read(alice, "b_shop")
    assert (gateway["unreadCount"], await api.total_unread(alice)) == (0, 0)
    events = await device.take(2)
    assert {event["reason"] for event in events} == {"READ"}
    inside = [name for event in events for name in conversation_ids(event["sessions"][:-1])]
    assert sorted(inside) == sorted(private_id(alice, other, "shop") for other in others)
    assert events[-1]["sessions"][-1] == gateway
    await device.expect_no_event(0.05)
    await api.wait_until_idle()
    for other in (others[0], others[-1]):
        assert (await api.own_session(other, private_id(alice, other, "shop")))["peerReadSeq"] == 1

"""ackDelivered: how far messages arrived, and who learns of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, Api, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.receipt_calls import Receipts, receipt_advanced, without_cursor
from tests.api.session_calls import ACK


async def cursor_of(api: Api, user: str) -> str:
    cursor: str = (await api.data(user, "{ syncSessions { cursor } }"))["syncSessions"]["cursor"]
    return cursor


async def test_acknowledging_moves_what_was_delivered_and_nothing_that_was_read(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(3):
        await api.send(alice, bob)
    before = await api.own_session(bob, conversation)
    session = await api.ack(bob, conversation, 2)
    assert (session["deliveredSeq"], session["readSeq"], session["unreadCount"]) == (2, 0, 3)
    assert session["activeTs"] > before["activeTs"]
    same = ("deliveredSeq", "activeTs")
    assert {n: v for n, v in session.items() if n not in same} == {n: v for n, v in before.items() if n not in same}
    assert await api.own_session(bob, conversation) == session
    assert await api.total_unread(bob) == 3


async def test_acknowledging_leaves_the_mark_of_being_unread(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    marked = await api.set_unread(bob, private_id(alice, bob))
    session = await api.ack(bob, private_id(alice, bob), 1)
    assert session["unreadStatus"] is True
    assert session["writeTs"] == marked["writeTs"]


@pytest.mark.parametrize("seq", [3, 4, 2_147_483_647])
async def test_past_the_newest_message_means_the_newest(api: Api, seq: int) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(3):
        await api.send(alice, bob)
    assert (await api.ack(bob, private_id(alice, bob), seq))["deliveredSeq"] == 3
    await api.wait_until_idle()
    peer = await api.own_session(alice, private_id(alice, bob))
    assert (peer["peerDeliveredSeq"], peer["peerReadSeq"]) == (3, 0)
    await api.send(alice, bob)
    assert (await api.own_session(bob, private_id(alice, bob)))["deliveredSeq"] == 3


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_acknowledging_what_is_known_changes_nothing_and_tells_nobody(api: Api, kind: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
    for _ in range(3):
        await api.send(alice, conversation if kind == "group" else bob)
    known = await api.ack(bob, conversation, 2)
    await api.wait_until_idle()
    listeners = [await api.listen(user, query) for user in (alice, bob) for query in (LIVE_SESSIONS, LIVE_MESSAGES)]
    stored, cursor = await api.stored_documents(), await cursor_of(api, bob)
    for seq in (2, 1, 0):
        assert await api.ack(bob, conversation, seq) == known
    assert await api.stored_documents() == stored
    assert await cursor_of(api, bob) == cursor
    for listener in listeners:
        await listener.expect_no_event(0.03)


async def test_what_was_read_or_sent_is_delivered_already(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    await api.send(alice, bob)
    read = await api.mark_read(bob, conversation)
    assert await api.ack(bob, conversation, 1) == read
    sent = (await api.send(bob, alice))["session"]
    assert await api.ack(bob, conversation, 2) == sent | {
        "lastMessage": (await api.own_session(bob, conversation))["lastMessage"]
    }


async def test_what_is_deleted_is_not_received_any_more(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    message = (await api.send(alice, bob))["message"]
    deleted = await api.delete(bob, conversation)
    stored = await api.stored_documents()
    assert await api.ack(bob, conversation, 1) == deleted
    assert await api.stored_documents() == stored
    assert await Receipts(api).statuses(alice, message) == {bob: "SENT"}
    # What comes after it can be, and then what was before counts as received too: marks are high-water marks.
    await api.send(alice, bob)
    assert (await api.ack(bob, conversation, 2))["deliveredSeq"] == 2
    assert await Receipts(api).statuses(alice, message) == {bob: "DELIVERED"}


@pytest.mark.parametrize("seq", [-1, -2_147_483_648])
async def test_a_negative_position_is_refused(api: Api, seq: int) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    stored = await api.stored_documents()
    assert await api.expect_refusal(bob, ACK, id=private_id(alice, bob), seq=seq) == Refusal("INVALID_INPUT", "upToSeq")
    assert await api.stored_documents() == stored
    assert (await api.own_session(bob, private_id(alice, bob)))["deliveredSeq"] == 0


async def test_what_is_not_ones_own_can_not_be_acknowledged(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.send(alice, bob)
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    stored = await api.stored_documents()
    for conversation in (
        private_id(alice, bob),
        group,
        private_id(carol, dave),
        "g_1",
        "b_shop",
        f"s_{dave}_{group}",
        "",
        "x",
    ):
        refusal = await api.expect_refusal(dave, ACK, id=conversation, seq=1)
        assert refusal == Refusal("NOT_FOUND", "conversationId"), conversation
    assert await api.stored_documents() == stored


async def test_a_gateway_is_not_acknowledged_but_what_is_inside_is(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, subBiz="shop")
    await api.sessions(bob)
    stored = await api.stored_documents()
    assert await api.expect_refusal(bob, ACK, id="b_shop", seq=1) == Refusal("INVALID_INPUT", "conversationId")
    assert await api.stored_documents() == stored
    live = await api.listen(bob, LIVE_SESSIONS)
    session = await api.ack(bob, private_id(alice, bob, "shop"), 1)
    assert session["deliveredSeq"] == 1
    event = await live.next()
    assert event["reason"] == "DELIVERED"
    assert [s["conversation"]["id"] for s in event["sessions"]] == [private_id(alice, bob, "shop"), "b_shop"]


async def test_both_devices_and_the_sender_are_told_once(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(3):
        await api.send(alice, bob)
    await api.wait_until_idle()
    told = [await api.listen(user) for user in (alice, bob, bob)]
    synced = [await api.listen(bob, LIVE_SESSIONS) for _ in range(2)]
    sender_synced = await api.listen(alice, LIVE_SESSIONS)
    session = await api.ack(bob, conversation, 3)
    for device in told:
        assert without_cursor(await device.next()) == receipt_advanced(conversation, bob, "DELIVERED", 3)
    for device in synced:
        event = await device.next()
        assert (event["reason"], event["sessions"], event["totalUnread"]) == ("DELIVERED", [session], 3)
    for device in (*told, *synced, sender_synced):
        await device.expect_no_event(0.03)


async def test_in_a_group_those_are_told_who_sent_what_arrived(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    await api.send(alice, group)
    await api.ack(dave, group, 1)
    await api.send(bob, group)
    await api.wait_until_idle()
    listeners = {user: await api.listen(user) for user in (alice, bob, carol)}
    await api.ack(dave, group, 2)
    assert without_cursor(await listeners[bob].next()) == receipt_advanced(group, dave, "DELIVERED", 2)
    await api.ack(carol, group, 2)
    for user in (alice, bob, carol):
        assert without_cursor(await listeners[user].next()) == receipt_advanced(group, carol, "DELIVERED", 2)
    for listener in listeners.values():
        await listener.expect_no_event(0.05)


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_what_is_delivered_and_then_read_is_told_in_that_order(api: Api, kind: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
    await api.send(alice, conversation if kind == "group" else bob)
    sender = await api.listen(alice)
    await api.ack(bob, conversation, 1)
    await api.mark_read(bob, conversation)
    assert [without_cursor(event) for event in await sender.take(2)] == [
        receipt_advanced(conversation, bob, "DELIVERED", 1),
        receipt_advanced(conversation, bob, "READ", 1),
    ]
    await sender.expect_no_event(0.03)


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_what_is_read_at_once_is_told_as_read_only(api: Api, kind: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
    await api.send(alice, conversation if kind == "group" else bob)
    await api.wait_until_idle()
    sender = await api.listen(alice)
    await api.mark_read(bob, conversation)
    assert without_cursor(await sender.next()) == receipt_advanced(conversation, bob, "READ", 1)
    await api.ack(bob, conversation, 1)
    await api.wait_until_idle()
    await sender.expect_no_event(0.03)


async def test_acknowledgements_in_any_order_end_at_the_furthest(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(6):
        await api.send(alice, bob)
    sender = await api.listen(alice)
    answers = await gather_all(*(api.ack(bob, conversation, seq) for seq in (1, 5, 2, 6, 3, 4) * 2))
    assert max(session["deliveredSeq"] for session in answers) == 6
    assert (await api.own_session(bob, conversation))["deliveredSeq"] == 6
    await api.wait_until_idle()
    seqs = [event["seq"] for event in sender.pop_events()]
    assert seqs == sorted(set(seqs)) and seqs[-1] == 6


async def test_the_other_persons_ticks_move_their_session_as_seen_by_who_was_away(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("away") as api:
        alice, bob = await api.create_users("alice", "bob")
        conversation = private_id(alice, bob)
        for _ in range(2):
            await api.send(alice, bob)
        live = await api.listen(alice)
        await live.stop()
        since = await cursor_of(api, alice)
        await api.wait_until_idle()
        await api.ack(bob, conversation, 1)
        await api.mark_read(bob, conversation)
        await api.wait_until_idle()
        back = await api.subscribe(alice, LIVE_MESSAGES, since=since)
        missed = [without_cursor(event) for event in await back.take(2)]
        assert missed == [
            receipt_advanced(conversation, bob, "DELIVERED", 1),
            receipt_advanced(conversation, bob, "READ", 2),
        ]
        assert (await back.next())["__typename"] == "CaughtUp"


@pytest.mark.parametrize(
    ("act", "ticks"),
    [(lambda api: api.ack, (0, 2)), (lambda api: api.mark_read, (2, 2))],
    ids=["delivered", "read"],
)
async def test_a_sender_who_is_not_in_the_cache_finds_the_ticks(
    open_api: OpenApi, deployments: Deployments, act: Callable[[Api], Any], ticks: tuple[int, int]
) -> None:
    async with open_api("cold") as api:
        alice, bob = await api.create_users("alice", "bob")
        conversation = private_id(alice, bob)
        for _ in range(2):
            await api.send(alice, bob)
        await api.wait_until_idle()
        deployments.evict_user_state("cold", alice)
        await act(api)(bob, conversation, 2)
        await api.wait_until_idle()
        session = await api.own_session(alice, conversation)
        assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == ticks


async def test_devices_that_apply_events_show_what_a_fresh_client_is_shown(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    devices = [ApiDevice(api, user) for user in (alice, bob)]
    for device in devices:
        await device.start()
    for _ in range(3):
        await api.send(alice, bob)
        await api.send(alice, group)
    await api.ack(bob, private_id(alice, bob), 2)
    await api.ack(bob, group, 3)
    await api.mark_read(bob, private_id(alice, bob), 1)
    await api.wait_until_idle()
    for device in devices:
        await device.agrees()
        await device.stop()


async def test_what_is_not_durable_yet_has_not_arrived_though_what_came_after_it_has(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    go_on, delivery = asyncio.Event(), api.services.app.delivery
    commit = delivery.commit_stage._commit_messages

    async def late(batch: Any) -> None:
        monkeypatch.setattr(delivery.commit_stage, "_commit_messages", commit)
        await go_on.wait()
        await commit(batch)

    monkeypatch.setattr(delivery.commit_stage, "_commit_messages", late)
    sending = asyncio.create_task(api.send(alice, group, "held up"))
    await asyncio.sleep(0.1)
    assert (await api.send(carol, group, "through"))["message"]["seq"] == 2
    assert (await api.ack(bob, group, 1))["deliveredSeq"] == 0
    go_on.set()
    await sending
    assert (await api.own_session(bob, group))["deliveredSeq"] == 0
    assert (await api.ack(bob, group, 1))["deliveredSeq"] == 1

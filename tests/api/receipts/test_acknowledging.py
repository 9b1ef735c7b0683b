"""ackDelivered: the delivered position and its receipts. Rules shared with markRead: test_reported_positions.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, Api, Refusal, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.events import current_cursor
from tests.api.paused_step import PausedStep
from tests.api.receipt_calls import Receipts, receipt_advanced, without_cursor
from tests.api.session_calls import ACK


async def test_acknowledging_moves_only_the_delivered_position(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(3):
        await api.send(alice, bob)
    before = await api.own_session(bob, conversation)
    session = await api.ack(bob, conversation, 2)
    assert (session["deliveredSeq"], session["readSeq"], session["unreadCount"]) == (2, 0, 3)
    assert session["activeTs"] > before["activeTs"]
    moved_fields = ("deliveredSeq", "activeTs")
    assert {n: v for n, v in session.items() if n not in moved_fields} == {
        n: v for n, v in before.items() if n not in moved_fields
    }
    assert await api.own_session(bob, conversation) == session
    assert await api.total_unread(bob) == 3


async def test_acknowledging_keeps_the_unread_mark(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    marked = await api.set_unread(bob, private_id(alice, bob))
    session = await api.ack(bob, private_id(alice, bob), 1)
    assert session["unreadStatus"] is True
    assert session["writeTs"] == marked["writeTs"]


async def test_messages_read_or_sent_count_as_delivered(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    await api.send(alice, bob)
    read = await api.mark_read(bob, conversation)
    assert await api.ack(bob, conversation, 1) == read
    sent = (await api.send(bob, alice))["session"]
    assert await api.ack(bob, conversation, 2) == sent | {
        "lastMessage": (await api.own_session(bob, conversation))["lastMessage"]
    }


async def test_messages_of_a_deleted_session_are_not_acknowledged(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    message = (await api.send(alice, bob))["message"]
    deleted = await api.delete(bob, conversation)
    stored = await api.stored_hashes()
    assert await api.ack(bob, conversation, 1) == deleted
    assert await api.stored_hashes() == stored
    assert await Receipts(api).statuses(alice, message) == {bob: "SENT"}
    # A later message can be acknowledged. That covers the messages before it too: positions are high-water marks.
    await api.send(alice, bob)
    assert (await api.ack(bob, conversation, 2))["deliveredSeq"] == 2
    assert await Receipts(api).statuses(alice, message) == {bob: "DELIVERED"}


async def test_acknowledging_works_inside_a_sub_biz_but_not_for_its_gateway(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, subBiz="shop")
    await api.sessions(bob)
    stored = await api.stored_hashes()
    assert await api.expect_refusal(bob, ACK, id="b_shop", seq=1) == Refusal("INVALID_INPUT", "conversationId")
    assert await api.stored_hashes() == stored
    live = await api.listen(bob, LIVE_SESSIONS)
    session = await api.ack(bob, private_id(alice, bob, "shop"), 1)
    assert session["deliveredSeq"] == 1
    event = await live.next()
    assert event["reason"] == "DELIVERED"
    assert [s["conversation"]["id"] for s in event["sessions"]] == [private_id(alice, bob, "shop"), "b_shop"]


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_delivered_and_read_receipts_arrive_in_that_order(api: Api, kind: str) -> None:
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
async def test_reading_an_undelivered_message_sends_only_the_read_receipt(api: Api, kind: str) -> None:
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


async def test_receipts_are_replayed_to_a_sender_who_was_away(open_api: OpenApi, deployments: Deployments) -> None:
    async with open_api("away") as api:
        alice, bob = await api.create_users("alice", "bob")
        conversation = private_id(alice, bob)
        for _ in range(2):
            await api.send(alice, bob)
        live = await api.listen(alice)
        await live.stop()
        since = await current_cursor(api, alice)
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
    ("report", "peer_positions"),
    [(lambda api: api.ack, (0, 2)), (lambda api: api.mark_read, (2, 2))],
    ids=["delivered", "read"],
)
async def test_a_sender_who_is_not_cached_finds_the_peers_positions(
    open_api: OpenApi, deployments: Deployments, report: Callable[[Api], Any], peer_positions: tuple[int, int]
) -> None:
    async with open_api("cold") as api:
        alice, bob = await api.create_users("alice", "bob")
        conversation = private_id(alice, bob)
        for _ in range(2):
            await api.send(alice, bob)
        await api.wait_until_idle()
        deployments.evict_user_state("cold", alice)
        await report(api)(bob, conversation, 2)
        await api.wait_until_idle()
        session = await api.own_session(alice, conversation)
        assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == peer_positions


async def test_devices_that_apply_receipts_match_a_fresh_client(api: Api) -> None:
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


async def test_a_message_is_not_delivered_before_it_is_durable(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    paused = PausedStep(api.services.app.delivery.commit_stage, "_commit_messages", monkeypatch, once=True)
    first_send = asyncio.create_task(api.send(alice, group, "delayed"))
    await paused.reached.wait()
    assert (await api.send(carol, group, "committed first"))["message"]["seq"] == 2
    assert (await api.ack(bob, group, 1))["deliveredSeq"] == 0
    paused.resume.set()
    await first_send
    assert (await api.own_session(bob, group))["deliveredSeq"] == 0
    assert (await api.ack(bob, group, 1))["deliveredSeq"] == 1

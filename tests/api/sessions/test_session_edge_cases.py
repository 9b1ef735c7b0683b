"""Edge cases of sessions: large numbers, lost answers of the databases, and in-flight messages."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from resolvers.groups import group_creation
from store.base.errors import Unreachable
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind, ReservedMessage
from subscriptions.delivery.event_publisher import EventPublisher
from tests.api.client import CREATE_GROUP, LIVE_SESSIONS, SYNC, Api, gather_all, private_id, wait_until
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import MARK_READ
from tests.api.sub_biz import create_shop_conversations
from tests.clock import ManualClock


async def test_thousands_of_sessions_can_be_found_by_conversation(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    conversation = ConversationId(private_id(alice, bob))
    names = [*(ConversationId(f"g_{number}") for number in range(9_000)), conversation]
    result = await api.services.app.store.sessions.find_many(UserId(alice), names)
    assert [session.conversation for session in result.sessions] == [conversation]


async def test_a_first_synchronisation_skips_sessions_deleted_before(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(5)))
    for other in others:
        await api.send(other, alice)
    await api.delete(alice, private_id(alice, others[0]))
    page = (await api.data(alice, SYNC, first=2))["syncSessions"]
    listed = [session["conversation"]["id"] for session in page["sessions"]]
    # A session deleted between two pages is sent, because a client may already show it.
    await api.delete(alice, listed[0])
    while page["hasMore"]:
        page = (await api.data(alice, SYNC, first=2, since=page["cursor"]))["syncSessions"]
        assert not page["reset"]
        listed += [f"{session['status']} {session['conversation']['id']}" for session in page["sessions"]]
    assert listed[-1] == f"INVALID {listed[0]}"
    assert all(f"INVALID {private_id(alice, others[0])}" != name for name in listed)
    assert len(listed) == 5
    assert (await api.data(alice, SYNC, since=page["cursor"]))["syncSessions"]["sessions"] == []


async def test_reading_past_an_in_flight_message_stops_before_it(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = ConversationId(private_id(alice, bob))
    for _ in range(3):
        await api.send(bob, alice)
    app = api.services.app
    in_flight = Message(MessageId(app.store.ids.next()), conversation, UserId(bob), MessageKind.TEXT, "under way")
    reserved = await app.store.outbox.reserve(in_flight)
    assert isinstance(reserved, ReservedMessage)
    await api.send(bob, alice)
    assert (await api.mark_read(alice, conversation, 4))["readSeq"] == 3
    await app.delivery.send(reserved)
    await api.wait_until_idle()
    assert (await api.unread(alice, conversation), await api.total_unread(alice)) == (2, 2)
    assert (await api.mark_read(alice, conversation, 4))["unreadCount"] == 1


async def test_a_receipt_is_sent_although_the_answer_of_mongodb_was_lost(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    conversation = private_id(alice, bob)
    listener = await api.listen(bob)
    rows = type(api.services.app.store.session_rows)
    write = rows.write

    async def write_and_fail(*args: Any) -> None:
        await write(*args)
        raise Unreachable("the answer was lost")

    monkeypatch.setattr(rows, "write", write_and_fail)
    assert (await api.expect_refusal(alice, MARK_READ, id=conversation)).code == "UNAVAILABLE"
    monkeypatch.undo()
    assert (await api.mark_read(alice, conversation))["unreadCount"] == 0
    assert (await listener.next())["status"] == "READ"
    assert (await api.own_session(bob, conversation))["peerReadSeq"] == 1


async def test_a_receipt_is_sent_once_the_databases_answer_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(bob, group)
    listener = await api.listen(bob)
    messages = type(api.services.app.store.messages)
    list_senders, failed = messages.list_senders, list[object]()

    async def fail(*args: Any) -> Any:
        if len(failed) < 2:
            failed.append(args)
            raise Unreachable("an election")
        return await list_senders(*args)

    monkeypatch.setattr(messages, "list_senders", fail)
    await api.ack(alice, group, 1)
    assert (await listener.next())["status"] == "DELIVERED"
    assert len(failed) == 2


async def test_repeating_create_group_completes_an_interrupted_creation(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await gather_all(*(api.sessions(user) for user in (alice, bob, carol)))

    async def fail_announcement(*_: object) -> None:
        raise Unreachable("the server is gone")

    group_input = {"name": "Hikers", "memberIds": [bob, carol], "idempotencyKey": "made"}
    monkeypatch.setattr(group_creation, "_announce_members", fail_announcement)
    assert (await api.expect_refusal(alice, CREATE_GROUP, input=group_input)).code == "UNAVAILABLE"
    monkeypatch.undo()
    group = (await api.data(alice, CREATE_GROUP, input=group_input))["createGroup"]["id"]
    for user in (alice, bob, carol):
        assert (await api.own_session(user, group))["status"] == "ACTIVE"


async def test_mutes_ending_at_once_in_a_sub_biz_keep_their_times_after_a_loss(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("at once", clock) as api:
        alice, _, conversations = await create_shop_conversations(api, 2, 1)
        until = clock.ms + 20_000
        for conversation in conversations:
            await api.mute(alice, conversation, until)
        clock.ms = until + 1_000
        before = await api.all_sessions(alice)
        clock.ms = until + 300_000
        deployments.flush_redis("at once")
        after = await api.all_sessions(alice)
        assert {name: s["activeTs"] for name, s in after.items()} == {name: s["activeTs"] for name, s in before.items()}
        assert all(before[conversation]["activeTs"] >= until for conversation in conversations)


async def test_a_mute_with_a_distant_end_is_forgotten_without_listeners(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    await api.mute(alice, private_id(alice, bob), int(time.time() * 1000) + 10**10)
    known_mutes = len(api.services.app.hub._mutes)
    for _ in range(5):
        listener = await api.listen(alice, LIVE_SESSIONS)
        await listener.stop()
    assert len(api.services.app.hub._mutes) == known_mutes


async def test_a_session_that_moves_while_a_sub_biz_is_read_is_read_too(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.sessions.reading.MAX_SESSIONS", 2)
    alice, others, conversations = await create_shop_conversations(api, 6, 0)
    for other in others:
        await api.send(other, alice, subBiz="shop")
    store = api.services.app.store
    hold, calls = store.locks.hold, list[object]()

    def recording_hold(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return hold(*args, **options)

    monkeypatch.setattr(type(store.locks), "hold", lambda locks, *args, **options: recording_hold(*args, **options))
    reading = asyncio.create_task(api.mark_read(alice, "b_shop"))

    async def has_begun() -> bool:
        return bool(calls)

    await wait_until(has_begun)
    # The last session of the list moves to its top.
    await api.send(others[0], alice, subBiz="shop")
    await reading
    sessions = await gather_all(*(api.own_session(alice, conversation) for conversation in conversations))
    assert sum(session["unreadCount"] for session in sessions) <= 1


async def test_other_servers_receive_a_change_whose_tick_could_not_be_stored(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    listener = await other_api.listen(alice)
    publish = EventPublisher.publish

    async def publish_at_another_time(*args: Any) -> None:
        await publish(*args[:4])

    # Otherwise alice takes the time of the receipt, which MongoDB has, as her tick.
    monkeypatch.setattr(EventPublisher, "publish", publish_at_another_time)
    rows, failed = type(api.services.app.store.session_rows), list[object]()

    async def fail(_: object, ticks: list[object]) -> None:
        if ticks:
            failed.append(ticks)
            raise Unreachable("an election")

    monkeypatch.setattr(rows, "keep_ticks", fail)
    await api.mark_read(bob, private_id(alice, bob))
    assert (await listener.next())["status"] == "READ"
    assert failed


@pytest.mark.parametrize("cursor_owner", ["another list", "another user"])
async def test_a_cursor_of_another_list_is_refused(api: Api, cursor_owner: str) -> None:
    alice, others, _ = await create_shop_conversations(api, 2, 0)
    for other in others:
        await api.send(other, alice)
    query = (
        "query ($first: Int, $after: String, $subBiz: String) { sessions(first: $first, after: "
        "$after, subBiz: $subBiz) { pageInfo { endCursor } } }"
    )
    cursor = (await api.data(alice, query, first=1))["sessions"]["pageInfo"]["endCursor"]
    request = (alice, "shop") if cursor_owner == "another list" else (others[0], None)
    refusal = await api.expect_refusal(request[0], query, first=1, after=cursor, subBiz=request[1])
    assert (refusal.code, refusal.field) == ("INVALID_INPUT", "after")


async def test_a_deleted_session_can_neither_be_marked_unread_nor_read(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    conversation = private_id(alice, bob)
    deleted = await api.delete(alice, conversation)
    assert await api.set_unread(alice, conversation) == deleted
    assert await api.mark_read(alice, conversation) == deleted
    await api.send(bob, alice)
    assert (await api.own_session(alice, conversation))["unreadStatus"] is False

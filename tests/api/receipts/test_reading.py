"""Reading: markRead, reading by sending, and who learns of either."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import LIVE_SESSIONS, SEND, Api, Json, Refusal, gather_all, message_input, private_id
from tests.api.session_calls import MARK_READ


def receipt(conversation: str, user: str, seq: int) -> Json:
    return {
        "__typename": "ReceiptAdvanced",
        "conversationId": conversation,
        "user": {"id": user},
        "status": "READ",
        "seq": seq,
    }


def without_cursor(event: Json) -> Json:
    return {name: value for name, value in event.items() if name != "cursor"}


async def test_marking_read_clears_the_badge_and_answers_the_session_as_it_is_then(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(3):
        await api.send(alice, bob)
    before = await api.session(bob, private_id(alice, bob))
    assert before is not None
    session = await api.mark_read(bob, private_id(alice, bob))
    assert (session["readSeq"], session["deliveredSeq"], session["writeSeq"]) == (3, 3, 3)
    assert session["unreadCount"] == await api.total_unread(bob) == 0
    assert session["activeTs"] > before["activeTs"]
    assert session["writeTs"] == before["writeTs"]
    assert session == await api.session(bob, private_id(alice, bob))


@pytest.mark.parametrize(("seq", "read"), [(1, 1), (2, 2), (3, 3), (4, 3), (2_147_483_647, 3)])
async def test_reading_up_to_a_message_leaves_those_after_it(api: Api, seq: int, read: int) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(3):
        await api.send(alice, bob)
    session = await api.mark_read(bob, private_id(alice, bob), seq)
    assert (session["readSeq"], session["unreadCount"]) == (read, 3 - read)
    assert await api.total_unread(bob) == 3 - read
    await api.wait_until_idle()
    peer = await api.session(alice, private_id(alice, bob))
    assert peer is not None
    assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (read, read)


@pytest.mark.parametrize("seq", [0, 1, 2, 3, None])
async def test_reading_what_is_read_changes_nothing_and_tells_nobody(api: Api, seq: int | None) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(3):
        await api.send(alice, bob)
    conversation = private_id(alice, bob)
    read = await api.mark_read(bob, conversation)
    await api.wait_until_idle()
    listeners = [await api.listen(user, query) for user in (alice, bob) for query in (LIVE_SESSIONS, LIVE_EVENTS)]
    stored, cursor = await api.stored_documents(), await cursor_of(api, bob)
    assert await api.mark_read(bob, conversation, seq) == read
    assert await api.stored_documents() == stored
    assert await cursor_of(api, bob) == cursor
    for listener in listeners:
        await listener.expect_no_event(0.03)


LIVE_EVENTS = "subscription { messageEvents { __typename ... on CaughtUp { reset } } }"


async def cursor_of(api: Api, user: str) -> str:
    cursor: str = (await api.data(user, "{ syncSessions { cursor } }"))["syncSessions"]["cursor"]
    return cursor


@pytest.mark.parametrize("seq", [-1, -2_147_483_648])
async def test_a_negative_position_is_refused(api: Api, seq: int) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    stored = await api.stored_documents()
    refusal = await api.expect_refusal(bob, MARK_READ, id=private_id(alice, bob), seq=seq)
    assert refusal == Refusal("INVALID_INPUT", "upToSeq")
    assert await api.stored_documents() == stored
    assert await api.unread(bob, private_id(alice, bob)) == 1


async def test_what_is_not_ones_own_can_not_be_read(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.send(alice, bob)
    group = await api.create_group(alice, bob, carol)
    stored = await api.stored_documents()
    foreign = (
        private_id(alice, bob),
        group,
        private_id(carol, dave),
        private_id(dave, "nobody"),
        "g_1",
        f"s_{dave}_{group}",
        "",
    )
    for conversation in foreign:
        refusal = await api.expect_refusal(dave, MARK_READ, id=conversation)
        assert refusal == Refusal("NOT_FOUND", "conversationId"), conversation
    assert await api.stored_documents() == stored


async def test_an_empty_group_is_read_already(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    before = await api.session(bob, group)
    assert await api.mark_read(bob, group) == before
    assert await api.mark_read(bob, group, 7) == before


async def test_reading_tells_the_sender_and_both_devices_of_the_reader_once(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(3):
        await api.send(alice, bob)
    await api.wait_until_idle()
    told = [await api.listen(user) for user in (alice, bob, bob)]
    synced = [await api.listen(bob, LIVE_SESSIONS) for _ in range(2)]
    sender_synced = await api.listen(alice, LIVE_SESSIONS)
    session = await api.mark_read(bob, conversation)
    for device in told:
        assert without_cursor(await device.next()) == receipt(conversation, bob, 3)
    for device in synced:
        event = await device.next()
        assert (event["reason"], event["hasMore"], event["reset"]) == ("READ", False, False)
        assert event["sessions"] == [session]
        assert event["totalUnread"] == 0
    for device in (*told, *synced, sender_synced):
        await device.expect_no_event(0.03)


async def test_the_sender_finds_how_far_was_read(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(2):
        await api.send(alice, bob)
    before = (await api.sessions(alice))[0]
    assert (before["peerReadSeq"], before["peerDeliveredSeq"]) == (0, 0)
    cursor = await cursor_of(api, alice)
    await api.mark_read(bob, private_id(alice, bob))
    await api.wait_until_idle()
    after = (await api.sessions(alice))[0]
    assert (after["peerReadSeq"], after["peerDeliveredSeq"]) == (2, 2)
    assert after["activeTs"] > before["activeTs"]
    query = "query ($since: Cursor) { syncSessions(since: $since) { reset sessions { id peerReadSeq } } }"
    delta = (await api.data(alice, query, since=cursor))["syncSessions"]
    assert delta == {"reset": False, "sessions": [{"id": after["id"], "peerReadSeq": 2}]}


async def test_only_members_who_wrote_what_was_read_are_told(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    await api.send(alice, group)
    await api.mark_read(dave, group)
    await api.send(bob, group)
    await api.wait_until_idle()
    listeners = {user: await api.listen(user) for user in (alice, bob, carol)}
    await api.mark_read(dave, group)
    assert without_cursor(await listeners[bob].next()) == receipt(group, dave, 2)
    await api.mark_read(carol, group)
    for user in (alice, bob, carol):
        assert without_cursor(await listeners[user].next()) == receipt(group, carol, 2)
    for listener in listeners.values():
        await listener.expect_no_event(0.05)
    session = await api.session(alice, group)
    assert session is not None
    assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == (None, None)


async def test_sending_reads_and_tells_those_who_wrote_but_not_oneself(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(2):
        await api.send(alice, bob)
    await api.wait_until_idle()
    assert await api.unread(bob, conversation) == 2
    listeners = {user: await api.listen(user) for user in (alice, bob)}
    synced = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob)]
    session = (await api.send(bob, alice, "I have read that"))["session"]
    assert (session["readSeq"], session["unreadCount"]) == (3, 0)
    assert await api.total_unread(bob) == 0
    assert (await listeners[alice].next())["message"]["seq"] == 3
    assert without_cursor(await listeners[alice].next()) == receipt(conversation, bob, 3)
    assert (await listeners[bob].next())["message"]["seq"] == 3
    for listener in (*listeners.values(), *synced):
        await listener.expect_no_event(0.03)
    peer = await api.session(alice, conversation)
    assert peer is not None
    assert (peer["peerReadSeq"], peer["readSeq"], peer["unreadCount"]) == (3, 2, 1)


async def test_sending_with_nothing_to_read_sends_no_receipt(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await api.mark_read(bob, private_id(alice, bob))
    await api.wait_until_idle()
    listener = await api.listen(alice)
    await api.send(bob, alice)
    assert (await listener.next())["__typename"] == "MessageCreated"
    await api.wait_until_idle()
    await listener.expect_no_event(0.03)


async def test_sending_reads_for_one_who_did_nothing_else_before(api: Api) -> None:
    """Somebody answers from a notification: their first request of the day is the message."""
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(2):
        await api.send(alice, bob)
    await api.wait_until_idle()
    listener = await api.listen(alice)
    query = SEND.replace("session {", "session @skip(if: true) {")
    await api.data(bob, query, input=message_input(alice, "read from the notification"))
    assert (await listener.next())["message"]["seq"] == 3
    assert without_cursor(await listener.next(within=0.5)) == receipt(conversation, bob, 3)
    peer = await api.session(alice, conversation)
    assert peer is not None
    assert peer["peerReadSeq"] == 3


async def test_whoever_wrote_a_message_has_read_it(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.sessions(alice)
    for seq in (1, 2):
        await api.send(bob, alice)
        await api.wait_until_idle()
        session = await api.session(alice, private_id(alice, bob))
        assert session is not None
        assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == (seq, seq)


async def test_reading_a_system_message_is_nothing_to_tell_who_caused_it(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.invite(bob, group, dave)
    inviter, own = await api.listen(bob), await api.listen(alice)
    session = await api.mark_read(alice, group)
    assert (session["readSeq"], session["unreadCount"]) == (1, 0)
    assert without_cursor(await own.next()) == receipt(group, alice, 1)
    await api.wait_until_idle()
    await inviter.expect_no_event(0.03)


async def test_what_was_marked_read_before_stays_read_whatever_comes_later(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(4):
        await api.send(alice, bob)
    seqs = [3, 1, 4, 2, 3]
    answers = [await api.mark_read(bob, conversation, seq) for seq in seqs]
    assert [session["readSeq"] for session in answers] == [3, 3, 4, 4, 4]


async def test_devices_that_read_at_once_end_at_the_furthest(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(6):
        await api.send(alice, bob)
    synced = await api.listen(bob, LIVE_SESSIONS)
    answers = await gather_all(*(api.mark_read(bob, conversation, seq) for seq in (1, 5, 2, 6, 3, 4) * 2))
    assert max(session["readSeq"] for session in answers) == 6
    session = await api.session(bob, conversation)
    assert session is not None
    assert (session["readSeq"], session["unreadCount"]) == (6, 0)
    await asyncio.sleep(0.02)
    positions = [event["sessions"][0] for event in synced.pop_events()]
    assert [p["readSeq"] for p in positions] == sorted({p["readSeq"] for p in positions})
    assert [p["activeTs"] for p in positions] == sorted({p["activeTs"] for p in positions})
    assert positions[-1] == session


async def test_reading_while_messages_come_in_leaves_exactly_what_was_not_read(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    await api.send(alice, bob)

    async def read() -> None:
        for _ in range(10):
            await api.mark_read(bob, conversation)

    await gather_all(read(), *(api.send(alice, bob) for _ in range(20)))
    session = await api.session(bob, conversation)
    assert session is not None
    assert session["writeSeq"] == 21
    assert session["unreadCount"] == await api.total_unread(bob) == 21 - session["readSeq"]

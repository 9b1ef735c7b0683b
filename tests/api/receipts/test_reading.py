"""markRead, and reading by sending. Rules shared with ackDelivered: test_reported_positions.py."""

from __future__ import annotations

from tests.api.client import LIVE_SESSIONS, SEND, SYNC, Api, gather_all, message_input, private_id
from tests.api.receipt_calls import receipt_advanced, without_cursor


async def test_mark_read_clears_the_unread_count_and_returns_the_session(api: Api) -> None:
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


async def test_marking_an_empty_group_read_changes_nothing(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    before = await api.session(bob, group)
    assert await api.mark_read(bob, group) == before
    assert await api.mark_read(bob, group, 7) == before


async def test_the_sender_finds_the_peers_read_position(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(2):
        await api.send(alice, bob)
    before = (await api.sessions(alice))[0]
    assert (before["peerReadSeq"], before["peerDeliveredSeq"]) == (0, 0)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    await api.mark_read(bob, private_id(alice, bob))
    await api.wait_until_idle()
    after = (await api.sessions(alice))[0]
    assert (after["peerReadSeq"], after["peerDeliveredSeq"]) == (2, 2)
    assert after["activeTs"] > before["activeTs"]
    query = "query ($since: Cursor) { syncSessions(since: $since) { reset sessions { id peerReadSeq } } }"
    delta = (await api.data(alice, query, since=cursor))["syncSessions"]
    assert delta == {"reset": False, "sessions": [{"id": after["id"], "peerReadSeq": 2}]}


async def test_sending_reads_earlier_messages_and_notifies_their_authors(api: Api) -> None:
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
    assert without_cursor(await listeners[alice].next()) == receipt_advanced(conversation, bob, "READ", 3)
    assert (await listeners[bob].next())["message"]["seq"] == 3
    for listener in (*listeners.values(), *synced):
        await listener.expect_no_event(0.03)
    peer = await api.session(alice, conversation)
    assert peer is not None
    assert (peer["peerReadSeq"], peer["readSeq"], peer["unreadCount"]) == (3, 2, 1)


async def test_sending_with_nothing_unread_sends_no_receipt(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await api.mark_read(bob, private_id(alice, bob))
    await api.wait_until_idle()
    listener = await api.listen(alice)
    await api.send(bob, alice)
    assert (await listener.next())["__typename"] == "MessageCreated"
    await api.wait_until_idle()
    await listener.expect_no_event(0.03)


async def test_sending_as_the_first_request_reads_too(api: Api) -> None:
    """A user who answers from a notification: the message is their first request."""
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(2):
        await api.send(alice, bob)
    await api.wait_until_idle()
    listener = await api.listen(alice)
    query = SEND.replace("session {", "session @skip(if: true) {")
    await api.data(bob, query, input=message_input(alice, "read from the notification"))
    assert (await listener.next())["message"]["seq"] == 3
    assert without_cursor(await listener.next()) == receipt_advanced(conversation, bob, "READ", 3)
    peer = await api.session(alice, conversation)
    assert peer is not None
    assert peer["peerReadSeq"] == 3


async def test_the_sender_of_a_message_has_read_it(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.sessions(alice)
    for seq in (1, 2):
        await api.send(bob, alice)
        await api.wait_until_idle()
        session = await api.session(alice, private_id(alice, bob))
        assert session is not None
        assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == (seq, seq)


async def test_reading_a_system_message_sends_no_receipt_to_its_cause(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.invite(bob, group, dave)
    inviter_device, reader_device = await api.listen(bob), await api.listen(alice)
    session = await api.mark_read(alice, group)
    assert (session["readSeq"], session["unreadCount"]) == (1, 0)
    assert without_cursor(await reader_device.next()) == receipt_advanced(group, alice, "READ", 1)
    await api.wait_until_idle()
    await inviter_device.expect_no_event(0.03)


async def test_the_read_position_never_goes_back(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(4):
        await api.send(alice, bob)
    seqs = [3, 1, 4, 2, 3]
    answers = [await api.mark_read(bob, conversation, seq) for seq in seqs]
    assert [session["readSeq"] for session in answers] == [3, 3, 4, 4, 4]


async def test_reading_during_arrivals_leaves_exactly_the_later_messages_unread(api: Api) -> None:
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

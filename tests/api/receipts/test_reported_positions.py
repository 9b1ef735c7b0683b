"""Rules that ackDelivered and markRead share: both report a position, and positions only grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, Api, Json, Refusal, gather_all, private_id
from tests.api.events import current_cursor
from tests.api.receipt_calls import receipt_advanced, without_cursor
from tests.api.session_calls import ACK, MARK_READ


@dataclass(frozen=True)
class Report:
    """One of the two mutations that report a position."""

    status: str
    field: str
    mutation: str
    call: Any

    async def send(self, api: Api, user: str, conversation: str, seq: int | None) -> Json:
        """Report a position. Return the session."""
        session: Json = await self.call(api, user, conversation, seq)
        return session

    def read_position(self, position: int) -> int:
        """Return how far a user has read who reported a position in a conversation that they have not read."""
        return position if self.status == "READ" else 0


DELIVERED = Report("DELIVERED", "deliveredSeq", ACK, Api.ack)
READ = Report("READ", "readSeq", MARK_READ, Api.mark_read)

both_reports = pytest.mark.parametrize("report", [DELIVERED, READ], ids=["ackDelivered", "markRead"])


@both_reports
@pytest.mark.parametrize(("seq", "position"), [(1, 1), (2, 2), (3, 3), (4, 3), (2_147_483_647, 3)])
async def test_a_position_ends_at_the_newest_message(api: Api, report: Report, seq: int, position: int) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(3):
        await api.send(alice, bob)
    session = await report.send(api, bob, conversation, seq)
    read = report.read_position(position)
    assert (session["deliveredSeq"], session["readSeq"], session["unreadCount"]) == (position, read, 3 - read)
    assert await api.total_unread(bob) == 3 - read
    await api.wait_until_idle()
    peer = await api.own_session(alice, conversation)
    assert (peer["peerDeliveredSeq"], peer["peerReadSeq"]) == (position, read)
    await api.send(alice, bob)
    assert (await api.own_session(bob, conversation))["deliveredSeq"] == position


@pytest.mark.parametrize(
    ("report", "first", "repeated"),
    [(DELIVERED, 2, (2, 1, 0)), (READ, 2, (2, 1, 0)), (READ, None, (0, 1, 2, 3, None))],
    ids=["delivered", "read in part", "read"],
)
@pytest.mark.parametrize("kind", ["private", "group"])
async def test_a_position_reported_before_changes_nothing(
    api: Api, kind: str, report: Report, first: int | None, repeated: Sequence[int | None]
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
    for _ in range(3):
        await api.send(alice, conversation if kind == "group" else bob)
    session = await report.send(api, bob, conversation, first)
    await api.wait_until_idle()
    listeners = [await api.listen(user, query) for user in (alice, bob) for query in (LIVE_SESSIONS, LIVE_MESSAGES)]
    stored, cursor = await api.stored_hashes(), await current_cursor(api, bob)
    for seq in repeated:
        assert await report.send(api, bob, conversation, seq) == session
    assert await api.stored_hashes() == stored
    assert await current_cursor(api, bob) == cursor
    for listener in listeners:
        await listener.expect_no_event(0.03)


@both_reports
@pytest.mark.parametrize("seq", [-1, -2_147_483_648])
async def test_a_negative_position_is_refused(api: Api, report: Report, seq: int) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    await api.send(alice, bob)
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(bob, report.mutation, id=conversation, seq=seq)
    assert refusal == Refusal("INVALID_INPUT", "upToSeq")
    assert await api.stored_hashes() == stored
    assert (await api.own_session(bob, conversation))["deliveredSeq"] == 0
    assert await api.unread(bob, conversation) == 1


@both_reports
async def test_a_conversation_of_others_is_not_found(api: Api, report: Report) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.send(alice, bob)
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    stored = await api.stored_hashes()
    for conversation in (
        private_id(alice, bob),
        group,
        private_id(carol, dave),
        private_id(dave, "nobody"),
        "g_1",
        "b_shop",
        f"s_{dave}_{group}",
        "",
        "x",
    ):
        refusal = await api.expect_refusal(dave, report.mutation, id=conversation, seq=1)
        assert refusal == Refusal("NOT_FOUND", "conversationId"), conversation
    assert await api.stored_hashes() == stored


@both_reports
async def test_the_users_devices_and_the_sender_receive_one_event(api: Api, report: Report) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(3):
        await api.send(alice, bob)
    await api.wait_until_idle()
    message_listeners = [await api.listen(user) for user in (alice, bob, bob)]
    session_listeners = [await api.listen(bob, LIVE_SESSIONS) for _ in range(2)]
    sender_sessions = await api.listen(alice, LIVE_SESSIONS)
    session = await report.send(api, bob, conversation, 3)
    for listener in message_listeners:
        assert without_cursor(await listener.next()) == receipt_advanced(conversation, bob, report.status, 3)
    for listener in session_listeners:
        event = await listener.next()
        assert (event["reason"], event["hasMore"], event["reset"]) == (report.status, False, False)
        assert (event["sessions"], event["totalUnread"]) == ([session], 3 - report.read_position(3))
    for listener in (*message_listeners, *session_listeners, sender_sessions):
        await listener.expect_no_event(0.03)


@both_reports
async def test_in_a_group_only_authors_of_the_covered_messages_get_a_receipt(api: Api, report: Report) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    await api.send(alice, group)
    await report.send(api, dave, group, 1)
    await api.send(bob, group)
    await api.wait_until_idle()
    listeners = {user: await api.listen(user) for user in (alice, bob, carol)}
    await report.send(api, dave, group, 2)
    assert without_cursor(await listeners[bob].next()) == receipt_advanced(group, dave, report.status, 2)
    await report.send(api, carol, group, 2)
    for user in (alice, bob, carol):
        assert without_cursor(await listeners[user].next()) == receipt_advanced(group, carol, report.status, 2)
    for listener in listeners.values():
        await listener.expect_no_event(0.05)
    session = await api.own_session(alice, group)
    assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == (None, None)


@both_reports
async def test_concurrent_reports_end_at_the_furthest_position(api: Api, report: Report) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(6):
        await api.send(alice, bob)
    await api.wait_until_idle()
    sender, device = await api.listen(alice), await api.listen(bob, LIVE_SESSIONS)
    answers = await gather_all(*(report.send(api, bob, conversation, seq) for seq in (1, 5, 2, 6, 3, 4) * 2))
    assert max(session[report.field] for session in answers) == 6
    session = await api.own_session(bob, conversation)
    assert (session[report.field], session["unreadCount"]) == (6, 6 - report.read_position(6))
    receipts = [await sender.next()]
    while receipts[-1]["seq"] < 6:
        receipts.append(await sender.next())
    seqs = [event["seq"] for event in receipts]
    assert seqs == sorted(set(seqs))
    shown = [(await device.next())["sessions"][0]]
    while shown[-1]["activeTs"] < session["activeTs"]:
        shown.append((await device.next())["sessions"][0])
    assert [s[report.field] for s in shown] == sorted({s[report.field] for s in shown})
    assert [s["activeTs"] for s in shown] == sorted({s["activeTs"] for s in shown})
    assert shown[-1] == session
    await api.wait_until_idle()
    for listener in (sender, device):
        await listener.expect_no_event(0.03)

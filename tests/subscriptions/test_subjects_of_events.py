"""A subscription to some subjects of a clock gets the events about them, and those without a subject."""

from __future__ import annotations

from store.base.ids import ConversationId, MessageId, UserId, thread_id
from store.base.workspace_ids import WorkspaceId
from store.messages.message import Message, MessageKind
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.shared import ChannelActivity, ChannelMessage, MessageChange, WorkspaceUpdate
from subscriptions.realtime.feed import Feed
from subscriptions.realtime.mailboxes import Mailbox, MailboxEvent, Position, QueueBudget

ONE, TWO = ConversationId("c_1.1"), ConversationId("c_1.2")
THREAD = thread_id(ONE, 7)


def in_channel(channel: ConversationId) -> ChannelMessage:
    return ChannelMessage(Message(MessageId(1), channel, UserId("alice"), MessageKind.TEXT, ""), MessageChange.CREATED)


def test_a_mailbox_gets_the_events_of_its_subjects() -> None:
    feed = Feed("w_1")
    events: list[Event] = [
        in_channel(ONE),
        in_channel(TWO),
        ChannelActivity(ONE, 1, 1, 1),
        WorkspaceUpdate(WorkspaceId("w_1"), 1, is_changed=True),
        in_channel(THREAD),
    ]
    wanted = {"one": {ONE}, "activity": {"activity"}, "thread": {THREAD}, "all": None}
    mailboxes = {
        name: Mailbox("w_1", Position("e", 0), QueueBudget(), subjects=subjects) for name, subjects in wanted.items()
    }
    feed.mailboxes |= set(mailboxes.values())
    for tick, event in enumerate(events, start=1):
        feed.deliver(Position("e", tick), event)
    got = {name: [] for name in mailboxes}  # type: dict[str, list[int]]
    for name, mailbox in mailboxes.items():
        while isinstance(item := mailbox.take(), MailboxEvent):
            got[name].append(item.position.tick)
    assert got == {"one": [1, 4], "activity": [3, 4], "thread": [4, 5], "all": [1, 2, 3, 4, 5]}


def test_a_reply_in_a_thread_is_no_activity_of_its_channel() -> None:
    assert [in_channel(name).is_activity for name in (ONE, THREAD)] == [True, False]
    assert in_channel(ONE).objects and not in_channel(THREAD).objects
    assert in_channel(THREAD).owner == in_channel(ONE).owner == "w_1"

"""The recipients of a durable message: their order, and the changes of their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.messages.message import CommittedMessage, ReservedMessage
from store.sessions.apply_messages import MessageDelta, MessageRelation
from store.sessions.apply_results import ApplyResult
from store.sessions.changes import Dissolve, Join, Leave, LoggedChange, NewGroupVersion, logged_change
from store.sessions.fields import SyncReason
from store.sessions.row_writes import channel_mention, channel_reading
from store.store import Store
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import Mentioned, MessageCreated
from subscriptions.realtime.events.sessions import SessionChanged

_ANY_SEQ = 1 << 53
"""Greater than every seq: selects the current members."""


@dataclass(frozen=True, slots=True)
class MembershipUpdate:
    """The change of one user's session when they join, leave, their group ends, or they write in a channel."""

    user: UserId
    change: LoggedChange
    reason: SyncReason = SyncReason.MEMBERSHIP
    has_own_write_ts: bool = True
    """`writeTs` of the session may be the time of the change."""

    def session_event(self, outcome: ApplyResult) -> SessionChanged:
        """Return the event for the user's devices."""
        return SessionChanged(self.reason, outcome.sessions, outcome.total_unread)


def channel_recipients(reserved: ReservedMessage) -> list[UserId]:
    """Return the users whose sessions a message in a channel changes: its sender, and those who are notified.

    A SYSTEM message changes none.
    """
    message = reserved.message
    return list(dict.fromkeys((message.sender, *reserved.notified))) if message.kind.countable else []


async def list_recipients(store: Store, committed: CommittedMessage, limit: int) -> tuple[list[UserId], list[UserId]]:
    """Return up to `limit` first recipients, and the others.

    Recipients are the members at the reservation, or all current and former members if the group ends.
    The sender is first. The order of the others does not depend on the sender, so that each of them gets the messages
    of a conversation in order.
    """
    reserved = committed.reserved
    message, change = reserved.message, reserved.change
    if kind_of(message.conversation) is ConversationKind.CHANNEL:
        users = channel_recipients(reserved)
        return users[:limit], users[limit:]
    if change is None or change.announced:
        members = await store.conversations.list_recipients(
            message.conversation, reserved.membership_version, message.seq
        )
    elif change.dissolves:
        members = [member.user for member in await store.conversations.list_members(message.conversation)]
    else:
        members = await store.conversations.list_recipients(message.conversation, reserved.membership_version, _ANY_SEQ)
    count = limit if len(members) <= limit else limit - 1
    first, rest = list(members[:count]), list(members[count:])
    for part in (first, rest):
        if message.sender in part:
            part.remove(message.sender)
            first.insert(0, message.sender)
            break
    return first, rest


def membership_updates(committed: CommittedMessage) -> list[MembershipUpdate]:
    """Return the updates for users who join or leave with a message. They are applied before it."""
    message, change, at_ms = committed.reserved.message, committed.reserved.change, committed.at_ms
    if change is None:
        return []
    conversation = message.conversation
    event = SessionChanged.log_entry(SyncReason.MEMBERSHIP, [conversation])
    join = logged_change(Join(conversation, message.seq, message.n, change.sub_biz), at_ms, event)
    leave = logged_change(Leave(conversation, message.seq - 1, message.n, change.written_at_ms), at_ms, event)
    joins = [MembershipUpdate(user, join) for user in change.joined]
    return joins + [MembershipUpdate(user, leave) for user in change.left]


@dataclass(frozen=True, slots=True)
class RecipientSlice:
    """A part of a message's recipients.

    Attributes:
        committed: The message.
        updates: Updates for users who join or leave, or whose group ends.
        users: The users who get the message.
        notified: The users who get GroupChanged, or in a channel Mentioned.
    """

    committed: CommittedMessage
    updates: Sequence[MembershipUpdate]
    users: Sequence[UserId]
    notified: Sequence[UserId] = ()

    @property
    def conversation(self) -> ConversationId:
        """The message's conversation."""
        return self.committed.reserved.message.conversation

    def message_delta(self) -> MessageDelta:
        """Return the message as it is applied to the users' sessions."""
        message = self.committed.reserved.message
        relations: dict[UserId, MessageRelation] = {}
        if message.kind.countable:
            relations = dict.fromkeys(self.users if message.mentions_all else message.mentions, "mention")
            relations[message.sender] = "own"
        return MessageDelta(
            message.conversation,
            message.seq,
            message.n,
            message.kind.countable,
            self.committed.at_ms,
            MessageCreated.log_entry(message),
            self.users,
            relations,
        )

    def notice(self) -> LoggedChange:
        """Return the change of the sessions of `notified`: a mention in a channel, or the update of the group."""
        message, change = self.committed.reserved.message, self.committed.reserved.change
        if change is None:
            return logged_change(channel_mention(message), self.committed.at_ms, Mentioned.log_entry(message))
        update = NewGroupVersion(self.conversation, change.version)
        entry = GroupChanged.log_entry(self.conversation, change.version)
        return logged_change(update, change.update_time_ms(self.committed.at_ms), entry)


def slice_recipients(
    committed: CommittedMessage, users: Sequence[UserId], updates: Sequence[MembershipUpdate] = ()
) -> RecipientSlice:
    """Return a slice of recipients. If the group ends, they get an event about its end instead of the message."""
    change = committed.reserved.change
    if kind_of(committed.reserved.message.conversation) is ConversationKind.CHANNEL:
        return _slice_of_channel(committed, users)
    if change is not None and change.dissolves:
        return RecipientSlice(committed, [*updates, *_end_updates(committed, users)], ())
    notified = users if change is not None and change.updates_group else ()
    return RecipientSlice(committed, updates, users if change is None or change.announced else (), notified)


def _slice_of_channel(committed: CommittedMessage, users: Sequence[UserId]) -> RecipientSlice:
    """Return a slice of a message in a channel. It reads the channel for its sender, and notifies the others."""
    message = committed.reserved.message
    event = SessionChanged.log_entry(SyncReason.READ, [message.conversation])
    reading = logged_change(channel_reading(message), committed.at_ms, event)
    own = [
        MembershipUpdate(user, reading, SyncReason.READ, has_own_write_ts=False)
        for user in users
        if user == message.sender
    ]
    return RecipientSlice(committed, own, (), [user for user in users if user != message.sender])


def _end_updates(committed: CommittedMessage, users: Sequence[UserId]) -> list[MembershipUpdate]:
    """Return the updates for former and present members of a group that ends with a message."""
    conversation = committed.reserved.message.conversation
    event = SessionChanged.log_entry(SyncReason.DELETE, [conversation])
    dissolve = logged_change(Dissolve(conversation), committed.at_ms, event)
    return [MembershipUpdate(user, dissolve, SyncReason.DELETE, has_own_write_ts=False) for user in users]

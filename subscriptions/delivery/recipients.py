"""The recipients of a durable message: their order, and the changes of their sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.messages.message import CommittedMessage, Message, ReservedMessage
from store.sessions.apply_messages import MessageDelta, MessageRelation
from store.sessions.apply_results import ApplyResult
from store.sessions.changes import Dissolve, LoggedChange, NewGroupVersion, logged_change
from store.sessions.fields import SyncReason
from store.sessions.row_writes import channel_mention, channel_reading
from store.sessions.threads.thread_changes import JudgeThreads
from store.store import Store
from store.threads.membership_changes import MembershipChange, session_changes
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import Mentioned, MessageCreated
from subscriptions.realtime.events.sessions import SessionChanged

ListViewers = Callable[[Message], Awaitable[Sequence[UserId]]]
"""Returns the current members of a conversation, or followers of a thread, who can read a message."""

SelectViewers = Callable[[Message, Collection[UserId]], Awaitable[Sequence[UserId]]]
"""Returns those of some users who are in a conversation now, and can read a message there."""

_NOTHING_JUDGED: Mapping[UserId, LoggedChange] = {}

_ANY_SEQ = 1 << 53
"""Greater than every seq: selects the current members."""


@dataclass(frozen=True, slots=True)
class MembershipUpdate:
    """The change of a user's session who joins, leaves, whose group ends, or who writes without following."""

    user: UserId
    change: LoggedChange
    reason: SyncReason = SyncReason.MEMBERSHIP
    has_own_write_ts: bool = True
    """`writeTs` of the session may be the time of the change."""

    def session_event(self, outcome: ApplyResult) -> SessionChanged:
        """Return the event for the user's devices."""
        return SessionChanged(self.reason, outcome.sessions, outcome.total_unread)


def channel_recipients(reserved: ReservedMessage) -> list[UserId]:
    """Return the users whose sessions a message in a channel or thread changes, whether they follow it or not.

    These are its sender and those who are notified.

    A SYSTEM message changes none. An incoming webhook has no session, and notifies nobody.
    """
    message = reserved.message
    return list(dict.fromkeys((message.sender, *reserved.notified))) if message.is_read_by_sender else []


class Recipients(NamedTuple):
    """The first recipients of a message, and the others.

    `outside`: in a thread those of them who do not follow it: its sender, and users who are notified.
    """

    first: list[UserId]
    remaining: list[UserId]
    outside: frozenset[UserId] = frozenset()


async def list_recipients(store: Store, committed: CommittedMessage, limit: int) -> Recipients:
    """Return up to `limit` first recipients, and the others.

    Recipients are the members at the reservation, or all current and former members if the group ends.
    The sender is first. The order of the others does not depend on the sender, so that each of them gets the messages
    of a conversation in order.
    """
    reserved = committed.reserved
    message, change = reserved.message, reserved.change
    kind = kind_of(message.conversation)
    if kind is ConversationKind.CHANNEL:
        users = channel_recipients(reserved)
        return Recipients(users[:limit], users[limit:])
    if kind is ConversationKind.THREAD:
        return await _list_in_thread(store, reserved, limit)
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
    return Recipients(first, rest)


async def _list_in_thread(store: Store, reserved: ReservedMessage, limit: int) -> Recipients:
    """Return the followers who can see the parent conversation, the sender, and users who are notified."""
    message, change = reserved.message, reserved.change
    if change is not None and not change.announced:
        return Recipients([], [])
    followers = await store.thread_recipients.find_followers(reserved)
    outside = frozenset(channel_recipients(reserved)).difference(followers)
    first = [message.sender] if message.is_read_by_sender else []
    users = list(dict.fromkeys((*first, *followers, *reserved.notified)))
    return Recipients(users[:limit], users[limit:], outside)


async def judge_threads(store: Store, committed: CommittedMessage) -> dict[UserId, LoggedChange]:
    """Return the changes of members' threads if what members of a group may read changes. Most messages have none."""
    conversation, change = committed.reserved.message.conversation, committed.reserved.change
    full_history = change.fields.get("full_history") if change is not None else None
    if full_history is None:
        return {}
    changes: dict[UserId, LoggedChange] = {}
    for member in await store.conversations.list_members(conversation):
        if not member.is_current or (len(member.intervals) == 1 and member.intervals[0][0] <= 1):
            # They can read everything in any case.
            continue
        judge = JudgeThreads(conversation, [(1, None)] if full_history else member.intervals)
        changes[member.user] = logged_change(judge, committed.at_ms, "")
    return changes


def membership_updates(committed: CommittedMessage) -> list[MembershipUpdate]:
    """Return the updates for users who join or leave with a message. They are applied before it."""
    message, change, at_ms = committed.reserved.message, committed.reserved.change, committed.at_ms
    if change is None:
        return []
    event = SessionChanged.log_entry(SyncReason.MEMBERSHIP, [message.conversation])
    # Sessions of threads have the times of their replies, or none.
    has_own_write_ts = kind_of(message.conversation) is not ConversationKind.THREAD
    changes: dict[MembershipChange, LoggedChange] = {}
    updates = []
    for user, changed, _ in session_changes(message, change):
        if changed not in changes:
            changes[changed] = logged_change(changed, at_ms, event)
        updates.append(MembershipUpdate(user, changes[changed], has_own_write_ts=has_own_write_ts))
    return updates


@dataclass(frozen=True, slots=True)
class RecipientSlice:
    """A part of a message's recipients.

    Attributes:
        committed: The message.
        updates: Updates for users who join or leave, or whose group ends.
        users: The users who get the message.
        notified: The users who get GroupChanged, or in a channel, or a thread that they do not follow, Mentioned.
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
        if change is None or change.is_of_thread:
            return logged_change(channel_mention(message), self.committed.at_ms, Mentioned.log_entry(message))
        update = NewGroupVersion(self.conversation, change.version)
        entry = GroupChanged.log_entry(self.conversation, change.version)
        return logged_change(update, change.update_time_ms(self.committed.at_ms), entry)


def slice_recipients(
    committed: CommittedMessage,
    users: Sequence[UserId],
    updates: Sequence[MembershipUpdate] = (),
    outside: frozenset[UserId] = frozenset(),
    judged: Mapping[UserId, LoggedChange] = _NOTHING_JUDGED,
) -> RecipientSlice:
    """Return a slice of recipients. If the group ends, they get an event about its end instead of the message.

    outside: see `Recipients`. judged: see `judge_threads`.
    """
    change = committed.reserved.change
    match kind_of(committed.reserved.message.conversation):
        case ConversationKind.CHANNEL:
            return _slice_of_channel(committed, users)
        case ConversationKind.THREAD:
            looked_at = _slice_of_channel(committed, [user for user in users if user in outside])
            followers = [user for user in users if user not in outside]
            return replace(looked_at, updates=[*updates, *looked_at.updates], users=followers)
    if change is not None and change.dissolves:
        return RecipientSlice(committed, [*updates, *_end_updates(committed, users)], ())
    notified = users if change is not None and change.updates_group else ()
    if judged:
        of_threads = [MembershipUpdate(user, judged[user], has_own_write_ts=False) for user in users if user in judged]
        updates = [*updates, *of_threads]
    return RecipientSlice(committed, updates, users if change is None or change.announced else (), notified)


def _slice_of_channel(committed: CommittedMessage, users: Sequence[UserId]) -> RecipientSlice:
    """Return a slice of users who do not get the message. It reads the channel or thread for its sender.

    The others are notified.
    """
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

"""What a durable message, or a change of a group, does to whose sessions, and what their devices are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from store.base.ids import ConversationId, UserId
from store.messages.message import CommittedMessage
from store.redis.cache import Call
from store.sessions.apply_messages import MessageDelta, MessageKind
from store.sessions.session_store import ApplyResult
from store.store import Store
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.events.sessions import SessionChanged, SyncReason


@dataclass(frozen=True, slots=True)
class MembershipUpdate:
    """A change of one user's cached state, other than by a message. Their devices are told that the session changed, and why."""

    user: UserId
    kind: str
    change: dict[str, Any]
    reason: SyncReason = SyncReason.MEMBERSHIP

    @property
    def is_end(self) -> bool:
        """Whether it is the group that ends, not somebody's membership."""
        return self.kind == "dissolve"

    def call(self, store: Store) -> Call:
        """The call that carries it out."""
        return store.sessions.change(self.user, self.kind, self.change)

    def session_event(self, outcome: ApplyResult) -> SessionChanged:
        """What the user's devices are told of it."""
        return SessionChanged(self.reason, outcome.sessions, outcome.total_unread)


async def recipients_of(store: Store, committed: CommittedMessage, most: int) -> tuple[list[UserId], list[UserId]]:
    """Whom it reaches: those in the conversation when it took its place; all who ever were, where the group ends with it. At most so
    many of them first, the sender before all, and the others.

    Who comes first does not depend on who sends, the senders apart: nobody else hears a message before one that was there before it.
    """
    reserved = committed.reserved
    message, change = reserved.message, reserved.change
    if change is None or change.announced:
        members = await store.conversations.list_recipients(
            message.conversation, reserved.membership_version, message.seq
        )
    elif change.dissolves:
        members = [member.user for member in await store.conversations.list_members(message.conversation)]
    else:
        members = []
    count = most if len(members) <= most else most - 1
    first, rest = list(members[:count]), list(members[count:])
    for part in (first, rest):
        if message.sender in part:
            part.remove(message.sender)
            first.insert(0, message.sender)
            break
    return first, rest


def membership_updates(committed: CommittedMessage) -> list[MembershipUpdate]:
    """The sessions of those who join and leave with it: before the message, so that it finds them so."""
    message, change, at_ms = committed.reserved.message, committed.reserved.change, committed.at_ms
    if change is None:
        return []
    told = {
        "c": message.conversation,
        "at": at_ms,
        "e": SessionChanged.log_entry(SyncReason.MEMBERSHIP, [message.conversation]),
    }
    # The message that made them a member is among what they have read; it is still to come to their devices.
    record: dict[str, Any] = {
        "s": message.seq, "n": message.n, "r": message.seq, "rn": message.n, "d": message.seq,
        "g": [message.seq, message.seq], "p": 0, "a": at_ms, "w": at_ms,
    }  # fmt: skip
    if change.sub_biz:
        record["sb"] = change.sub_biz
    joins = [MembershipUpdate(user, "join", told | {"rec": record}) for user in change.joined]
    return joins + [MembershipUpdate(user, "leave", told | {"f": message.seq - 1}) for user in change.left]


@dataclass(frozen=True, slots=True)
class RecipientSlice:
    """Some of those whom a message reaches: whose sessions it changes otherwise, and after that to whom it is shown."""

    committed: CommittedMessage
    effects: Sequence[MembershipUpdate]
    users: Sequence[UserId]

    @property
    def conversation(self) -> ConversationId:
        """The message's."""
        return self.committed.reserved.message.conversation

    @property
    def show(self) -> MessageDelta:
        """The message as it is shown to the users."""
        message = self.committed.reserved.message
        kinds: dict[UserId, MessageKind] = {}
        if message.kind.countable:
            kinds = dict.fromkeys(self.users if message.mentions_all else message.mentions, "mention")
            kinds[message.sender] = "own"
        event = MessageCreated.log_entry(message)
        return MessageDelta(
            message.conversation,
            message.seq,
            message.n,
            message.kind.countable,
            self.committed.at_ms,
            event,
            self.users,
            kinds,
        )


def slice_recipients(
    committed: CommittedMessage, users: Sequence[UserId], before: Sequence[MembershipUpdate] = ()
) -> RecipientSlice:
    """What it does to some of those whom it reaches, after what it did to others."""
    change = committed.reserved.change
    if change is not None and not change.announced:
        return RecipientSlice(committed, [*before, *_end_updates(committed, users)], ())
    return RecipientSlice(committed, before, users)


def _end_updates(committed: CommittedMessage, users: Sequence[UserId]) -> list[MembershipUpdate]:
    """The sessions of a group that ends with it, at some of those who were ever in it."""
    gone = {"c": committed.reserved.message.conversation, "at": committed.at_ms}
    gone["e"] = SessionChanged.log_entry(SyncReason.DELETE, [committed.reserved.message.conversation])
    return [MembershipUpdate(user, "dissolve", gone, SyncReason.DELETE) for user in users]

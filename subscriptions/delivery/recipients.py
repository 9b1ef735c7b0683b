"""The recipients of a durable message: their order, and what the message changes in their sessions."""

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
    """The change of one user's session when they join, leave, or their group ends. Their devices get SessionChanged."""

    user: UserId
    kind: str
    change: dict[str, Any]
    reason: SyncReason = SyncReason.MEMBERSHIP

    @property
    def is_end(self) -> bool:
        """Whether the group ends, and not only this membership."""
        return self.kind == "dissolve"

    def call(self, store: Store) -> Call:
        """Return the call that makes the change."""
        return store.sessions.change(self.user, self.kind, self.change)

    def session_event(self, outcome: ApplyResult) -> SessionChanged:
        """Return the event for the user's devices."""
        return SessionChanged(self.reason, outcome.sessions, outcome.total_unread)


async def list_recipients(store: Store, committed: CommittedMessage, most: int) -> tuple[list[UserId], list[UserId]]:
    """Return up to `most` recipients to be served first, and the others.

    Recipients are the members when the message was reserved; everybody who was ever a member if the group ends with it.
    The sender is first. The order of the others does not depend on the sender, so that each of them gets the messages of a
    conversation in order.
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
    """Return the updates for users who join or leave with a message. They are applied before it."""
    message, change, at_ms = committed.reserved.message, committed.reserved.change, committed.at_ms
    if change is None:
        return []
    common = {
        "c": message.conversation,
        "at": at_ms,
        "e": SessionChanged.log_entry(SyncReason.MEMBERSHIP, [message.conversation]),
    }
    # The message that made them a member counts as read. `g`: it has not been applied yet.
    record: dict[str, Any] = {
        "s": message.seq, "n": message.n, "r": message.seq, "rn": message.n, "d": message.seq,
        "g": [message.seq, message.seq], "p": 0, "a": at_ms, "w": at_ms,
    }  # fmt: skip
    if change.sub_biz:
        record["sb"] = change.sub_biz
    joins = [MembershipUpdate(user, "join", common | {"rec": record}) for user in change.joined]
    return joins + [MembershipUpdate(user, "leave", common | {"f": message.seq - 1}) for user in change.left]


@dataclass(frozen=True, slots=True)
class RecipientSlice:
    """A part of a message's recipients: membership updates first, then the users who get the message."""

    committed: CommittedMessage
    updates: Sequence[MembershipUpdate]
    users: Sequence[UserId]

    @property
    def conversation(self) -> ConversationId:
        """The message's conversation."""
        return self.committed.reserved.message.conversation

    def message_delta(self) -> MessageDelta:
        """Return the message as it is applied to the users' sessions."""
        message = self.committed.reserved.message
        kinds: dict[UserId, MessageKind] = {}
        if message.kind.countable:
            kinds = dict.fromkeys(self.users if message.mentions_all else message.mentions, "mention")
            kinds[message.sender] = "own"
        return MessageDelta(
            message.conversation,
            message.seq,
            message.n,
            message.kind.countable,
            self.committed.at_ms,
            MessageCreated.log_entry(message),
            self.users,
            kinds,
        )


def slice_recipients(
    committed: CommittedMessage, users: Sequence[UserId], updates: Sequence[MembershipUpdate] = ()
) -> RecipientSlice:
    """Return a slice of recipients. If the group ends with the message, they get the end of the group instead of it."""
    change = committed.reserved.change
    if change is not None and not change.announced:
        return RecipientSlice(committed, [*updates, *_end_updates(committed, users)], ())
    return RecipientSlice(committed, updates, users)


def _end_updates(committed: CommittedMessage, users: Sequence[UserId]) -> list[MembershipUpdate]:
    change = {"c": committed.reserved.message.conversation, "at": committed.at_ms}
    change["e"] = SessionChanged.log_entry(SyncReason.DELETE, [committed.reserved.message.conversation])
    return [MembershipUpdate(user, "dissolve", change, SyncReason.DELETE) for user in users]

"""Access to conversations: the users who may see one, and the messages that they may read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.errors import NotAMember, NotFound
from resolvers.conversations.channel_access import find_channel_rights
from resolvers.conversations.visibility import SeqRange, is_visible, visible_ranges
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.channels.channel_rights import ChannelRights
from store.conversations.conversation import Head, Member
from store.sessions.session_lists import is_channel
from store.store import Store


class Access(NamedTuple):
    """A conversation that a viewer is or was in, with the ranges they may read. `member`: groups only.

    `rights`: channels only. `head`: of a group that the viewer has left, the group as it was then.
    """

    head: Head
    ranges: list[SeqRange]
    member: Member | None = None
    rights: ChannelRights | None = None

    @property
    def is_current(self) -> bool:
        """True if the viewer is in the conversation now."""
        return self.member is None or self.member.is_current


async def access_conversation(app: Confab, viewer: UserId, conversation: str) -> Access | None:
    """Return the viewer's access to a conversation. None if it is unknown, or they were never in it."""
    return (await access_conversations(app, viewer, [conversation]))[0]


async def access_conversations(app: Confab, viewer: UserId, conversations: Sequence[str]) -> list[Access | None]:
    """Like access_conversation, for many at once: one round trip if all are cached."""
    candidates = [ConversationId(c) for c in conversations if may_be_in(viewer, c)]
    found = await find_conversations(app.store, viewer, candidates)
    return [access_from(found[ConversationId(c)]) if c in found else None for c in conversations]


class FoundConversation(NamedTuple):
    """A conversation with what decides a viewer's access to it.

    `member`: groups only; the viewer's current or former membership. `channel`: their access to a channel.
    """

    head: Head
    member: Member | None = None
    channel: Access | None = None


async def find_conversations(
    store: Store, viewer: UserId, conversations: Iterable[ConversationId]
) -> dict[ConversationId, FoundConversation]:
    """Return the conversations that exist, without channels that the viewer can't see.

    One round trip if all are cached, and the rights in channels are known.
    """
    conversations = list(conversations)
    named_channels = [c for c in conversations if is_channel(c) and kind_of(c) is ConversationKind.CHANNEL]
    if named_channels:
        hidden = set(named_channels) - await store.channel_rights.select_visible(viewer, named_channels)
        conversations = [c for c in conversations if c not in hidden]
    found = await store.conversations.find_with_member(viewer, conversations)
    channels = [head for head, _ in found.values() if head.kind is ConversationKind.CHANNEL]
    if not channels:
        return {conversation: FoundConversation(head, member) for conversation, (head, member) in found.items()}
    judged = await find_channel_rights(store, viewer, channels)
    accesses = {
        head.conversation: Access(head, judged[head.conversation][1], rights=judged[head.conversation][0])
        for head in channels
        if head.conversation in judged
    }
    return {
        conversation: FoundConversation(head, member, accesses.get(conversation))
        for conversation, (head, member) in found.items()
    }


async def list_readable(
    store: Store, viewer: UserId, places: Collection[tuple[ConversationId, int]]
) -> list[tuple[ConversationId, int]]:
    """Return the places (conversation, seq) that the viewer may read: one round trip if all are cached."""
    found = await find_conversations(store, viewer, {conversation for conversation, _ in places})
    access = {conversation: access_from(each) for conversation, each in found.items()}
    return [(c, seq) for c, seq in places if (a := access.get(c)) is not None and is_visible(seq, a.ranges)]


async def list_shown_groups(
    store: Store, viewer: UserId, groups: Collection[ConversationId]
) -> dict[ConversationId, Head]:
    """Return the groups that the viewer may see, as they see them: one round trip if all are cached."""
    found = await store.conversations.find_with_member(viewer, groups)
    access = {group: access_from(FoundConversation(*each)) for group, each in found.items()}
    return {group: a.head for group, a in access.items() if a is not None}


def may_be_in(viewer: UserId, conversation: str) -> bool:
    """Return whether an id names a group, a channel, or a private conversation of the viewer."""
    kind = kind_of(conversation)
    if kind is ConversationKind.PRIVATE:
        people = parse_private(conversation)
        return people is not None and viewer in people[:2]
    return kind is ConversationKind.GROUP or kind is ConversationKind.CHANNEL


def access_from(found: FoundConversation) -> Access | None:
    """Return the viewer's access to a private conversation of theirs, to a group or to a channel, if they have any."""
    head, member, channel = found
    if head.kind is ConversationKind.CHANNEL:
        return channel
    if head.kind is ConversationKind.PRIVATE:
        # A private conversation exists from its first message on.
        return Access(head, [(1, None)]) if head.newest is not None else None
    if member is None or head.group is None or head.dismissed:
        return None
    return Access(head, visible_ranges(member, full_history=head.group.full_history), member)


def no_conversation() -> NotFound:
    """Return the error for a conversation that does not exist, or that the caller was never in."""
    return NotFound("there is no such conversation, or you were never in it", field="conversationId")


def left_conversation() -> NotAMember:
    """Return the error for a conversation that the caller is no longer in."""
    return NotAMember("you are no longer in this conversation", field="conversationId")

"""Access to conversations: the users who may see one, and the messages that they may read."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.errors import NotAMember, NotFound
from resolvers.conversations.channel_access import find_channel_rights
from resolvers.conversations.visibility import SeqRange, above_floor, is_visible, thread_ranges, visible_ranges
from store.base.ids import (
    ConversationId,
    ConversationKind,
    ThreadPlace,
    UserId,
    kind_of,
    parse_private,
    parse_thread,
    without_thread,
)
from store.channels.channel_rights import ChannelRights
from store.conversations.conversation import Head, Member
from store.messages.message import Message
from store.sessions.session_lists import is_channel
from store.store import Store

NO_GROUP = ConversationId("g_0")
"""The id of a group that never exists. It is read where the answer must take as long as for one that does."""

_ALL_SEQS = 1 << 53
"""Greater than every seq."""


class Access(NamedTuple):
    """A conversation that a viewer is or was in, with the ranges they may read.

    Attributes:
        head: Of a group that the viewer has left, the group as it was then.
        ranges: Ranges of seq, oldest first.
        member: In groups and their threads: the membership of the group.
        rights: In channels and their threads: the rights in the channel.
        parent: Of a thread: the viewer's access to the parent conversation.
    """

    head: Head
    ranges: list[SeqRange]
    member: Member | None = None
    rights: ChannelRights | None = None
    parent: Access | None = None

    @property
    def is_current(self) -> bool:
        """True if the viewer is in the conversation now."""
        return self.member is None or self.member.is_current

    def shows(self, message: Message) -> bool:
        """Return whether the viewer may read a message of the conversation."""
        return is_visible(message.seq, self.ranges)


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

    `member`: groups only; the viewer's current or former membership. `judged`: their access to a channel or a thread.
    """

    head: Head
    member: Member | None = None
    judged: Access | None = None


async def find_conversations(
    store: Store, viewer: UserId, conversations: Iterable[ConversationId]
) -> dict[ConversationId, FoundConversation]:
    """Return the conversations that exist, without channels and threads that the viewer can't see.

    One round trip if all are cached, and the rights in channels are known.
    """
    conversations = list(conversations)
    threads = {c: place for c in conversations if c.startswith("t_") and (place := parse_thread(c)) is not None}
    if not threads:
        return await _find_outside_threads(store, viewer, conversations)
    parents = {place.parent for place in threads.values() if may_be_in(viewer, place.parent)}
    found = await _find_outside_threads(store, viewer, dict.fromkeys((*conversations, *parents)))
    seen = {parent: access for parent in parents if parent in found and (access := access_from(found[parent]))}
    judged = await _find_threads(store, found, threads, seen)
    return {c: each for c in conversations if (each := judged.get(c) if c in threads else found.get(c)) is not None}


async def _find_outside_threads(
    store: Store, viewer: UserId, conversations: Iterable[ConversationId]
) -> dict[ConversationId, FoundConversation]:
    """Return what `find_conversations` returns, and the heads of the threads that are cached.

    Threads in channels that the viewer can't see are left out.
    """
    conversations = list(conversations)
    named_channels = [c for c in conversations if is_channel(c) and kind_of(c) is ConversationKind.CHANNEL]
    if named_channels:
        hidden = set(named_channels) - await store.channel_rights.select_visible(viewer, named_channels)
        conversations = [c for c in conversations if without_thread(c) not in hidden]
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


async def _find_threads(
    store: Store,
    cached: Mapping[ConversationId, FoundConversation],
    threads: Mapping[ConversationId, ThreadPlace],
    parents: Mapping[ConversationId, Access],
) -> dict[ConversationId, FoundConversation]:
    """Return those threads that the viewer may see, with their access.

    A thread that is not cached is loaded only for a viewer who can see its parent message. So whether a hidden thread
    exists changes no round trip.

    Args:
        store: The repositories.
        cached: The heads that are cached.
        threads: Places of threads.
        parents: The viewer's accesses to parent conversations.
    """
    visible = {
        thread: parents[place.parent]
        for thread, place in threads.items()
        if place.parent in parents and is_visible(place.seq, parents[place.parent].ranges)
    }
    heads = {thread: cached[thread].head for thread in visible if thread in cached}
    heads |= await store.conversations.find_many(visible.keys() - heads.keys())
    accesses = await asyncio.gather(
        *(access_thread(store, head, threads[thread].seq, visible[thread]) for thread, head in heads.items())
    )
    return {access.head.conversation: FoundConversation(access.head, judged=access) for access in accesses if access}


async def access_thread(store: Store, head: Head, parent_seq: int, parent: Access) -> Access | None:
    """Return the access to a thread that follows from the access to its parent conversation.

    A thread exists from its first reply on. None if the viewer had left before it.
    """
    if head.newest is None:
        return None
    ranges = await thread_ranges(store, head, parent_seq, parent.ranges)
    return Access(head, ranges, parent.member, parent.rights, parent) if ranges else None


async def list_readable(
    store: Store, viewer: UserId, places: Collection[tuple[ConversationId, int]]
) -> list[tuple[ConversationId, int]]:
    """Return the places (conversation, seq) that the viewer may read: one round trip if all are cached.

    A private conversation of others takes the same reads as a group that does not exist.
    """
    own = {c: c if may_be_in(viewer, c) else NO_GROUP for c, _ in places}
    found = await find_conversations(store, viewer, set(own.values()))
    access = {conversation: access_from(each) for conversation, each in found.items()}
    return [(c, seq) for c, seq in places if (a := access.get(own[c])) is not None and is_visible(seq, a.ranges)]


async def list_shown_groups(
    store: Store, viewer: UserId, groups: Collection[ConversationId]
) -> dict[ConversationId, Head]:
    """Return the groups that the viewer may see, as they see them: one round trip if all are cached."""
    found = await store.conversations.find_with_member(viewer, groups)
    access = {group: access_from(FoundConversation(*each)) for group, each in found.items()}
    return {group: a.head for group, a in access.items() if a is not None}


async def is_expired(store: Store, conversation: ConversationId, seq: int) -> bool:
    """Return whether a message is expired. A reply is if its parent message is. One round trip if cached."""
    return seq <= (await find_floors(store, [conversation]))[conversation]


async def find_floors(store: Store, conversations: Collection[ConversationId]) -> dict[ConversationId, int]:
    """Return the seq up to which the messages of each conversation are expired. One round trip if all are cached.

    All replies of a thread are expired if its parent message is, else none.
    """
    places = {conversation: parse_thread(conversation) for conversation in conversations}
    heads = await store.conversations.find_many({c if place is None else place.parent for c, place in places.items()})
    floors = {conversation: head.floor_seq for conversation, head in heads.items()}
    return {
        conversation: floors.get(conversation, 0)
        if place is None
        else (_ALL_SEQS if place.seq <= floors.get(place.parent, 0) else 0)
        for conversation, place in places.items()
    }


def may_be_in(viewer: UserId, conversation: str) -> bool:
    """Return whether an id names a group, a channel, a private conversation of the viewer, or a thread in one."""
    kind = kind_of(conversation)
    if kind is ConversationKind.THREAD:
        conversation = without_thread(ConversationId(conversation))
        kind = kind_of(conversation)
    if kind is ConversationKind.PRIVATE:
        people = parse_private(conversation)
        return people is not None and viewer in people[:2]
    return kind is ConversationKind.GROUP or kind is ConversationKind.CHANNEL


def access_from(found: FoundConversation) -> Access | None:
    """Return the viewer's access to a conversation, if they have any."""
    head, member, judged = found
    if head.kind is ConversationKind.CHANNEL or head.kind is ConversationKind.THREAD:
        return judged
    if head.kind is ConversationKind.PRIVATE:
        # A private conversation exists from its first message on.
        return Access(head, above_floor([(1, None)], head.floor_seq)) if head.has_begun else None
    if member is None or head.group is None or head.dismissed:
        return None
    ranges = visible_ranges(member, full_history=head.group.full_history, floor_seq=head.floor_seq)
    return Access(head, ranges, member)


def no_conversation(field: str = "conversationId") -> NotFound:
    """Return the error for a conversation that does not exist, or that the caller was never in."""
    return NotFound("there is no such conversation, or you were never in it", field=field)


def left_conversation(field: str = "conversationId") -> NotAMember:
    """Return the error for a conversation that the caller is no longer in."""
    return NotAMember("you are no longer in this conversation", field=field)

"""Conversations: who may see them, and what of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.conversations.visibility import SeqRange, is_visible, visible_ranges
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.conversations.records import Head, Member
from store.store import Store


@dataclass(frozen=True, slots=True)
class Access:
    """A conversation that somebody is or was in, with what they may read of it. `member`: groups only."""

    head: Head
    ranges: list[SeqRange]
    member: Member | None = None

    @property
    def is_current(self) -> bool:
        """Whether they are in it now."""
        return self.member is None or self.member.is_current


async def access_conversation(app: Confab, viewer: UserId, conversation: str) -> Access | None:
    """What the viewer may see of a conversation. None where it is unknown, or they were never in it."""
    return (await access_conversations(app, viewer, [conversation]))[0]


async def access_conversations(app: Confab, viewer: UserId, conversations: Sequence[str]) -> list[Access | None]:
    """Like access_conversation, for many at once: one round trip where all are cached."""
    candidates = [ConversationId(c) for c in conversations if may_be_in(viewer, c)]
    found = await app.store.conversations.find_with_member(viewer, candidates)
    return [access_from(*found[ConversationId(c)]) if c in found else None for c in conversations]


async def list_readable(
    store: Store, viewer: UserId, places: Collection[tuple[ConversationId, int]]
) -> list[tuple[ConversationId, int]]:
    """Those of the places, conversation and seq, that the viewer may read: one round trip where all are cached."""
    found = await store.conversations.find_with_member(viewer, {conversation for conversation, _ in places})
    access = {conversation: access_from(*held) for conversation, held in found.items()}
    return [(c, seq) for c, seq in places if (a := access.get(c)) is not None and is_visible(seq, a.ranges)]


def may_be_in(viewer: UserId, conversation: str) -> bool:
    """Whether an id names a conversation that the viewer can be in: a group, or a private one of theirs."""
    people = parse_private(conversation)
    return viewer in people[:2] if people is not None else kind_of(conversation) is ConversationKind.GROUP


def access_from(head: Head, member: Member | None) -> Access | None:
    """What somebody may see of a conversation: one of their private ones, or a group with their membership if they have one."""
    if head.kind is ConversationKind.PRIVATE:
        # A private conversation exists from its first message on.
        return Access(head, [(1, None)]) if head.last is not None else None
    if member is None or head.group is None or head.dismissed:
        return None
    return Access(head, visible_ranges(member, full_history=head.group.full_history), member)

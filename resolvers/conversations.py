"""Conversations: who may see them, and what of them."""

from __future__ import annotations

from dataclasses import dataclass

from resolvers.app import Confab
from resolvers.visibility import SeqRange, visible_ranges
from store.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.records import Head, Member


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
    kind = kind_of(conversation)
    wanted = ConversationId(conversation)
    if kind is ConversationKind.PRIVATE:
        people = parse_private(conversation)
        if people is None or viewer not in people[:2]:
            return None
        head = await app.store.conversations.find(wanted)
        # A private conversation exists from its first message on.
        return Access(head, [(1, None)]) if head is not None and head.last is not None else None
    if kind is ConversationKind.GROUP:
        head = await app.store.conversations.find(wanted)
        if head is None or head.group is None:
            return None
        member = await app.store.conversations.find_member(wanted, viewer)
        if member is None:
            return None
        return Access(head, visible_ranges(member, full_history=head.group.full_history), member)
    return None

"""History of channels: which messages a user may read. Seqs and message ids decide, never the time of a read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from store.base.ids import MessageId
from store.base.snowflakes import first_id_at
from store.conversations.conversation import Member
from store.messages.message import Message
from store.workspaces.policy import Channel, MemberFacts

SeqRange = tuple[int, int | None]
"""First and last seq, ends included; None: no end."""

_EVERYTHING: Sequence[SeqRange] = ((1, None),)


@dataclass(frozen=True, slots=True)
class ChannelHistory:
    """A readable part of a channel.

    Attributes:
        ranges: The readable seqs; None: those from the first message that was sent at `since_ms` or later.
        since_ms: When the user joined the workspace.
    """

    ranges: Sequence[SeqRange] | None
    since_ms: int

    def has(self, message: Message) -> bool:
        """Return whether a message is readable."""
        if self.ranges is None:
            return message.id >= first_id_at(self.since_ms)
        return self._has_seq(message.seq, self.ranges)

    def has_parent(self, seq: int, parent: MessageId | None) -> bool:
        """Return whether a thread's parent message is readable, and so the thread. parent: its id; None: not known.

        The id is needed only if `needs_ids`.
        """
        if self.ranges is None:
            return parent is not None and parent >= first_id_at(self.since_ms)
        return self._has_seq(seq, self.ranges)

    def has_reply(self, seq: int, parent: MessageId | None, reply: Message) -> bool:
        """Return whether a reply in the thread under the message at a seq is readable (ADR 70)."""
        if not self.has_parent(seq, parent):
            return False
        if self.ranges is None:
            return True
        first, last = self.ranges[-1]
        return (last is None and first <= seq) or self._has_seq(reply.parent_seq, self.ranges)

    @property
    def needs_ids(self) -> bool:
        """True if ids of messages decide, and not their seqs."""
        return self.ranges is None

    def has_seq(self, seq: int, start: int | None) -> bool:
        """Return whether a seq is readable. start: the first seq since `since_ms`; None: not known, so nothing is."""
        ranges = self.ranges if self.ranges is not None else ((start, None),) if start is not None else ()
        return self._has_seq(seq, ranges)

    def _has_seq(self, seq: int, ranges: Sequence[SeqRange]) -> bool:
        return any(first <= seq and (last is None or seq <= last) for first, last in ranges)


def channel_history(channel: Channel, facts: MemberFacts, member: Member | None) -> ChannelHistory:
    """Return what a user who sees a channel, and has READ_HISTORY, may read of it.

    member: their membership, if the channel is PRIVATE.
    """
    if channel.full_history:
        return ChannelHistory(_EVERYTHING, 0)
    if member is not None:
        return ChannelHistory(member.intervals, 0)
    return ChannelHistory(None, facts.joined_at_ms)

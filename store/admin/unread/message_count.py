"""Counts unread messages one by one, without the counts that are stored in messages, heads and sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

from store.admin.source import AdminSource, View, without_empty
from store.base.ids import UserId, message_id
from store.messages.message import MessageKind
from store.messages.message_fields import MessageField
from store.mongo.collections import MESSAGES, between_places
from store.mongo.index_fields import PLACE
from store.sessions.session import Session

MOST_COUNTED = 100_000
"""Messages that are counted one by one."""

MOST_LISTED = 50
_PER_READ = 2_000
_M = MessageField


@dataclass(slots=True)
class MessageCount:
    """The messages after the read position of a session.

    Attributes:
        first: First seq that was looked at.
        last: Last seq that the session may count.
        own_seq: The user's newest own message among them; sending reads. 0: there is none.
        unread: seqs of the messages that count.
        system: seqs of SYSTEM messages, which do not count.
        own: seqs of the user's own messages.
        recalled: seqs of recalled messages that count.
        is_whole: All messages were looked at.
        listed: The first messages, as a view shows them.
    """

    first: int
    last: int
    own_seq: int = 0
    unread: list[int] = field(default_factory=list)
    system: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    recalled: list[int] = field(default_factory=list)
    is_whole: bool = True
    listed: list[View] = field(default_factory=list)

    @property
    def unread_count(self) -> int:
        """Number of unread messages."""
        return len(self.unread)


async def count_messages(source: AdminSource, session: Session) -> MessageCount:
    """Count the messages that are unread by the rules of the API: after readSeq, not the user's own and not SYSTEM.

    A session that is not valid has no count. One round trip for each 2,000 messages. Raises StoreError.
    """
    count = MessageCount(session.read_seq + 1, session.write_seq)
    next_seq = count.first
    fields = [_M.ID, _M.SEQ, _M.KIND, _M.SENDER, _M.RECALLED_AT, *([_M.TEXT] if source.shows_texts else [])]
    while next_seq <= count.last:
        if next_seq - count.first >= MOST_COUNTED:
            count.is_whole = False
            break
        end = min(count.last, next_seq + _PER_READ - 1)
        rows = await source.store.mongo.find(
            MESSAGES,
            between_places(session.conversation, next_seq, end),
            projection=dict.fromkeys(fields, 1),
            sort=PLACE,
        )
        for row in rows:
            _add(count, session.user, row)
        next_seq = end + 1
    # The user's own message moves the read position to its place.
    count.unread = [seq for seq in count.unread if seq > count.own_seq] if session.has_counts else []
    counted = set(count.unread)
    count.recalled = [seq for seq in count.recalled if seq in counted]
    for view in count.listed:
        view["counts"] = view["seq"] in counted
    return count


def _add(count: MessageCount, user: UserId, row: dict[str, object]) -> None:
    seq, kind = int(str(row[_M.SEQ])), MessageKind(str(row[_M.KIND]))
    is_recalled = _M.RECALLED_AT in row
    if not kind.countable:
        count.system.append(seq)
    elif row[_M.SENDER] == user:
        count.own.append(seq)
        count.own_seq = seq
    else:
        count.unread.append(seq)
        if is_recalled:
            count.recalled.append(seq)
    if len(count.listed) < MOST_LISTED:
        view = without_empty(
            seq=seq,
            id=message_id(int(str(row[_M.ID]))),
            kind=kind.name,
            sender=row[_M.SENDER],
            is_recalled=is_recalled or None,
            text=None if is_recalled else row.get(_M.TEXT),
        )
        count.listed.append(view)

"""Which sessions are valid, what they count, and the lists and sums that follow.

The scripts have the same rules for changes of a cached state: `is_valid`, `contribution` and others in `_lists.lua`,
which also describes the lists. `tests/store/test_loaded_state.py` compares both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from store.base.ids import THREADS, ConversationId, without_thread
from store.sessions.fields import FOLLOWED, PRIORITY_WEIGHT, THREADS_OF, SessionFields

Record = Mapping[str, Any]

_WRITE_SEQ, _N, _ACKNOWLEDGED_SEQ, _READ_N, _RECEIVED_SEQ = (
    field.stored
    for field in (
        SessionFields.write_seq,
        SessionFields.n,
        SessionFields.acknowledged_seq,
        SessionFields.read_n,
        SessionFields.received_seq,
    )
)
_PRIORITY, _WRITE_TS, _DELETED_SEQ, _DELETED_N = (
    field.stored
    for field in (
        SessionFields.priority,
        SessionFields.write_ts,
        SessionFields.deleted_seq,
        SessionFields.deleted_n,
    )
)
_MUTED, _MUTED_UNTIL = SessionFields.muted.stored, SessionFields.muted_until_ms.stored
_SUB_BIZ, _CATEGORY = SessionFields.sub_biz.stored, SessionFields.category.stored
_DISSOLVED, _MENTIONS = SessionFields.dissolved.stored, SessionFields.mentions.stored
_VALID_INSIDE, _UNREAD_INSIDE = SessionFields.valid_inside.stored, SessionFields.unread_inside.stored
_MENTIONS_INSIDE, _THREADS_INSIDE = SessionFields.mentions_inside.stored, SessionFields.threads_inside.stored
_FLOOR_SEQ, _FLOOR_N = SessionFields.floor_seq.stored, SessionFields.floor_n.stored
_FOLLOWS, _HIDDEN = SessionFields.follows.stored, SessionFields.hidden.stored

_TOTAL_MENTIONS, _TOTAL_THREADS = "mentions", "threads"
_UNREAD_THREADS = f"tb{THREADS}"


def is_channel(conversation: str) -> bool:
    """Return whether a session is that of a channel."""
    return conversation.startswith("c_")


def is_thread(conversation: str) -> bool:
    """Return whether a session is that of a thread."""
    return conversation.startswith("t_")


def is_outside_lists(conversation: str, record: Record) -> bool:
    """Return whether a session is that of a thread that the user does not follow, or can't see any more."""
    return conversation.startswith("t_") and (_HIDDEN in record or _FOLLOWS not in record)


def followed_list(inside: str) -> str:
    """Return the list of followed channels of a workspace. inside: an id of the workspace, or of one of its parts."""
    return FOLLOWED + inside[2:].partition(".")[0]


def is_valid(conversation: ConversationId, record: Record) -> bool:
    """Return whether a session is in lists: see `Session.valid`."""
    if conversation.startswith("b_"):
        return bool(record.get(_VALID_INSIDE, 0) > 0)
    if is_outside_lists(conversation, record):
        return False
    if _DISSOLVED in record or (record[_WRITE_SEQ] == 0 and conversation.startswith("p_")):
        return False
    return _DELETED_N not in record or record[_N] > record[_DELETED_N]


def count_unread(conversation: ConversationId, record: Record) -> int:
    """Return the unread messages of a valid session: see `Session.unread_count`."""
    if conversation.startswith("b_"):
        return int(record.get(_UNREAD_INSIDE, 0))
    unread: int = record[_N] - count_read(record)
    return unread if unread > 0 else 0


def count_read(record: Record) -> int:
    """Return the countable messages of the conversation up to the session's `read_seq`: see `Session.read_count`."""
    read_n: int = record[_READ_N]
    if _DELETED_N in record and record[_DELETED_N] > read_n:
        read_n = record[_DELETED_N]
    if _FLOOR_N in record and record[_FLOOR_N] > read_n:
        # For a former member, the floor may be after the last message that they may read.
        read_n = max(read_n, min(record[_FLOOR_N], record[_N]))
    return record[_N] if _DISSOLVED in record else read_n


def count_unread_mentions(conversation: ConversationId, record: Record) -> int:
    """Return the unread mentions of a valid session: see `Session.unread_mention_count`."""
    if conversation.startswith("b_"):
        return int(record.get(_MENTIONS_INSIDE, 0))
    if _MENTIONS not in record:
        return 0
    read_seq = max(record[_ACKNOWLEDGED_SEQ], record.get(_DELETED_SEQ, 0), record.get(_FLOOR_SEQ, 0))
    return sum(seq > read_seq for seq in record[_MENTIONS])


def ended_seq(record: Record) -> int:
    """Return the position up to which nothing is left to read or to deliver.

    Up to there messages were deleted or are expired, or the group has ended.
    """
    if _DISSOLVED in record:
        return int(record[_WRITE_SEQ])
    ended: int = record.get(_DELETED_SEQ, 0)
    if _FLOOR_SEQ in record:
        ended = max(ended, min(record[_FLOOR_SEQ], record[_WRITE_SEQ]))
    return ended


def list_entry(name: str, position: int, conversation: str) -> str:
    """Return what stands for a session in a list. The entries of a list are in the order of its sessions."""
    return f"{name}\n{position:016d}\n{conversation}"


def parse_entry(entry: str) -> tuple[int, ConversationId]:
    """Return the position and the conversation of an entry."""
    _, position, conversation = entry.split("\n", 2)
    return int(position), ConversationId(conversation)


class UnreadTotals(NamedTuple):
    """Sums over a user's valid sessions that are not muted, without channels.

    Sessions inside a subBiz count through its gateway.
    """

    messages: int
    mentions: int
    threads: int


class AllTotals(NamedTuple):
    """Sums over a user's valid sessions that are not muted.

    Attributes:
        messages: Unread messages, without channels.
        mentions: Unread mentions, without channels.
        threads: Followed threads with unread replies.
        in_channels: Unread mentions in channels. The user may not see all of these.
    """

    messages: int
    mentions: int
    threads: int
    in_channels: Mapping[ConversationId, int]


class SubBizSums(NamedTuple):
    """Sums of the sessions in a subBiz, those of messages without muted sessions, and its newest valid session."""

    valid_count: int
    unread_count: int
    unread_mention_count: int
    unread_threads: int
    newest: ConversationId | None
    written_ms: int


class SessionLists:
    """The lists and sums of a user's sessions.

    Attributes:
        entries: The entries of all lists, in no order.
        sums: Sums by list, and all mentions, under the names of the fields of `meta` in Redis. Sums that are 0 are
            left out.
        mute_ends: Ends of mutes (ms), with their sessions.
        total_unread: Unread messages in valid sessions that are not muted.
    """

    def __init__(self) -> None:
        """Begin without sessions."""
        self.entries: list[str] = []
        self.sums: defaultdict[str, int] = defaultdict(int)
        self.mute_ends: list[tuple[int, ConversationId]] = []
        self.total_unread = 0

    def add(self, conversation: ConversationId, record: Record) -> None:
        """Add a session that is not in a channel. Gateways come last: their records have sums of the others."""
        is_muted = _MUTED in record
        if is_muted and _MUTED_UNTIL in record:
            self.mute_ends.append((int(record[_MUTED_UNTIL]), conversation))
        if conversation.startswith("t_"):
            self._add_thread(conversation, record, is_muted=is_muted)
        if not is_valid(conversation, record):
            return
        counted = 0 if is_muted else count_unread(conversation, record)
        mentions = 0 if is_muted else count_unread_mentions(conversation, record)
        position = record[_PRIORITY] * PRIORITY_WEIGHT + record[_WRITE_TS]
        sub_biz, category = record.get(_SUB_BIZ), record.get(_CATEGORY)
        if sub_biz is None:
            self.entries.append(list_entry("m", position, conversation))
            # A session inside a subBiz counts in the totals through its gateway.
            self.total_unread += counted
            if mentions:
                self.sums[_TOTAL_MENTIONS] += mentions
        if conversation.startswith("b_"):
            if not is_muted and _THREADS_INSIDE in record:
                self.sums[_TOTAL_THREADS] = record[_THREADS_INSIDE]
            return
        if record[_RECEIVED_SEQ] < record[_WRITE_SEQ] and ended_seq(record) < record[_WRITE_SEQ]:
            self.entries.append(list_entry("o", 0, conversation))
        if sub_biz is None and category is None:
            return
        if sub_biz is not None:
            self.entries.append(list_entry(f"b{sub_biz}", position, conversation))
            self.entries.append(list_entry(f"B{sub_biz}", record[_WRITE_TS], conversation))
            self._add_sums(f"b{sub_biz}", counted, mentions)
            if sub_biz == THREADS and counted:
                self.sums[_UNREAD_THREADS] += 1
        if category is not None:
            self.entries.append(list_entry(f"c{category}", position, conversation))
            self.entries.append(list_entry(f"C{category}", record[_WRITE_TS], conversation))
            self._add_sums(f"c{category}", counted, mentions)
            if sub_biz is not None:
                self.entries.append(list_entry(f"x{sub_biz} {category}", position, conversation))

    def _add_thread(self, conversation: ConversationId, record: Record, *, is_muted: bool) -> None:
        self.entries.append(list_entry(THREADS_OF + without_thread(conversation), 0, conversation))
        if not is_muted and _FOLLOWS not in record and _HIDDEN not in record:
            mentions = count_unread_mentions(conversation, record)
            if mentions:
                self.sums[_TOTAL_MENTIONS] += mentions

    def _add_sums(self, name: str, unread_count: int, unread_mention_count: int) -> None:
        for kind, value in (("n", 1), ("u", unread_count), ("q", unread_mention_count)):
            if value:
                self.sums[f"{kind}{name}"] += value

    @property
    def totals(self) -> UnreadTotals:
        """The sums over all sessions."""
        return UnreadTotals(self.total_unread, self.sums.get(_TOTAL_MENTIONS, 0), self.sums.get(_TOTAL_THREADS, 0))

    def sub_biz(self, sub_biz: str) -> SubBizSums:
        """Return the sums of a subBiz."""
        valid, unread, mentions, threads = (self.sums.get(f"{kind}b{sub_biz}", 0) for kind in "nuqt")
        newest = max(self.entries_of(f"B{sub_biz}"), default=None)
        written_ms, conversation = parse_entry(newest) if newest is not None else (0, None)
        return SubBizSums(valid, unread, mentions, threads, conversation, written_ms)

    def entries_of(self, name: str, before: str | None = None) -> list[str]:
        """Return the entries of a list, in no order; only those before an entry, if one is given."""
        first, end = f"{name}\n", before if before is not None else f"{name}\n~"
        return [entry for entry in self.entries if first <= entry < end]

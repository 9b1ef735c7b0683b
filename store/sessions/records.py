"""Builds the records of sessions from their rows and the heads of their conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.base.ids import THREADS, ConversationId, UserId, encode_user, gateway_id
from store.conversations.conversation_fields import ConversationField as Head
from store.mongo.client import Document
from store.sessions.fields import (
    IN_ROW_AND_RECORD,
    JOINED_N,
    LAST_READABLE_N,
    LAST_READABLE_SEQ,
    MAX_UNREAD_MENTIONS,
    ROW_FIELDS,
    record_of,
)
from store.sessions.session import Session
from store.sessions.session_lists import SessionLists

LATE_MS = 60_000
"""Longest time from the start of a message's commit until it is applied to the cached states of its readers."""

LATE_SEQS = 500
"""Number of a conversation's newest messages that may not be applied yet."""

HEAD_PROJECTION = dict.fromkeys(
    (
        *(Head.SEQ, Head.N, Head.MOVED_AT, Head.WRITTEN_AT, Head.SUB_BIZ, Head.MENTIONS_ALL, Head.ENDED_AT_MS),
        *(Head.GROUP_VERSION, Head.FLOOR_SEQ, Head.FLOOR_N),
        *(name for sides in (Head.READ, Head.DELIVERED, Head.WROTE_SEQ, Head.WROTE_N) for name in sides),
    ),
    1,
)

Records = dict[ConversationId, dict[str, Any]]

_WRITE_SEQ, _N, _PRIORITY, _ACTIVE_TS = (
    f.stored for f in (Session.write_seq, Session.n, Session.priority, Session.active_ts)
)
_ACKNOWLEDGED_SEQ, _READ_N, _RECEIVED_SEQ = (
    f.stored for f in (Session.acknowledged_seq, Session.read_n, Session.received_seq)
)
_WRITE_TS, _SUB_BIZ = Session.write_ts.stored, Session.sub_biz.stored
_PEER_READ, _PEER_DELIVERED = Session.peer_read_seq.stored, Session.peer_delivered_seq.stored
_MUTED, _MUTED_UNTIL, _MENTIONS = Session.muted.stored, Session.muted_until_ms.stored, Session.mentions.stored
_DISSOLVED, _LAST_READABLE, _GAPS = Session.dissolved.stored, Session.last_readable_seq.stored, Session.gaps.stored

_GROUP_VERSION, _HIDDEN = Session.group_version.stored, Session.hidden.stored
_FLOOR_SEQ, _FLOOR_N = Session.floor_seq.stored, Session.floor_n.stored
_FOLLOW_VERSION = Session.follow_version.stored

_NOT_COPIED = ROW_FIELDS - {field.stored for field in IN_ROW_AND_RECORD}

_SIDES = tuple((Head.READ[1 - i], Head.DELIVERED[1 - i], Head.WROTE_SEQ[i], Head.WROTE_N[i]) for i in (0, 1))
"""Fields of a private conversation's head for the first user and the second: the peer's positions, own messages."""


def record_from(
    user: UserId, conversation: ConversationId, row: Document, head: Document, now_ms: int
) -> dict[str, Any]:
    """Return the record of a session from its row and its conversation's head.

    Written for speed, since a load calls it for each of a user's sessions. The fixed fields come first, in the order of
    the table of fields, and then the peer's positions: scripts rely on it.
    """
    settings, active_ts = ({}, row.get(_ACTIVE_TS, 0)) if row.keys() <= _NOT_COPIED else _settings_from(row, now_ms)
    if LAST_READABLE_SEQ in row:
        head = _head_for_former_member(head, row, active_ts)
    write_seq, n, committed_at = head[Head.SEQ], head[Head.N], head.get(Head.MOVED_AT, 0)
    read_seq, read_n, delivered_seq = row[_ACKNOWLEDGED_SEQ], row[_READ_N], row[_RECEIVED_SEQ]
    write_ts = row.get(_WRITE_TS, 0)
    if read_seq > write_seq or read_n > n or delivered_seq > write_seq:
        # A server that died during a write has left positions past the newest message.
        read_seq, read_n, delivered_seq = min(read_seq, write_seq), min(read_n, n), min(delivered_seq, write_seq)
    is_private, peer_read_seq, peer_delivered_seq = conversation.startswith("p_"), 0, 0
    if is_private:
        is_first = conversation.startswith(f"{encode_user(user)}_", len("p_"))
        peer_read, peer_delivered, wrote_seq, wrote_n = _SIDES[0 if is_first else 1]
        peer_read_seq, peer_delivered_seq = head.get(peer_read, 0), head.get(peer_delivered, 0)
        if read_seq < head.get(wrote_seq, 0):
            # Sending reads.
            read_seq, read_n = head[wrote_seq], head[wrote_n]
            delivered_seq = max(delivered_seq, read_seq)
    if committed_at > active_ts:
        active_ts = committed_at
    # A message that was written before the user joined does not count, even if it became durable afterwards.
    if head.get(Head.WRITTEN_AT, 0) > write_ts and n > row.get(JOINED_N, -1):
        write_ts = head[Head.WRITTEN_AT]
    record = {
        _WRITE_SEQ: write_seq,
        _N: n,
        _ACKNOWLEDGED_SEQ: read_seq,
        _READ_N: read_n,
        _RECEIVED_SEQ: delivered_seq,
        _PRIORITY: 0,
        _ACTIVE_TS: active_ts,
        _WRITE_TS: write_ts,
    }
    if is_private:
        record[_PEER_READ], record[_PEER_DELIVERED] = peer_read_seq, peer_delivered_seq
        if "~" in conversation:
            record[_SUB_BIZ] = conversation.partition("~")[2]
    elif head.get(Head.SUB_BIZ) is not None:
        record[_SUB_BIZ] = head[Head.SUB_BIZ]
    elif conversation.startswith("t_"):
        record[_SUB_BIZ] = THREADS
    if Head.GROUP_VERSION in head and conversation.startswith("g_"):
        record[_GROUP_VERSION] = head[Head.GROUP_VERSION]
    if _MENTIONS in row or Head.MENTIONS_ALL in head:
        seqs = {*row.get(_MENTIONS, ()), *head.get(Head.MENTIONS_ALL, ())}
        first = max(read_seq, head.get(Head.FLOOR_SEQ, 0))
        if mentions := sorted(seq for seq in seqs if first < seq <= write_seq):
            record[_MENTIONS] = mentions[-MAX_UNREAD_MENTIONS:]
    if Head.ENDED_AT_MS in head:
        record[_DISSOLVED], record[_ACTIVE_TS] = 1, max(active_ts, head[Head.ENDED_AT_MS])
    if LAST_READABLE_SEQ in row:
        record[_LAST_READABLE] = row[LAST_READABLE_SEQ]
    if committed_at > now_ms - LATE_MS:
        # Some of the newest messages may be durable but not applied yet. Applying them must count as a change.
        record[_GAPS] = [max(1, write_seq - LATE_SEQS + 1), write_seq]
    if Head.FLOOR_SEQ in head:
        record[_FLOOR_SEQ], record[_FLOOR_N] = head[Head.FLOOR_SEQ], head[Head.FLOOR_N]
    record |= settings
    return record


def channel_record_from(row: Document, now_ms: int) -> dict[str, Any]:
    """Return the record of the session of a channel, or of a thread that the user does not follow, from its row.

    What it takes from the head is added when it is read.
    """
    settings, active_ts = _settings_from(row, now_ms)
    record = record_of(
        acknowledged_seq=row[_ACKNOWLEDGED_SEQ],
        read_n=row[_READ_N],
        received_seq=row[_RECEIVED_SEQ],
        active_ts=active_ts,
        write_ts=row.get(_WRITE_TS, 0),
    )
    mentions = sorted({seq for seq in row.get(_MENTIONS, ()) if seq > row[_ACKNOWLEDGED_SEQ]})
    if mentions:
        record[_MENTIONS] = mentions[-MAX_UNREAD_MENTIONS:]
    return record | settings


def is_hidden_by(parent: ConversationId, records: Records) -> bool:
    """Return whether a private conversation or group, of which a user has a session or not, hides its threads."""
    if not parent.startswith("g_"):
        return False
    record = records.get(parent)
    return record is None or _LAST_READABLE in record or _DISSOLVED in record


def hide(record: dict[str, Any]) -> None:
    """Hide the session of a thread whose parent conversation the user can't see. See `_membership_changes.lua`.

    The record has nothing of the head, which may have messages that the user can't see.
    """
    newest = max(record[_ACKNOWLEDGED_SEQ], record[_RECEIVED_SEQ])
    record |= {_HIDDEN: 1, _LAST_READABLE: newest, _WRITE_SEQ: newest, _N: record[_READ_N], _WRITE_TS: 0}
    for name in (_MENTIONS, _GAPS):
        record.pop(name, None)


def _head_for_former_member(head: Document, row: Document, active_ts: int) -> Document:
    """Return the head as it was when the user left; of later events only the end of the group is visible."""
    names = (Head.SUB_BIZ, Head.ENDED_AT_MS, Head.FLOOR_SEQ, Head.FLOOR_N)
    lasting = {name: head[name] for name in names if name in head}
    visible = {
        Head.SEQ: row[LAST_READABLE_SEQ],
        Head.N: row[LAST_READABLE_N],
        Head.MOVED_AT: active_ts,
        Head.WRITTEN_AT: 0,
        Head.MENTIONS_ALL: head.get(Head.MENTIONS_ALL, ()),
    }
    return visible | lasting


def _settings_from(row: Document, now_ms: int) -> tuple[dict[str, Any], int]:
    """Return the fields of the record that come from the row alone, and the row's `active_ts`.

    Fields that only later versions know are copied, so that servers of these versions find them. After the end of a
    mute, `active_ts` is at least the time of this end.
    """
    settings = {f.stored: row[f.stored] for f in IN_ROW_AND_RECORD if row.get(f.stored) is not None}
    if not row.keys() <= ROW_FIELDS:
        settings |= {name: value for name, value in row.items() if name not in ROW_FIELDS and value is not None}
    active_ts = row.get(_ACTIVE_TS, 0)
    ends = settings.pop(_MUTED_UNTIL, None)
    if ends is not None and ends <= now_ms:
        active_ts = max(active_ts, ends)
        settings.pop(_MUTED, None)
    elif ends is not None:
        settings[_MUTED_UNTIL] = Session.muted_until_ms.in_record(ends)
    return settings, active_ts


def gateway_records(
    records: Records, rows: Mapping[ConversationId, Document], lists: SessionLists, now_ms: int
) -> Records:
    """Return the record of a gateway for each subBiz that has or had sessions, one tick after its newest session.

    lists: with all sessions. The gateways are not added.
    """
    newest: dict[str, int] = {}
    for record in records.values():
        # The gateway of threads stays when the user stops following all of them, so that devices get it as INVALID.
        sub_biz = record.get(_SUB_BIZ) or (THREADS if _FOLLOW_VERSION in record else None)
        if sub_biz is not None:
            newest[sub_biz] = max(newest.get(sub_biz, 0), record[_ACTIVE_TS])
    gateways: Records = {}
    for sub_biz, tick in newest.items():
        name, inside = gateway_id(sub_biz), lists.sub_biz(sub_biz)
        row = rows.get(name, {})
        settings, active_ts = _settings_from(row, now_ms)
        written = row.get(_WRITE_TS, 0)
        record = record_of(
            active_ts=max(active_ts, tick + 1),
            write_ts=max(written, inside.written_ms),
            own_write_ts=written,
            valid_inside=inside.valid_count,
            unread_inside=inside.unread_count,
            mentions_inside=inside.unread_mention_count,
            threads_inside=inside.unread_threads or None,
            newest_inside=inside.newest,
        )
        gateways[name] = record | settings
    return gateways


def has_moved_recently(record: Mapping[str, Any], now_ms: int) -> bool:
    """Return whether a session moved so short a time ago that MongoDB may not have all of it yet."""
    return bool(record[_ACTIVE_TS] > now_ms - LATE_MS)


def renew_recent_ticks(records: Records, now_ms: int) -> Records:
    """Give sessions that changed a moment ago new ticks: their last ones may be later than those stored in MongoDB.

    Returns these sessions.
    """
    recent = sorted(
        (record[_ACTIVE_TS], conversation)
        for conversation, record in records.items()
        if has_moved_recently(record, now_ms)
    )
    if recent:
        latest = max(now_ms, recent[-1][0])
        for tick, (_, conversation) in enumerate(recent, start=latest + 1):
            records[conversation][_ACTIVE_TS] = tick
    return {conversation: records[conversation] for _, conversation in recent}


def make_ticks_unique(records: Records) -> Records:
    """Give sessions that moved in the same millisecond different ticks. Returns those that got another one."""
    if len({record[_ACTIVE_TS] for record in records.values()}) == len(records):
        return {}
    changed, last = {}, 0
    for tick, conversation in sorted((record[_ACTIVE_TS], conversation) for conversation, record in records.items()):
        if tick <= last:
            records[conversation][_ACTIVE_TS] = last + 1
            changed[conversation] = records[conversation]
        last = max(tick, last + 1)
    return changed

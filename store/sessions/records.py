"""Builds the records of sessions from their rows and the heads of their conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.base.ids import ConversationId, UserId, gateway_id, parse_private
from store.conversations.conversation_fields import ConversationField as Head
from store.mongo.client import Document
from store.sessions.fields import (
    IN_ROW_AND_RECORD,
    JOINED_N,
    LAST_READABLE_N,
    LAST_READABLE_SEQ,
    MAX_UNREAD_MENTIONS,
    record_of,
)
from store.sessions.session import Session

LATE_MS = 60_000
"""Longest time from the start of a message's commit until it is applied to the cached states of its readers."""

LATE_SEQS = 500
"""Number of a conversation's newest messages that may not be applied yet."""

HEAD_PROJECTION = dict.fromkeys(
    (
        *(Head.SEQ, Head.N, Head.MOVED_AT, Head.WRITTEN_AT, Head.SUB_BIZ, Head.MENTIONS_ALL, Head.ENDED_AT_MS),
        *(name for sides in (Head.READ, Head.DELIVERED, Head.WROTE_SEQ, Head.WROTE_N) for name in sides),
    ),
    1,
)

Records = list[tuple[ConversationId, dict[str, Any]]]

_A, _W, _SB = Session.active_ts.stored, Session.write_ts.stored, Session.sub_biz.stored
_R, _RN, _D = Session.acknowledged_seq.stored, Session.read_n.stored, Session.received_seq.stored
_MUTED, _MUTED_UNTIL, _MENTIONS = Session.muted.stored, Session.muted_until_ms.stored, Session.mentions.stored


def record_from(
    user: UserId, conversation: ConversationId, row: Document, head: Document, now_ms: int
) -> dict[str, Any]:
    """Return the record of a session from its row and its conversation's head."""
    settings, active_ts = _settings_from(row, now_ms)
    last_readable_seq = row.get(LAST_READABLE_SEQ)
    if last_readable_seq is not None:
        head = _head_for_former_member(head, row, active_ts)
    write_seq, n = head[Head.SEQ], head[Head.N]
    # A server that died during a write may have left positions past the newest message.
    read_seq, read_n, delivered_seq = min(row[_R], write_seq), min(row[_RN], n), min(row[_D], write_seq)
    people = parse_private(conversation)
    peer_read_seq = peer_delivered_seq = None
    if people is not None:
        side = 0 if people[0] == user else 1
        peer = 1 - side
        peer_read_seq, peer_delivered_seq = head.get(Head.READ[peer], 0), head.get(Head.DELIVERED[peer], 0)
        if read_seq < head.get(Head.WROTE_SEQ[side], 0):
            # Sending reads.
            read_seq, read_n = head[Head.WROTE_SEQ[side]], head[Head.WROTE_N[side]]
            delivered_seq = max(delivered_seq, read_seq)
    committed_at = head.get(Head.MOVED_AT, 0)
    # A message that was written before the user joined does not count, even if it became durable afterwards.
    written_at = head.get(Head.WRITTEN_AT, 0) if n > row.get(JOINED_N, -1) else 0
    mentions = sorted(
        seq for seq in {*row.get(_MENTIONS, ()), *head.get(Head.MENTIONS_ALL, ())} if read_seq < seq <= write_seq
    )
    record = record_of(
        write_seq=write_seq,
        n=n,
        acknowledged_seq=read_seq,
        read_n=read_n,
        received_seq=delivered_seq,
        active_ts=max(active_ts, head.get(Head.ENDED_AT_MS, 0), committed_at),
        write_ts=max(row.get(_W, 0), written_at),
        peer_read_seq=peer_read_seq,
        peer_delivered_seq=peer_delivered_seq,
        mentions=mentions[-MAX_UNREAD_MENTIONS:] or None,
        sub_biz=people[2] if people is not None else head.get(Head.SUB_BIZ),
        dissolved=1 if Head.ENDED_AT_MS in head else None,
        last_readable_seq=last_readable_seq,
        # Some of the newest messages may be durable but not applied yet. Applying them must count as a change.
        gaps=[max(1, write_seq - LATE_SEQS + 1), write_seq] if committed_at > now_ms - LATE_MS else None,
    )
    return record | settings


def _head_for_former_member(head: Document, row: Document, active_ts: int) -> Document:
    """Return the head as it was when the user left; of later events only the end of the group is visible."""
    lasting = {name: head[name] for name in (Head.SUB_BIZ, Head.ENDED_AT_MS) if name in head}
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

    A mute that has ended meanwhile moved the session when it ended.
    """
    settings = {f.stored: row[f.stored] for f in IN_ROW_AND_RECORD if row.get(f.stored) is not None}
    active_ts = row.get(_A, 0)
    ends = settings.pop(_MUTED_UNTIL, None)
    if ends is not None and ends <= now_ms:
        active_ts = max(active_ts, ends)
        settings.pop(_MUTED, None)
    elif ends is not None:
        settings[_MUTED_UNTIL] = Session.muted_until_ms.in_record(ends)
    return settings, active_ts


def gateway_records(records: Records, rows: Mapping[ConversationId, Document], now_ms: int) -> Records:
    """Return the record of a gateway for each subBiz that has sessions, one tick after its newest session."""
    newest: dict[str, int] = {}
    for _, record in records:
        if _SB in record:
            newest[record[_SB]] = max(newest.get(record[_SB], 0), record[_A])
    gateways = []
    for sub_biz, tick in newest.items():
        name = gateway_id(sub_biz)
        row = rows.get(name, {})
        settings, active_ts = _settings_from(row, now_ms)
        written = row.get(_W, 0)
        record = record_of(active_ts=max(active_ts, tick + 1), write_ts=written, own_write_ts=written)
        gateways.append((name, record | settings))
    return gateways


def renew_recent_ticks(records: Records, now_ms: int) -> None:
    """Give sessions that changed a moment ago new ticks: their last ones may be later than those stored in MongoDB."""
    latest = max([now_ms, *(record[_A] for _, record in records)])
    recent = [record for _, record in records if record[_A] > now_ms - LATE_MS]
    for offset, record in enumerate(sorted(recent, key=lambda record: int(record[_A]))):
        record[_A] = latest + 1 + offset


def make_ticks_unique(records: Records) -> None:
    """Sort sessions by tick, and give those that moved in the same millisecond different ticks."""
    records.sort(key=lambda pair: (pair[1][_A], pair[0]))
    last = 0
    for _, record in records:
        record[_A] = last = max(record[_A], last + 1)

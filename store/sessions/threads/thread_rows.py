"""Rows of sessions of threads: which of them are hidden, because the user can't see the parent conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from store.base.ids import ConversationId, UserId, parse_thread, without_thread
from store.conversations.conversation import member_from
from store.conversations.conversation_fields import ConversationField as Head
from store.messages.message import MessageKind
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    SESSIONS,
    between_places,
    member_row_id,
    session_row_id,
)
from store.mongo.index_fields import PLACE
from store.mongo.writes import Update, Write
from store.sessions.fields import GONE, HIDDEN_UNDER, NOTED_LOSS, WAS_HIDDEN
from store.sessions.records import HEAD_PROJECTION, Records, channel_record_from, hide, is_hidden_by, record_from
from store.sessions.session import Session
from store.sessions.session_lists import is_channel

FindVisible = Callable[[UserId, Collection[ConversationId]], Awaitable[Collection[ConversationId]]]
"""Returns those of some channels that a user can see, judged under the present policies."""

_ACTIVE_TS, _WRITE_TS = Session.active_ts.stored, Session.write_ts.stored
_FOLLOWS, _HIDDEN = Session.follows.stored, Session.hidden.stored
_READ_SEQ, _READ_N = Session.acknowledged_seq.stored, Session.read_n.stored
_DELIVERED_SEQ, _LAST_READABLE = Session.received_seq.stored, Session.last_readable_seq.stored


class _Reply(NamedTuple):
    seq: int
    n: int
    countable: bool


class ThreadRows:
    """Makes records of sessions of threads, for loads."""

    def __init__(self, mongo: Mongo, find_visible: FindVisible) -> None:
        self._mongo = mongo
        self._find_visible = find_visible

    async def read(
        self,
        user: UserId,
        rows: Mapping[ConversationId, Document],
        records: Records,
        joined: Mapping[ConversationId, int],
        now: int,
    ) -> Records:
        """Return the records of rows. No round trip for none.

        Args:
            user: The user.
            rows: The rows.
            records: All others of the user.
            joined: By group, the seq of the message by which the user joined last.
            now: The time (ms).
        """
        if not rows:
            return {}
        followed = [name for name, row in rows.items() if _FOLLOWS in row]
        parents = {name: without_thread(name) for name in rows}
        groups = {parent for parent in parents.values() if parent in records and parent.startswith("g_")}
        heads, visible, unreadable = await asyncio.gather(
            self._mongo.find(CONVERSATIONS, {"_id": {"$in": followed}}, projection=HEAD_PROJECTION),
            self._find_visible(user, {parent for parent in parents.values() if is_channel(parent)}),
            self._find_unreadable(user, rows, sorted(groups)),
        )
        head_of = {head["_id"]: head for head in heads}
        positions = await self._read_by_joining(
            {
                name: (rows[name][_READ_SEQ], head_of[name], joined[parents[name]])
                for name in followed
                if name in head_of and joined.get(parents[name], 0) > _parent_seq(name)
            }
        )
        threads: Records = {}
        for name, row in rows.items():
            if GONE in row or (_FOLLOWS in row and name not in head_of):
                continue
            if _FOLLOWS in row:
                row |= positions.get(name, {})
                record = record_from(user, name, row, head_of[name], now)
            else:
                record = channel_record_from(row, now)
                # It is in no list. A write that began while the user followed may have left a time in the row.
                record[_WRITE_TS] = 0
            parent = parents[name]
            if parent not in visible if is_channel(parent) else is_hidden_by(parent, records) or name in unreadable:
                hide(record)
            threads[name] = record
        return threads

    async def _find_unreadable(
        self, user: UserId, threads: Collection[ConversationId], groups: Sequence[ConversationId]
    ) -> set[ConversationId]:
        """Return the threads whose parent message is outside of what a member may read in a group."""
        if not groups:
            return set()
        rows = {member_row_id(group, user): group for group in groups}
        found, heads = await asyncio.gather(
            self._mongo.find(MEMBERS, {"_id": {"$in": list(rows)}}),
            self._mongo.find(CONVERSATIONS, {"_id": {"$in": list(groups)}}, projection={Head.FULL_HISTORY: 1}),
        )
        members = {rows[row["_id"]]: member_from(user, row) for row in found}
        full_history = {head["_id"]: bool(head.get(Head.FULL_HISTORY)) for head in heads}
        unreadable = set()
        for thread in threads:
            group = without_thread(thread)
            member, is_full = members.get(group), full_history.get(group, False)
            if member is not None and not member.can_read(_parent_seq(thread), full_history=is_full):
                unreadable.add(thread)
        return unreadable

    async def _read_by_joining(
        self, threads: Mapping[ConversationId, tuple[int, Document, int]]
    ) -> dict[ConversationId, dict[str, int]]:
        """Return the positions of threads that users have read by joining a group again, if they are later ones.

        Who joins a group has everything read that was said there before. So replies that the user may not read, because
        they were away, do not count.

        threads: read position, head, and the seq of the message by which the user joined. No round trip if everything
        is read.
        """
        unread = {name: each for name, each in threads.items() if each[0] < each[1][Head.SEQ]}
        firsts = await asyncio.gather(
            *(self._find_first_reply(name, seq, head[Head.SEQ], by) for name, (seq, head, by) in unread.items())
        )
        positions: dict[ConversationId, dict[str, int]] = {}
        for (name, (seq, head, _)), first in zip(unread.items(), firsts, strict=True):
            read_seq, read_n = (first.seq - 1, first.n - first.countable) if first else (head[Head.SEQ], head[Head.N])
            if read_seq > seq:
                positions[name] = {_READ_SEQ: read_seq, _READ_N: read_n, _DELIVERED_SEQ: read_seq}
        return positions

    async def _find_first_reply(self, thread: ConversationId, after: int, last: int, joined: int) -> _Reply | None:
        """Return the first reply after a seq that was written since the user joined. One round trip."""
        query = between_places(thread, after + 1, last) | {MessageField.PARENT_SEQ: {"$gte": joined}}
        fields = (MessageField.SEQ, MessageField.N, MessageField.KIND)
        projection = dict.fromkeys(fields, 1)
        found = await self._mongo.find(MESSAGES, query, sort=PLACE, limit=1, projection=projection)
        if not found:
            return None
        row = found[0]
        return _Reply(row[MessageField.SEQ], row[MessageField.N], row[MessageField.KIND] != MessageKind.SYSTEM.value)

    async def note_hidden(
        self,
        user: UserId,
        rows: Mapping[ConversationId, Document],
        records: Records,
        joined: Mapping[ConversationId, int],
        now: int,
    ) -> Records:
        """Give new ticks to threads that were hidden, or are visible again, since the last load. Returns these.

        So `syncSessions` returns them, also if the user's state was not cached when it happened. A cached state hides
        threads without a write to their rows. So a thread gets a new tick too if the user has lost access since the
        last load, and has it again: devices may have seen it hidden, with a tick that no row has.

        Args:
            user: The user.
            rows: The rows of threads.
            records: All of the user.
            joined: As for `read`.
            now: The time (ms).
        """
        losses = {name: _latest_loss(name, row, records, joined) for name, row in rows.items() if name in records}
        changed = {
            name: records[name]
            for name, loss in losses.items()
            if (_HIDDEN in records[name]) != (WAS_HIDDEN in rows[name]) or loss != rows[name].get(NOTED_LOSS, 0)
        }
        if not changed:
            return {}
        latest = max(now, *(record[_ACTIVE_TS] for record in records.values()))
        updates = []
        for tick, (name, record) in enumerate(changed.items(), start=latest + 1):
            record[_ACTIVE_TS] = tick
            noted: dict[str, Any] = {"$set": {NOTED_LOSS: losses[name]}, "$max": {_ACTIVE_TS: tick}}
            if _HIDDEN in record:
                noted["$set"][WAS_HIDDEN] = 1
            else:
                noted["$unset"] = {WAS_HIDDEN: ""}
            updates.append(Update({"_id": session_row_id(user, name)}, noted))
        await self._mongo.write([Write.updates(SESSIONS, updates)])
        return changed


def _latest_loss(thread: ConversationId, row: Document, records: Records, joined: Mapping[ConversationId, int]) -> int:
    """Return a number that grows with each loss of access to a thread that the user may have had before; 0: none.

    In channels it is the policy version of the change that took the right away. In groups it is the last seq of a
    former member, and otherwise the seq of the last join, before which the user may have been a member.
    """
    parent = without_thread(thread)
    if is_channel(parent):
        return int(row.get(HIDDEN_UNDER, 0))
    seq = records[parent].get(_LAST_READABLE) if parent in records else None
    seq = joined.get(parent, 0) if seq is None else seq
    # No thread is older than its parent message.
    return int(seq) if seq > _parent_seq(thread) else 0


def _parent_seq(thread: ConversationId) -> int:
    place = parse_thread(thread)
    assert place is not None
    return place.seq

"""Sessions in MongoDB: reads a user's whole state, and writes rows under the user's lock. Fields: `fields.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.errors import NotAttempted, Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, SESSIONS, session_row_id, sessions_of
from store.mongo.writes import Update, Write
from store.sessions.fields import FENCE
from store.sessions.records import (
    HEAD_PROJECTION,
    Records,
    gateway_records,
    make_ticks_unique,
    record_from,
    renew_recent_ticks,
)
from store.sessions.row_commits import RowCommits
from store.sessions.session import Session

_HEADS_PER_QUERY = 2_000

_NOTHING_READ = {field.stored: 0 for field in (Session.acknowledged_seq, Session.read_n, Session.received_seq)}


class Tick(NamedTuple):
    """Time at which a session moved, ms.

    `written_at`: its `write_ts`, if that does not follow from the conversation's.
    """

    user: UserId
    conversation: ConversationId
    at: int
    written_at: int = 0


class SessionRows:
    """Rows of sessions."""

    def __init__(self, mongo: Mongo, clock: Clock) -> None:
        self._mongo = mongo
        self._clock = clock
        self._commits = RowCommits(mongo)

    async def read(self, user: UserId) -> Records:
        """Return a user's whole state: the record of each session and gateway.

        No two records have the same `active_ts`, and the `active_ts` of a session never goes back.
        """
        now = self._clock.now_ms()
        start = len(user) + 1
        rows = {ConversationId(row["_id"][start:]): row for row in await self._mongo.find(SESSIONS, sessions_of(user))}
        names = [name for name in rows if not _is_gateway(name)]
        chunks = [names[i : i + _HEADS_PER_QUERY] for i in range(0, len(names), _HEADS_PER_QUERY)]
        queries = [
            self._mongo.find(CONVERSATIONS, {"_id": {"$in": chunk}}, projection=HEAD_PROJECTION) for chunk in chunks
        ]
        answers = await self._mongo.gather(*queries) if queries else []
        heads = {head["_id"]: head for answer in answers for head in answer}
        records = [(c, record_from(user, c, rows[c], heads[c], now)) for c in names if c in heads]
        active_ts = Session.active_ts.stored
        known = {conversation: record[active_ts] for conversation, record in records}
        renew_recent_ticks(records, now)
        gateways = gateway_records(records, rows, now)
        known |= {conversation: record[active_ts] for conversation, record in gateways}
        records += gateways
        make_ticks_unique(records)
        moved = [Tick(user, c, record[active_ts]) for c, record in records if record[active_ts] != known[c]]
        if moved:
            await self._write_ticks(moved)
        return records

    async def write(
        self,
        user: UserId,
        fence: int,
        updates: Mapping[ConversationId, Mapping[str, Any]],
        also: Sequence[Write] = (),
    ) -> None:
        """Update rows under the user's lock, together with other writes: one waited round trip, shared with others.

        All updates and writes may be repeated.

        Raises:
            Fenced: A later holder of the lock has written one of the rows. The others may have been written.
            Unreachable: MongoDB did not confirm the writes. Some may have been written.
        """
        rows = [_fenced_update(user, conversation, fence, update) for conversation, update in updates.items()]
        await self._commits.commit(fence, rows, also)

    async def keep_ticks(self, ticks: Sequence[Tick]) -> None:
        """Make sure that sessions keep at least these ticks when they are loaded again. No request waits for it."""
        if ticks:
            self._mongo.trips -= 1
            await self._write_ticks(ticks)

    async def _write_ticks(self, ticks: Sequence[Tick]) -> None:
        write = Write.updates(SESSIONS, [_tick_update(tick) for tick in ticks])
        try:
            await self._mongo.write([write])
        except Unreachable as error:
            # The primary may have changed, or another upsert of a gateway's row may have come first.
            if isinstance(error, NotAttempted):
                raise
            await self._mongo.write([write])


def _is_gateway(conversation: ConversationId) -> bool:
    return kind_of(conversation) is ConversationKind.SUB_BIZ


def _fenced_update(user: UserId, conversation: ConversationId, fence: int, update: Mapping[str, Any]) -> Update:
    not_later = [{FENCE: {"$exists": False}}, {FENCE: {"$lte": fence}}]
    row = {"_id": session_row_id(user, conversation), "$or": not_later}
    return _update_row(row, conversation, {**update, "$set": {**update.get("$set", {}), FENCE: fence}})


def _tick_update(tick: Tick) -> Update:
    times = {Session.active_ts.stored: tick.at}
    if tick.written_at:
        times[Session.write_ts.stored] = tick.written_at
    return _update_row({"_id": session_row_id(tick.user, tick.conversation)}, tick.conversation, {"$max": times})


def _update_row(row: Mapping[str, Any], conversation: ConversationId, update: Mapping[str, Any]) -> Update:
    """Return the update of a row. The row of a gateway is created by its first change."""
    if not _is_gateway(conversation):
        return Update(row, update)
    return Update(row, {**update, "$setOnInsert": _NOTHING_READ}, upsert=True)

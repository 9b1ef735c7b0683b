"""Sessions in MongoDB: reads a user's whole state, and writes rows under the user's lock. Fields: `fields.py`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, NamedTuple

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from store.base.clock import Clock
from store.base.errors import Fenced, Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.mongo.client import Document, Mongo
from store.mongo.collections import BY_ID, CONVERSATIONS, SESSIONS, session_row_id, sessions_of
from store.sessions.fields import FENCE
from store.sessions.loaded_state import LoadedState
from store.sessions.records import (
    HEAD_PROJECTION,
    Records,
    gateway_records,
    make_ticks_unique,
    record_from,
    renew_recent_ticks,
)
from store.sessions.session import Session
from store.sessions.session_lists import SessionLists

_ROWS_PER_QUERY = 2_000

_A = Session.active_ts.stored

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

    async def read(self, user: UserId) -> LoadedState:
        """Return a user's whole state.

        No two sessions have the same `active_ts`, and the `active_ts` of a session never goes back. Rows are read in
        parts. While MongoDB reads a part, the heads of the earlier parts are read and turned into records.
        """
        now = self._clock.now_ms()
        records: Records = {}
        gateway_rows: dict[ConversationId, Document] = {}
        lists = SessionLists()

        async def add(rows: Mapping[ConversationId, Document]) -> None:
            heads = await self._mongo.find(CONVERSATIONS, {"_id": {"$in": list(rows)}}, projection=HEAD_PROJECTION)
            for head in heads:
                conversation = head["_id"]
                record = record_from(user, conversation, rows[conversation], head, now)
                lists.add(conversation, record)
                records[conversation] = record

        parts: list[asyncio.Task[None]] = []
        try:
            async for rows in self._row_parts(user):
                gateway_rows |= {name: rows.pop(name) for name in list(rows) if name.startswith("b_")}
                parts.append(asyncio.create_task(add(rows)))
            await asyncio.gather(*parts)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        moved = renew_recent_ticks(records, now)
        gateways = gateway_records(records, gateway_rows, lists, now)
        for conversation, record in gateways.items():
            lists.add(conversation, record)
        records |= gateways
        moved |= make_ticks_unique(records)
        if moved:
            ticks = (Tick(user, conversation, record[_A]) for conversation, record in moved.items())
            await self._mongo.bulk_write(SESSIONS, [_tick_update(tick) for tick in ticks])
        clock = max([self._clock.now_ms(), *(record[_A] for record in records.values())])
        return LoadedState(user, secrets.token_hex(4), clock, records, lists)

    async def _row_parts(self, user: UserId) -> AsyncIterator[dict[ConversationId, Document]]:
        """Yield all rows of a user in parts, by conversation."""
        start, last = len(user) + 1, ""
        while True:
            rows = await self._mongo.find(SESSIONS, sessions_of(user, last), sort=BY_ID, limit=_ROWS_PER_QUERY)
            if rows:
                yield {ConversationId(row["_id"][start:]): row for row in rows}
            if len(rows) < _ROWS_PER_QUERY:
                return
            last = rows[-1]["_id"][start:]

    async def write(
        self,
        user: UserId,
        fence: int,
        updates: Mapping[ConversationId, Mapping[str, Any]],
        also: Sequence[Awaitable[Any]] = (),
    ) -> None:
        """Update rows under the user's lock, together with other writes: one waited round trip.

        Raises:
            Fenced: A later holder of the lock has written one of the rows. The others may have been written.
            Unreachable: MongoDB did not answer. Some may have been written.
        """
        operations = [_fenced_update(user, conversation, fence, update) for conversation, update in updates.items()]

        async def write_rows() -> None:
            try:
                matched = await self._mongo.bulk_write(SESSIONS, operations)
            except BulkWriteError as error:
                # The upsert of a gateway's row found the row of a later holder.
                raise Fenced(f"a later holder of the lock has changed {user}") from error
            if matched < len(operations):
                raise Fenced(f"a later holder of the lock has changed {user}")

        try:
            await self._mongo.gather(write_rows(), *also)
        except BulkWriteError as error:
            # Two upserts of one mark collided. Repeating is safe.
            raise Unreachable("marks of one reader collided") from error

    async def keep_ticks(self, ticks: Sequence[Tick]) -> None:
        """Make sure that sessions keep at least these ticks when they are loaded again. No request waits for it."""
        if ticks:
            await self._mongo.bulk_write_in_background(SESSIONS, [_tick_update(tick) for tick in ticks])


def _is_gateway(conversation: ConversationId) -> bool:
    return kind_of(conversation) is ConversationKind.SUB_BIZ


def _fenced_update(user: UserId, conversation: ConversationId, fence: int, update: Mapping[str, Any]) -> UpdateOne:
    not_later = [{FENCE: {"$exists": False}}, {FENCE: {"$lte": fence}}]
    row = {"_id": session_row_id(user, conversation), "$or": not_later}
    return _update_row(row, conversation, {**update, "$set": {**update.get("$set", {}), FENCE: fence}})


def _tick_update(tick: Tick) -> UpdateOne:
    times = {Session.active_ts.stored: tick.at}
    if tick.written_at:
        times[Session.write_ts.stored] = tick.written_at
    return _update_row({"_id": session_row_id(tick.user, tick.conversation)}, tick.conversation, {"$max": times})


def _update_row(row: Mapping[str, Any], conversation: ConversationId, update: Mapping[str, Any]) -> UpdateOne:
    """Return the update of a row. The row of a gateway is created by its first change."""
    if not _is_gateway(conversation):
        return UpdateOne(row, update)
    return UpdateOne(row, {**update, "$setOnInsert": _NOTHING_READ}, upsert=True)

"""Sessions in MongoDB: reads a user's whole state, and writes rows under the user's lock. Fields: `fields.py`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.errors import NotAttempted, Unreachable
from store.base.group_commit import GroupCommit
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    CONVERSATIONS,
    SESSIONS,
    channel_sessions_of,
    private_sessions_of,
    session_row_id,
    sessions_without_channels,
    timed_channel_mutes_of,
)
from store.mongo.index_fields import BY_ID
from store.mongo.writes import Update, Write
from store.sessions.fields import FENCE, GONE, JOINED_SEQ
from store.sessions.loading.loaded_channels import LoadedChannels
from store.sessions.loading.loaded_state import LoadedState
from store.sessions.records import (
    HEAD_PROJECTION,
    Records,
    channel_record_from,
    gateway_records,
    has_moved_recently,
    make_ticks_unique,
    record_from,
    renew_recent_ticks,
)
from store.sessions.row_commits import RowCommits
from store.sessions.session import Session
from store.sessions.session_lists import AllTotals, SessionLists, is_channel, is_thread
from store.sessions.threads.thread_rows import FindVisible, ThreadRows

_ROWS_PER_QUERY = 2_000
_TICKS_PER_BATCH = 200
"""Callers whose ticks share a write."""

_ACTIVE_TS, _MUTED_UNTIL = Session.active_ts.stored, Session.muted_until_ms.stored

_NOTHING_READ = {field.stored: 0 for field in (Session.acknowledged_seq, Session.read_n, Session.received_seq)}


class Tick(NamedTuple):
    """Time at which a session moved, ms.

    `written_at`: its `write_ts`, if that does not follow from the conversation's.
    """

    user: UserId
    conversation: ConversationId
    at: int
    written_at: int = 0


class _WaitingTicks(NamedTuple):
    """Ticks of one caller of `keep_ticks`."""

    ticks: Sequence[Tick]
    done: asyncio.Future[None]


class _UserRows(NamedTuple):
    """A user's sessions as MongoDB has them, without channels.

    Attributes:
        records: The records of all but gateways.
        gateway_rows: The rows of gateways.
        thread_rows: The rows of threads.
        joined: By group, the seq of the message by which the user joined last. Empty if there are no threads.
        lists: The lists of the records.
        has_channel_mutes: The mute of a session in a channel ends by itself.
    """

    records: Records
    gateway_rows: dict[ConversationId, Document]
    thread_rows: dict[ConversationId, Document]
    joined: dict[ConversationId, int]
    lists: SessionLists
    has_channel_mutes: bool


class SessionRows:
    """Rows of sessions."""

    def __init__(self, mongo: Mongo, clock: Clock, find_visible: FindVisible) -> None:
        self._mongo = mongo
        self._clock = clock
        self._threads = ThreadRows(mongo, find_visible)
        self._commits = RowCommits(mongo)
        self._ticks = GroupCommit(self._keep_all, _TICKS_PER_BATCH)

    async def read(self, user: UserId) -> LoadedState:
        """Return a user's state, without sessions in channels, and whether one of these has a mute with an end.

        No two sessions have the same `active_ts`, and the `active_ts` of a session never goes back.
        """
        now = self._clock.now_ms()
        records, gateway_rows, thread_rows, joined, lists, has_channel_mutes = await self._read_records(user, now)
        moved = await self._threads.note_hidden(user, thread_rows, records, joined, now)
        moved |= renew_recent_ticks(records, now)
        _add_gateways(records, gateway_rows, lists, now)
        moved |= make_ticks_unique(records)
        if moved:
            await self._write_ticks(
                [Tick(user, conversation, record[_ACTIVE_TS]) for conversation, record in moved.items()]
            )
        clock = max([self._clock.now_ms(), *(record[_ACTIVE_TS] for record in records.values())])
        return LoadedState(user, secrets.token_hex(4), clock, records, lists, has_channel_mutes)

    async def read_without_ticks(self, user: UserId) -> Records:
        """Return the records of a user's sessions, without those in channels, and write nothing.

        The `active_ts` of a session may be before the one that the user has seen.
        """
        now = self._clock.now_ms()
        records, gateway_rows, _, _, lists, _ = await self._read_records(user, now)
        _add_gateways(records, gateway_rows, lists, now)
        return records

    async def read_totals(self, user: UserId) -> AllTotals:
        """Return the unread messages, mentions and threads of a user. Writes nothing."""
        now = self._clock.now_ms()
        (records, gateway_rows, _, _, lists, _), channels = await self._mongo.gather(
            self._read_records(user, now), self.read_channels_without_ticks(user)
        )
        _add_gateways(records, gateway_rows, lists, now)
        messages, mentions, threads = lists.totals
        return AllTotals(messages, mentions, threads, LoadedChannels(channels).mentions)

    async def _read_records(self, user: UserId, now: int) -> _UserRows:
        """Return a user's sessions, without gateways and channels.

        Rows are read in parts. While MongoDB reads a part, the heads of the earlier parts are read and turned into
        records.
        """
        records: Records = {}
        gateway_rows: dict[ConversationId, Document] = {}
        thread_rows: dict[ConversationId, Document] = {}
        joined: dict[ConversationId, int] = {}
        lists = SessionLists()
        first_rows, muted_channels = await self._mongo.gather(
            self._read_part(user, ""),
            # An index has all that is asked for.
            self._mongo.find(
                SESSIONS, timed_channel_mutes_of(user, now), projection={"_id": 0, _MUTED_UNTIL: 1}, limit=1
            ),
        )

        async def add(rows: Mapping[ConversationId, Document]) -> None:
            if not rows:
                return
            heads = await self._mongo.find(CONVERSATIONS, {"_id": {"$in": list(rows)}}, projection=HEAD_PROJECTION)
            for head in heads:
                conversation = head["_id"]
                record = record_from(user, conversation, rows[conversation], head, now)
                lists.add(conversation, record)
                records[conversation] = record

        parts: list[asyncio.Task[None]] = []
        try:
            async for rows in self._row_parts(user, first_rows):
                if is_thread(next(iter(rows))):
                    thread_rows |= {name: rows.pop(name) for name in list(rows) if is_thread(name)}
                if thread_rows:
                    # Rows of threads come first.
                    joined |= {name: row[JOINED_SEQ] for name, row in rows.items() if JOINED_SEQ in row}
                gateway_rows |= {name: rows.pop(name) for name in list(rows) if name.startswith("b_")}
                parts.append(asyncio.create_task(add(rows)))
            await asyncio.gather(*parts)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        threads = await self._threads.read(user, thread_rows, records, joined, now)
        for conversation, record in threads.items():
            lists.add(conversation, record)
        return _UserRows(records | threads, gateway_rows, thread_rows, joined, lists, bool(muted_channels))

    async def read_channels(self, user: UserId) -> LoadedChannels:
        """Return all sessions of a user in channels. No two have the same `active_ts`.

        One round trip for each 2,000. Sessions of deleted channels that are being removed are left out.
        """
        records = await self.read_channels_without_ticks(user)
        moved = make_ticks_unique(records)
        if moved:
            await self._write_ticks([Tick(user, channel, record[_ACTIVE_TS]) for channel, record in moved.items()])
        return LoadedChannels(records)

    async def read_channels_without_ticks(self, user: UserId) -> Records:
        """Return the records of a user's sessions in channels, and write nothing."""
        now, start, last = self._clock.now_ms(), len(user) + 1, ""
        records: Records = {}
        while True:
            query = channel_sessions_of(user, last)
            rows = await self._mongo.find(SESSIONS, query, sort=BY_ID, limit=_ROWS_PER_QUERY)
            for row in rows:
                if GONE not in row:
                    records[ConversationId(row["_id"][start:])] = channel_record_from(row, now)
            if len(rows) < _ROWS_PER_QUERY:
                return records
            last = rows[-1]["_id"][start:]

    async def list_private(self, user: UserId, limit: int) -> list[ConversationId]:
        """Return private conversations of a user, also deleted ones: one round trip, which reads only an index."""
        rows = await self._mongo.find(
            SESSIONS, private_sessions_of(user), projection={"_id": 1}, limit=limit, hint=BY_ID
        )
        return [ConversationId(row["_id"][len(user) + 1 :]) for row in rows]

    async def read_some(self, user: UserId, conversations: Sequence[ConversationId]) -> list[Session] | None:
        """Return sessions that are not gateways, without the rest of the state. One round trip.

        Missing ones are left out.
        None: one of them moved within the last minute. Then its row and its head may not belong together, and its
        `active_ts` may be behind the one that the user has seen. Or one is that of a thread, which depends on others.
        """
        if any(map(is_thread, conversations)):
            return None
        now = self._clock.now_ms()
        rows, heads = await self._mongo.gather(
            self._mongo.find(SESSIONS, {"_id": {"$in": [session_row_id(user, name) for name in conversations]}}),
            self._mongo.find(CONVERSATIONS, {"_id": {"$in": list(conversations)}}, projection=HEAD_PROJECTION),
        )
        head_of = {head["_id"]: head for head in heads}
        sessions = []
        for row in rows:
            conversation = ConversationId(row["_id"][len(user) + 1 :])
            if conversation not in head_of:
                continue
            if is_channel(conversation):
                record = channel_record_from(row, now)
            else:
                record = record_from(user, conversation, row, head_of[conversation], now)
            if has_moved_recently(record, now):
                return None
            sessions.append(Session(user, conversation, record))
        return sessions

    async def read_of_users(self, conversation: ConversationId, users: Collection[UserId]) -> dict[UserId, Session]:
        """Return the sessions of some users in one conversation that is no thread. One round trip.

        Their `active_ts` may be before the one that the user has seen.
        """
        now, row_ids = self._clock.now_ms(), {session_row_id(user, conversation): user for user in users}
        rows, heads = await self._mongo.gather(
            self._mongo.find(SESSIONS, {"_id": {"$in": list(row_ids)}}),
            self._mongo.find(CONVERSATIONS, {"_id": conversation}, projection=HEAD_PROJECTION),
        )
        found = {}
        for row in rows if heads else ():
            user = row_ids[row["_id"]]
            in_channel = is_channel(conversation)
            record = (
                channel_record_from(row, now) if in_channel else record_from(user, conversation, row, heads[0], now)
            )
            found[user] = Session(user, conversation, record)
        return found

    async def _row_parts(self, user: UserId, rows: Sequence[Document]) -> AsyncIterator[dict[ConversationId, Document]]:
        """Yield all rows of a user, without channels, in parts, by conversation. rows: the first part."""
        start = len(user) + 1
        while True:
            if rows:
                yield {ConversationId(row["_id"][start:]): row for row in rows}
            if len(rows) < _ROWS_PER_QUERY:
                return
            rows = await self._read_part(user, rows[-1]["_id"])

    async def _read_part(self, user: UserId, after: str) -> list[Document]:
        query = sessions_without_channels(user, after)
        return await self._mongo.find(SESSIONS, query, sort=BY_ID, limit=_ROWS_PER_QUERY)

    async def write(
        self,
        user: UserId,
        fence: int,
        updates: Mapping[ConversationId, Mapping[str, Any]],
        other_writes: Sequence[Write] = (),
    ) -> None:
        """Update rows under the user's lock, together with other writes: one waited round trip, shared with others.

        All updates and writes may be repeated.

        Raises:
            Fenced: A later holder of the lock has written one of the rows. The others may have been written.
            Unreachable: MongoDB did not confirm the writes. Some may have been written.
        """
        rows = [_fenced_update(user, conversation, fence, update) for conversation, update in updates.items()]
        await self._commits.commit(fence, rows, other_writes)

    async def keep_ticks(self, ticks: Sequence[Tick]) -> None:
        """Make sure that sessions keep at least these ticks when they are loaded again. No request waits for it."""
        if ticks:
            waiting = _WaitingTicks(ticks, asyncio.get_running_loop().create_future())
            self._ticks.push([waiting])
            await waiting.done

    async def _keep_all(self, batch: Sequence[_WaitingTicks]) -> None:
        self._mongo.trips -= 1
        try:
            await self._write_ticks([tick for waiting in batch for tick in waiting.ticks])
        except Exception as error:
            for waiting in batch:
                if not waiting.done.done():
                    waiting.done.set_exception(error)
            return
        for waiting in batch:
            if not waiting.done.done():
                waiting.done.set_result(None)

    async def _write_ticks(self, ticks: Sequence[Tick]) -> None:
        write = Write.updates(SESSIONS, [update for tick in ticks for update in _tick_updates(tick)])
        try:
            await self._mongo.write([write])
        except Unreachable as error:
            # The primary may have changed, or another upsert of a gateway's row may have come first.
            if isinstance(error, NotAttempted):
                raise
            await self._mongo.write([write])


def _add_gateways(records: Records, rows: Mapping[ConversationId, Document], lists: SessionLists, now_ms: int) -> None:
    """Add the gateways of all subBizs that have sessions."""
    gateways = gateway_records(records, rows, lists, now_ms)
    for conversation, record in gateways.items():
        lists.add(conversation, record)
    records |= gateways


def _is_gateway(conversation: ConversationId) -> bool:
    return kind_of(conversation) is ConversationKind.SUB_BIZ


def _fenced_update(user: UserId, conversation: ConversationId, fence: int, update: Mapping[str, Any]) -> Update:
    not_later = [{FENCE: {"$exists": False}}, {FENCE: {"$lte": fence}}]
    row = {"_id": session_row_id(user, conversation), "$or": not_later}
    fenced = {**update, "$set": {**update.get("$set", {}), FENCE: fence}}
    # A change of a session in a channel has what the session begins with, and so has that of a thread.
    may_begin = is_channel(conversation) or is_thread(conversation)
    return Update(row, fenced, upsert=True) if may_begin else _update_row(row, conversation, fenced)


def _tick_updates(tick: Tick) -> list[Update]:
    row = {"_id": session_row_id(tick.user, tick.conversation)}
    active, written = {Session.active_ts.stored: tick.at}, {Session.write_ts.stored: tick.written_at}
    if not tick.written_at:
        return [_update_row(row, tick.conversation, {"$max": active})]
    if not is_thread(tick.conversation):
        return [_update_row(row, tick.conversation, {"$max": active | written})]
    # The user may have stopped following since the load. Then the time of the replies is not the session's.
    followed = row | {Session.follows.stored: {"$exists": True}}
    return [Update(row, {"$max": active}), Update(followed, {"$max": written})]


def _update_row(row: Mapping[str, Any], conversation: ConversationId, update: Mapping[str, Any]) -> Update:
    """Return the update of a row. The row of a gateway is created by its first change."""
    if not _is_gateway(conversation):
        return Update(row, update)
    return Update(row, {**update, "$setOnInsert": _NOTHING_READ}, upsert=True)

"""Groups in MongoDB: creating them, and making their changes, and those of threads, durable one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from store.audit.audit_entry import from_json
from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId
from store.conversations.conversation import Member
from store.conversations.conversation_fields import ConversationField, MemberField
from store.conversations.group_change import GroupChange, to_stored
from store.conversations.group_info import GroupInfo
from store.conversations.heads.head_writes import head_updates
from store.messages.message import CommittedMessage, Message, ReservedMessage
from store.messages.message_fields import MessageField
from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.collections import (
    AUDIT,
    CLAIMS,
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    SESSIONS,
    at_place,
    member_row_id,
    session_row_id,
)
from store.reports.flag_reports import FlagReports
from store.sessions.changes import new_row
from store.sessions.row_writes import message_updates
from store.threads.membership_changes import session_changes
from store.threads.reply_writes import reply_updates

CLAIM_SECONDS = 24 * 3600
"""Time for which a creator's idempotency key returns the first group."""


class GroupStore:
    """Groups in MongoDB."""

    def __init__(self, mongo: Mongo, flag_reports: FlagReports) -> None:
        self._flag_reports = flag_reports
        self._mongo = mongo
        self._origins = OriginStore(mongo)

    async def find_claim(self, creator: UserId, key: str) -> ConversationId | None:
        """Return the group that was created with a creator's idempotency key."""
        row = await self._mongo.find_one(CLAIMS, {"_id": _claim_id(creator, key)})
        return ConversationId(row["c"]) if row else None

    async def insert(
        self,
        conversation: ConversationId,
        info: GroupInfo,
        members: Sequence[Member],
        key: str | None,
    ) -> bool:
        """Create a group with its members and their sessions, all or nothing.

        Return False if the key is taken: then nothing was stored.
        """
        at = info.created_at_ms
        head: dict[str, Any] = {
            "_id": conversation,
            ConversationField.KIND: "G",
            ConversationField.SEQ: 0,
            ConversationField.N: 0,
            ConversationField.MOVED_AT: at,
            ConversationField.WRITTEN_AT: at,
            ConversationField.CREATED_BY: info.owner,
            ConversationField.MEMBER_COUNT: len(members),
            **info.to_fields(),
        }
        rows = [{"_id": member_row_id(conversation, m.user)} | m.to_fields() for m in members]
        sessions = [{"_id": session_row_id(m.user, conversation)} | new_row(at) for m in members]

        async def work(session: Any) -> None:
            if key is not None:
                until = datetime.fromtimestamp(at / 1000 + CLAIM_SECONDS, UTC)
                row = {"_id": _claim_id(info.owner, key), "c": conversation, "until": until}
                await self._mongo.insert_one(CLAIMS, row, session=session)
            await self._mongo.insert_one(CONVERSATIONS, head, session=session)
            await self._mongo.insert_many(MEMBERS, rows, session=session)
            await self._mongo.insert_many(SESSIONS, sessions, session=session)

        try:
            await self._mongo.transaction(work)
        except (DuplicateKeyError, BulkWriteError):
            return False
        return True

    async def commit(self, reserved: ReservedMessage, at_ms: int) -> int | None:
        """Make a change durable, with its message and the sessions that it begins or ends, all or nothing.

        One awaited transaction. Idempotent. Raises Unreachable: then the outcome is not known.

        Returns:
            The time at which the change became durable. None if MongoDB's group differs from the one that the change
            was decided on, or another message has its place: then nothing was stored.
        """
        message, change = reserved.message, reserved.change
        assert change is not None

        async def work(session: Any) -> None:
            if change.announced:
                document = message.to_document() | {MessageField.GROUP_CHANGED_AT: at_ms}
                if change.left and change.state is not None:
                    document[MessageField.GROUP_STATE] = change.state.to_fields()
                await self._mongo.insert_one(MESSAGES, document, session=session)
                await self._origins.insert(message, session)
                await self._flag_reports.insert(message, session)
            if change.member_records:
                await self._mongo.bulk_write(MEMBERS, _member_updates(message.conversation, change), session=session)
            rows = _session_updates(message, await self._with_write_time(message.conversation, change, session), at_ms)
            if rows:
                await self._mongo.bulk_write(SESSIONS, rows, session=session)
            if change.audit:
                await self._mongo.insert_one(AUDIT, from_json(change.audit), session=session)
            if message.kind.countable:
                await self._update_as_message(CommittedMessage(reserved, at_ms), session)
            # Last, because every message in the group writes the head too, and waits while this transaction locks it.
            query, update = _head_before(message.conversation, change, message.seq), _head_update(reserved, at_ms)
            if await self._mongo.find_one_and_update(CONVERSATIONS, query, update, session=session) is None:
                raise _GroupDiffers

        try:
            await self._mongo.transaction(work)
        except (_GroupDiffers, DuplicateKeyError):
            return await self._find_commit_time(message, change)
        except BulkWriteError as error:
            raise Unreachable("rows of a group's members collided") from error
        return at_ms

    async def _with_write_time(self, group: ConversationId, change: GroupChange, session: Any) -> GroupChange:
        """Return a departure with the time of the newest durable message. Redis did not know it if it was in flight."""
        if not change.is_departure:
            return change
        row = await self._mongo.find_one(CONVERSATIONS, {"_id": group}, session=session)
        known_ms = row.get(ConversationField.WRITTEN_AT, 0) if row is not None else 0
        return replace(change, written_at_ms=max(change.written_at_ms, known_ms))

    async def _update_as_message(self, committed: CommittedMessage, session: Any) -> None:
        """Update what an ordinary message does: the change belongs to a reply in a thread."""
        parts = (
            (SESSIONS, message_updates(committed)),
            (MEMBERS, reply_updates([committed.reserved.message])),
            (CONVERSATIONS, head_updates([committed])),
        )
        for collection, updates in parts:
            writes = [UpdateOne(query, change, upsert=upsert) for query, change, upsert in updates]
            # A reply from a webhook changes no session.
            if writes:
                await self._mongo.bulk_write(collection, writes, session=session)

    async def _find_commit_time(self, message: Message, change: GroupChange) -> int | None:
        """Return the time at which a change became durable, even if others followed. None if it did not."""
        if change.announced:
            place = at_place(message.conversation, message.seq)
            row = await self._mongo.find_one(MESSAGES, {MessageField.ID: int(message.id)} | place)
            # A reply that was refused because of its key, and emptied, has changed nothing.
            return row.get(MessageField.GROUP_CHANGED_AT) if row is not None else None
        row = await self._mongo.find_one(CONVERSATIONS, {"_id": message.conversation})
        is_last = row is not None and row.get(ConversationField.LAST_CHANGE) == int(message.id)
        return row[ConversationField.LAST_CHANGE_AT] if row is not None and is_last else None


class _GroupDiffers(Exception):
    """Raised when MongoDB's group differs from the one that a change was decided on."""


def _head_before(conversation: ConversationId, change: GroupChange, seq: int) -> dict[str, Any]:
    """Return the query for the head, which matches only in the state that the change was decided on."""
    before: dict[str, Any] = {"_id": conversation}
    before[ConversationField.GROUP_VERSION] = change.version - 1 if change.version > 1 else {"$in": [0, None]}
    if change.is_departure:
        # Users who leave may not read later messages, but a durable one was delivered to them.
        before[ConversationField.SEQ] = {"$lt": seq}
    if change.dissolves:
        # A message acknowledged after that seq could not be read by anybody.
        before[ConversationField.SEQ] = {"$lte": change.fields["ended_at"]}
    return before


def _head_update(reserved: ReservedMessage, at_ms: int) -> dict[str, Any]:
    message, change = reserved.message, reserved.change
    assert change is not None
    fields = to_stored(change.fields)
    kept: dict[str, Any] = {
        ConversationField.GROUP_VERSION: change.version,
        ConversationField.LAST_CHANGE: int(message.id),
        ConversationField.LAST_CHANGE_AT: at_ms,
        ConversationField.MEMBER_COUNT: change.member_count,
    }
    kept |= {name: value for name, value in fields.items() if value is not None}
    update: dict[str, Any] = {"$set": kept}
    if change.dissolves:
        kept[ConversationField.ENDED_AT_MS] = at_ms
    if change.announced or change.newest_seq is not None:
        # New followers have read everything up to the newest reserved message, which may not be durable yet.
        seq = message.seq if change.announced or change.newest_seq is None else change.newest_seq
        update["$max"] = {ConversationField.SEQ: seq, ConversationField.N: message.n}
        if change.announced:
            update["$max"][ConversationField.MOVED_AT] = at_ms
    if change.updates_group:
        update.setdefault("$max", {})[ConversationField.MOVED_AT] = change.update_time_ms(at_ms)
    removed = {name: "" for name, value in fields.items() if value is None}
    return update | {"$unset": removed} if removed else update


def _member_updates(conversation: ConversationId, change: GroupChange) -> list[UpdateOne]:
    return [
        UpdateOne({"_id": member_row_id(conversation, user)}, _member_update(change, orjson.loads(member)), upsert=True)
        for user, member in change.member_records
    ]


def _member_update(change: GroupChange, fields: dict[str, Any]) -> dict[str, Any]:
    update: dict[str, Any] = {"$set": fields}
    if change.is_of_thread:
        # Messages raise it without the record in Redis.
        reply = fields.pop(MemberField.LAST_REPLY, 0)
        update["$max"] = {MemberField.LAST_REPLY: reply} if reply else {}
        update["$unset"] = {MemberField.UNFOLLOWED: ""} if MemberField.UNFOLLOWED not in fields else {}
    return {operator: values for operator, values in update.items() if values}


def _session_updates(message: Message, change: GroupChange, at_ms: int) -> list[UpdateOne]:
    """Return the updates of the sessions of users who join and leave."""
    return [
        UpdateOne({"_id": session_row_id(user, message.conversation)}, changed.row_update(at_ms), upsert=is_joining)
        for user, changed, is_joining in session_changes(message, change)
    ]


def _claim_id(creator: UserId, key: str) -> str:
    return f"group {creator} {key}"

"""Groups in MongoDB: making them, and changing them one change after the other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId
from store.conversations.group_changes import GroupChange
from store.conversations.records import GroupInfo, Member
from store.messages.message_origins import OriginStore
from store.messages.records import Message, Reserved
from store.mongo.client import Mongo
from store.mongo.collections import (
    CLAIMS,
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    SESSIONS,
    at_place,
    member_row_id,
    session_row_id,
)
from store.sessions.changes import Join, Leave, new_row

CLAIM_SECONDS = 24 * 3600
"""How long the same idempotency key of the same creator answers the first group."""


class GroupStore:
    """Groups in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._origins = OriginStore(mongo)

    async def find_claim(self, creator: UserId, key: str) -> ConversationId | None:
        """The group that a creator's idempotency key stands for."""
        row = await self._mongo.find_one(CLAIMS, {"_id": _claim_id(creator, key)})
        return ConversationId(row["c"]) if row else None

    async def insert(
        self,
        conversation: ConversationId,
        info: GroupInfo,
        members: Sequence[Member],
        key: str | None,
    ) -> bool:
        """Makes a group with its members and everybody's session, all or nothing.

        False where the key is taken: then nothing was stored.
        """
        at = info.created_at_ms
        head: dict[str, Any] = {
            "_id": conversation, "k": "G", "s": 0, "n": 0, "at": at, "w": at, "name": info.name, "own": info.owner,
            "by": info.owner, "ct": at, "mc": len(members),
        }  # fmt: skip
        if info.avatar_url:
            head["av"] = info.avatar_url
        if info.full_history:
            head["hv"] = True
        if info.sub_biz:
            head["sb"] = info.sub_biz
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

    async def commit(self, reserved: Reserved, at_ms: int) -> int | None:
        """Makes a change durable, with the message that tells of it and everybody's session that it begins or ends: all or
        nothing, one waited transaction. Idempotent: answers the time that it was made durable with.

        None where MongoDB's group is not the one that the change was decided on, or holds another message at its place: then
        nothing was stored. Raises Unreachable: then nothing is known of the outcome.
        """
        message, change = reserved.message, reserved.change
        assert change is not None
        before: dict[str, Any] = {"_id": message.conversation}
        before["gv"] = change.version - 1 if change.version > 1 else {"$in": [0, None]}
        if change.dissolves:
            # It ends where it was decided to, or what was acknowledged since could not be read by anybody.
            before["s"] = {"$lte": change.fields["ds"]}

        async def work(session: Any) -> None:
            if change.told:
                document = message.to_document() | {"ga": at_ms}
                await self._mongo.insert_one(MESSAGES, document, session=session)
                await self._origins.insert(message, session)
            if change.members:
                await self._mongo.bulk_write(MEMBERS, _member_updates(message.conversation, change), session=session)
            rows = _session_updates(message, change, at_ms)
            if rows:
                await self._mongo.bulk_write(SESSIONS, rows, session=session)
            # Last: every message in the group writes its head too, and waits for as long as this holds it.
            update = _head_update(reserved, at_ms)
            if await self._mongo.find_one_and_update(CONVERSATIONS, before, update, session=session) is None:
                raise _NotAsSupposed

        try:
            await self._mongo.transaction(work)
        except (_NotAsSupposed, DuplicateKeyError):
            return await self._find_time(message, change)
        except BulkWriteError as error:
            raise Unreachable("rows of a group's members collided") from error
        return at_ms

    async def _find_time(self, message: Message, change: GroupChange) -> int | None:
        """When a change was made durable, whatever came after it. None where it was not."""
        if change.told:
            place = at_place(message.conversation, message.seq)
            row = await self._mongo.find_one(MESSAGES, {"_id": int(message.id)} | place)
            return row["ga"] if row is not None else None
        row = await self._mongo.find_one(CONVERSATIONS, {"_id": message.conversation})
        return row["ga"] if row is not None and row.get("gi") == int(message.id) else None


class _NotAsSupposed(Exception):
    """The group is not the one that a change was decided on."""


def _head_update(reserved: Reserved, at_ms: int) -> dict[str, Any]:
    message, change = reserved.message, reserved.change
    assert change is not None
    kept: dict[str, Any] = {"gv": change.version, "gi": int(message.id), "ga": at_ms, "mc": change.member_count}
    kept |= {name: value for name, value in change.fields.items() if value is not None}
    update: dict[str, Any] = {"$set": kept}
    if change.dissolves:
        kept["dt"] = at_ms
    if change.told:
        update["$max"] = {"s": message.seq, "n": message.n, "at": at_ms}
    gone = {name: "" for name, value in change.fields.items() if value is None}
    return update | {"$unset": gone} if gone else update


def _member_updates(conversation: ConversationId, change: GroupChange) -> list[UpdateOne]:
    return [
        UpdateOne({"_id": member_row_id(conversation, user)}, {"$set": orjson.loads(member)}, upsert=True)
        for user, member in change.members
    ]


def _session_updates(message: Message, change: GroupChange, at_ms: int) -> list[UpdateOne]:
    """Return the updates of the sessions of those who join and leave."""
    conversation = message.conversation
    join = Join(conversation, message.seq, message.n, change.sub_biz).row_update(at_ms)
    leave = Leave(conversation, message.seq - 1, message.n, change.written_ms).row_update(at_ms)
    rows = [UpdateOne({"_id": session_row_id(user, conversation)}, join, upsert=True) for user in change.joined]
    return rows + [UpdateOne({"_id": session_row_id(user, conversation)}, leave) for user in change.left]


def _claim_id(creator: UserId, key: str) -> str:
    return f"group {creator} {key}"

"""The use cases: MongoDB stores the data, and connected users are notified."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from graphql import GraphQLError
from pymongo import ASCENDING, DESCENDING, AsyncMongoClient, ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import DuplicateKeyError
from pymongo.write_concern import WriteConcern

from bench.baseline.broadcast import Broadcast
from bench.baseline.rows import (
    INDEXES,
    Row,
    group_row,
    message_row,
    now_ms,
    private_id,
    private_row,
    session_id,
    session_row,
)

RECEIPTS_UP_TO = 200
"""Largest group whose members are notified of the read positions of others."""


class ChatError(GraphQLError):
    """An error for the caller."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, extensions={"code": code, "retryable": False})


@dataclass(frozen=True, slots=True)
class Sent:
    """A message with its conversation and the people in it, and whether it had been sent before."""

    message: Row
    conversation: Row
    people: dict[str, Row]
    """The sender, and the other person of a private conversation."""
    replayed: bool


class Chat:
    """All use cases. Callers are identified by their user id."""

    def __init__(self, mongo: AsyncMongoClient[Row], database: str, broadcast: Broadcast) -> None:
        self._database = mongo[database]
        self.broadcast = broadcast
        durable, light = WriteConcern("majority", j=True), WriteConcern(1)
        self._messages = self._database.get_collection("messages", write_concern=durable)
        self._conversations = self._database.get_collection("conversations", write_concern=light)
        self._sessions = self._database.get_collection("sessions", write_concern=light)
        self._users = self._database["users"]

    async def prepare(self) -> None:
        for collection, indexes in INDEXES.items():
            await self._database[collection].create_indexes(indexes)

    # Messages.

    async def send_message(
        self, sender: str, content: str, to_user: str | None, conversation_id: str | None, key: str | None
    ) -> Sent:
        if (to_user is None) == (conversation_id is None) or to_user == sender:
            raise ChatError("INVALID_INPUT", "Give a toUserId, other than yourself, or a conversationId.")
        if not content.strip() or len(content) > 4000:
            raise ChatError("INVALID_INPUT", "content is 1 to 4000 characters.")
        if key is not None and (earlier := await self._find_sent(sender, key)):
            return earlier
        message = message_row(conversation_id or private_id(sender, to_user or ""), sender, content, now_ms())
        if key is not None:
            message["idempotencyKey"] = key
        conversation = await self._append(message, to_user)
        message["seq"] = conversation["seq"]
        try:
            _, people = await asyncio.gather(
                self._messages.insert_one(message), self._find_people(conversation, sender)
            )
        except DuplicateKeyError:
            if key is not None and (earlier := await self._find_sent(sender, key)):
                return earlier
            raise
        await self._count(message)
        event = {"kind": "message", "message": message, "sender": people[sender]}
        await self.broadcast.publish(conversation["memberIds"], event)
        return Sent(message, conversation, people, replayed=False)

    async def _find_sent(self, sender: str, key: str) -> Sent | None:
        message = await self._messages.find_one({"senderId": sender, "idempotencyKey": key})
        if message is None:
            return None
        conversation = await self._conversations.find_one({"_id": message["conversationId"]})
        assert conversation is not None
        return Sent(message, conversation, await self._find_people(conversation, sender), replayed=True)

    async def _find_people(self, conversation: Row, sender: str) -> dict[str, Row]:
        names = conversation["memberIds"] if conversation["type"] == "PRIVATE" else [sender]
        return dict(zip(names, await self.find_users(names), strict=True))

    async def _append(self, message: Row, to_user: str | None) -> Row:
        """Give the message the conversation's next seq, and show it as the last one. Return the conversation."""
        sender = message["senderId"]
        shown = {"$mergeObjects": [{"$literal": message}, {"seq": "$seq"}]}
        found = await self._append_to_existing(message["conversationId"], sender, shown)
        if found is None and to_user is not None:
            await self._open_private(sender, to_user)
            found = await self._append_to_existing(message["conversationId"], sender, shown)
        if found is None:
            raise ChatError("NOT_FOUND", "There is no such conversation.")
        return found

    async def _append_to_existing(self, name: str, sender: str, shown: Row) -> Row | None:
        return await self._conversations.find_one_and_update(
            {"_id": name, "memberIds": sender},
            [{"$set": {"seq": {"$add": ["$seq", 1]}}}, {"$set": {"lastMessage": shown}}],
            return_document=ReturnDocument.AFTER,
        )

    async def _open_private(self, one: str, other: str) -> None:
        conversation = private_row(one, other, now_ms())
        name, at = conversation["_id"], conversation["createdAt"]
        rows = [session_row(user, name, at) for user in conversation["memberIds"]]
        await self._sessions.bulk_write(
            [UpdateOne({"_id": row["_id"]}, {"$setOnInsert": row}, upsert=True) for row in rows]
        )
        await self._conversations.update_one({"_id": name}, {"$setOnInsert": conversation}, upsert=True)

    async def _count(self, message: Row) -> None:
        """Apply the message to its members' sessions: unread for all but its sender, who has read everything."""
        # Several messages may arrive in any order: the newest one counts.
        seq, at = message["seq"], message["createdAt"]
        news, read = {"writeSeq": seq, "writeTs": at, "activeTs": at}, {"readSeq": seq, "deliveredSeq": seq}
        conversation, sender = message["conversationId"], message["senderId"]
        await self._sessions.bulk_write(
            [
                UpdateMany(
                    {"conversationId": conversation, "userId": {"$ne": sender}},
                    {"$inc": {"unreadCount": 1}, "$max": news},
                ),
                UpdateOne({"_id": session_id(sender, conversation)}, {"$set": {"unreadCount": 0}, "$max": news | read}),
            ],
            ordered=False,
        )

    async def list_messages(
        self, user: str, conversation_id: str, after: int | None, before: int | None, limit: int, *, newest: bool
    ) -> list[Row] | None:
        """Return the newest or the oldest messages between two seqs, in that order."""
        asked: Row = {"conversationId": conversation_id, "seq": {"$gt": after or 0}}
        if before is not None:
            asked["seq"]["$lt"] = before
        found = self._messages.find(asked, {"idempotencyKey": 0}).sort("seq", DESCENDING if newest else ASCENDING)
        member, messages = await asyncio.gather(
            self._sessions.find_one({"_id": session_id(user, conversation_id)}, {"_id": 1}),
            found.limit(limit).to_list(),
        )
        return None if member is None else messages

    # Sessions.

    async def mark_read(self, user: str, conversation_id: str, up_to: int | None) -> Row:
        name = session_id(user, conversation_id)
        session = await self._sessions.find_one({"_id": name})
        if session is None:
            raise ChatError("NOT_FOUND", "There is no such conversation.")
        seq = session["writeSeq"] if up_to is None else min(up_to, session["writeSeq"])
        if seq <= session["readSeq"] and not session["unreadCount"]:
            return session
        left = 0
        if seq < session["writeSeq"]:
            left = await self._messages.count_documents(
                {"conversationId": conversation_id, "seq": {"$gt": seq}, "senderId": {"$ne": user}}
            )
        at = now_ms()
        changed = await self._sessions.find_one_and_update(
            {"_id": name},
            {"$set": {"unreadCount": left}, "$max": {"readSeq": seq, "deliveredSeq": seq, "activeTs": at}},
            return_document=ReturnDocument.AFTER,
        )
        assert changed is not None
        conversation, (profile,) = await asyncio.gather(
            self._conversations.find_one({"_id": conversation_id}, {"memberIds": 1}), self.find_users([user])
        )
        await self.broadcast.publish([user], {"kind": "session", "reason": "READ", "session": changed})
        if conversation is not None and len(conversation["memberIds"]) <= RECEIPTS_UP_TO:
            receipt = {"kind": "receipt", "conversationId": conversation_id, "user": profile, "seq": seq, "at": at}
            await self.broadcast.publish(conversation["memberIds"], receipt)
        return changed

    async def list_sessions(self, user: str, before: tuple[int, str] | None, limit: int) -> list[Row]:
        """Return sessions, newest first."""
        asked: Row = {"userId": user}
        if before is not None:
            at, name = before
            asked |= {"writeTs": {"$lte": at}, "$or": [{"writeTs": {"$lt": at}}, {"_id": {"$lt": name}}]}
        found = self._sessions.find(asked).sort([("writeTs", DESCENDING), ("_id", DESCENDING)])
        return await found.limit(limit).to_list()

    async def list_changed(self, user: str, since: tuple[int, str] | None, limit: int) -> list[Row]:
        """Return changed sessions, oldest change first."""
        asked: Row = {"userId": user}
        if since is not None:
            at, name = since
            asked |= {"activeTs": {"$gte": at}, "$or": [{"activeTs": {"$gt": at}}, {"_id": {"$gt": name}}]}
        found = self._sessions.find(asked).sort([("activeTs", ASCENDING), ("_id", ASCENDING)])
        return await found.limit(limit).to_list()

    async def total_unread(self, user: str) -> int:
        cursor = await self._sessions.aggregate(
            [
                {"$match": {"userId": user, "unreadCount": {"$gt": 0}}},
                {"$group": {"_id": None, "unread": {"$sum": "$unreadCount"}}},
            ]
        )
        return sum([row["unread"] async for row in cursor])

    # Groups and people.

    async def create_group(self, owner: str, name: str, member_ids: Sequence[str]) -> Row:
        members = list(dict.fromkeys([owner, *member_ids]))
        if len(members) < 3:
            raise ChatError("GROUP_TOO_SMALL", "A group has at least three members.")
        group = group_row(name, members, now_ms())
        rows = [session_row(user, group["_id"], group["createdAt"]) for user in members]
        await self._sessions.insert_many(rows, ordered=False)
        await self._conversations.insert_one(group)
        await self.broadcast.publish_each(
            {row["userId"]: {"kind": "session", "reason": "MEMBERSHIP", "session": row} for row in rows}
        )
        return group

    async def find_users(self, ids: Sequence[str]) -> list[Row]:
        """Return users in the order of the ids. An unknown user is named by the id."""
        found = {row["_id"]: row async for row in self._users.find({"_id": {"$in": list(set(ids))}})}
        return [found.get(name) or {"_id": name, "displayName": name} for name in ids]

    async def find_conversations(self, ids: Sequence[str]) -> list[Row | None]:
        """Return conversations in the order of the ids, without their members."""
        asked = {"_id": {"$in": list(set(ids))}}
        found = {row["_id"]: row async for row in self._conversations.find(asked, {"memberIds": 0})}
        return [found.get(name) for name in ids]

    async def find_sessions(self, ids: Sequence[str]) -> list[Row | None]:
        """Return sessions in the order of the ids."""
        found = {row["_id"]: row async for row in self._sessions.find({"_id": {"$in": list(set(ids))}})}
        return [found.get(name) for name in ids]

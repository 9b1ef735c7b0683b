"""Threads of a conversation, and what a reader of a part of a thread sees of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from store.base.ids import ConversationId, MessageId, UserId
from store.base.snowflakes import created_at_ms
from store.conversations.conversation_fields import ConversationField
from store.messages.message import MessageKind
from store.messages.message_fields import MessageField
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, MESSAGES, between_places
from store.mongo.index_fields import BY_PARENT


class ThreadPosition(NamedTuple):
    """The position of a thread in the list of its parent conversation: time of the latest reply (ms), and its id."""

    written_at_ms: int
    thread: ConversationId


class VisibleReplies(NamedTuple):
    """Counts over some of the replies in a thread.

    Attributes:
        reply_count: Replies that are not recalled.
        participants: Their senders, the one with the latest reply first.
        last_reply_at_ms: The time of the latest reply, recalled or not; None: no replies.
    """

    reply_count: int
    participants: Sequence[UserId]
    last_reply_at_ms: int | None


class ThreadSums(NamedTuple):
    """Counts over the threads of a conversation. followers: a user counts once for each thread."""

    threads: int
    replies: int
    followers: int


class ThreadLists:
    """Reads threads in MongoDB. Each method is one round trip."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_threads(
        self, parent: ConversationId, after: ThreadPosition | None, limit: int
    ) -> list[ThreadPosition]:
        """Return threads under messages of a conversation after a position, latest reply first. No empty threads."""
        query: dict[str, object] = {ConversationField.PARENT: parent, ConversationField.WRITTEN_AT: {"$gt": 0}}
        if after is not None:
            earlier = {ConversationField.WRITTEN_AT: {"$lt": after.written_at_ms}}
            as_late = {ConversationField.WRITTEN_AT: after.written_at_ms, "_id": {"$lt": after.thread}}
            query[ConversationField.WRITTEN_AT] = {"$gt": 0, "$lte": after.written_at_ms}
            query["$or"] = [earlier, as_late]
        rows = await self._mongo.find(
            CONVERSATIONS,
            query,
            sort=BY_PARENT[1:],
            limit=limit,
            projection={ConversationField.WRITTEN_AT: 1},
            hint=BY_PARENT,
        )
        return [ThreadPosition(row[ConversationField.WRITTEN_AT], ConversationId(row["_id"])) for row in rows]

    async def sum_threads(self, parent: ConversationId) -> ThreadSums:
        """Return counts over all threads under messages of a conversation. Reads each of them: for rare calls."""
        replies = {"$subtract": [f"${ConversationField.N}", {"$ifNull": [f"${ConversationField.RECALLED}", 0]}]}
        counts: dict[str, object] = {"_id": None, "threads": {"$sum": 1}, "replies": {"$sum": replies}}
        counts["followers"] = {"$sum": {"$ifNull": [f"${ConversationField.MEMBER_COUNT}", 0]}}
        of_parent = {"$match": {ConversationField.PARENT: parent}}
        rows = await self._mongo.aggregate(CONVERSATIONS, [of_parent, {"$group": counts}])
        return ThreadSums(*(int(rows[0][name]) for name in ThreadSums._fields)) if rows else ThreadSums(0, 0, 0)

    async def count_replies(self, thread: ConversationId, ranges: Sequence[tuple[int, int]]) -> VisibleReplies:
        """Return the counts over the replies in some ranges of seq, ends included."""
        if not ranges:
            return VisibleReplies(0, (), None)
        query = {
            "$or": [between_places(thread, first, last) for first, last in ranges],
            MessageField.KIND: {"$ne": MessageKind.SYSTEM.value},
        }
        is_shown = {"$cond": [{"$gt": [f"${MessageField.RECALLED_AT}", None]}, 0, 1]}
        group = {
            "_id": f"${MessageField.SENDER}",
            "shown": {"$sum": is_shown},
            "seq": {"$max": f"${MessageField.SEQ}"},
            "message": {"$max": f"${MessageField.ID}"},
        }
        rows = await self._mongo.aggregate(MESSAGES, [{"$match": query}, {"$group": group}, {"$sort": {"seq": -1}}])
        return VisibleReplies(
            sum(row["shown"] for row in rows),
            [UserId(row["_id"]) for row in rows],
            created_at_ms(MessageId(rows[0]["message"])) if rows else None,
        )

"""Threads in MongoDB: opening them, and the mark of their parent messages."""

from __future__ import annotations

from store.base.ids import ConversationId, UserId, thread_id
from store.conversations.conversation_fields import ConversationField
from store.messages.message import Message
from store.messages.message_fields import MessageField
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, MESSAGES, at_place
from store.redis.cache import Call
from store.redis.keys import Keys


class ThreadStore:
    """Opens threads. Heads and followers are read like those of groups: see `ConversationStore`."""

    def __init__(self, mongo: Mongo, keys: Keys) -> None:
        self._mongo = mongo
        self._keys = keys

    async def open(self, parent: Message, by: UserId, now_ms: int) -> ConversationId:
        """Create the thread under a message, which is shown to nobody before its first reply. Idempotent.

        The parent message is marked first, so that no thread with replies has a parent message without the mark. Two
        round trips.
        """
        thread = thread_id(parent.conversation, parent.seq)
        place = {MessageField.ID: int(parent.id), **at_place(parent.conversation, parent.seq)}
        await self._mongo.update_one(MESSAGES, place, {"$set": {MessageField.HAS_THREAD: True}})
        head = {
            ConversationField.KIND: "T",
            ConversationField.PARENT: parent.conversation,
            ConversationField.SEQ: 0,
            ConversationField.N: 0,
            ConversationField.MOVED_AT: now_ms,
            ConversationField.WRITTEN_AT: 0,
            ConversationField.MEMBER_COUNT: 0,
            ConversationField.CREATED_BY: by,
        }
        await self._mongo.update_one(CONVERSATIONS, {"_id": thread}, {"$setOnInsert": head}, upsert=True)
        return thread

    def mark_parent_call(self, parent: ConversationId, seq: int) -> Call:
        """Return the call that shows the mark of a parent message to readers. It may be repeated."""
        return Call("mark_parent_message", self._keys.conversation(parent), (seq,))

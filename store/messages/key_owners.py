"""Owners of idempotency keys: the stored message that a sender's key stands for.

An index of MongoDB holds (sender, key) unique among messages. So a key has one message, also if Redis has lost the
claim while another server was still storing the first attempt (ADR 101). From a day after the owner was sent, the key
may stand for another message: then the owner's row is marked, and the index lets the key be used again.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.messages.idempotency_claims import CLAIM_MS
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, at_place
from store.mongo.writes import Update, Write


class KeyOwners:
    """Finds the owners of keys in MongoDB, and lets them give their keys up."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    def query(self, message: Message) -> Document:
        """Return the query for the owner of a message's key: a message that prevents this one from being stored."""
        owner: Document = {
            MessageField.SENDER: message.sender,
            MessageField.KEY: message.key,
            MessageField.KEY_RELEASED: None,
        }
        if not self._mongo.is_sharded:
            return owner
        place = at_place(message.conversation, message.seq)
        return owner | {name: place[name] for name in (MessageField.CONVERSATION, MessageField.BUCKET)}

    async def find(self, message: Message) -> Message | None:
        """Return the other message that owns a message's key. None if there is none, or if it was sent a day before."""
        if message.key is None:
            return None
        row = await self._mongo.find_one(MESSAGES, self.query(message))
        if row is None or row[MessageField.ID] == message.id:
            return None
        owner = message_from(row)
        return owner if keeps_key(owner, message) else None

    async def release(self, message: Message) -> bool:
        """Let the owner of a message's key give it up, if it was sent a day before. Return whether it did."""
        if message.key is None:
            return False
        row = await self._mongo.find_one(MESSAGES, self.query(message))
        if row is None or row[MessageField.ID] == message.id or keeps_key(owner := message_from(row), message):
            return False
        await self.release_all([owner])
        return True

    async def release_all(self, owners: Sequence[Message]) -> None:
        """Let these owners give up their keys: each was sent a day before a message that needs its key."""
        updates = [
            Update(
                {MessageField.ID: int(owner.id)} | at_place(owner.conversation, owner.seq),
                {"$set": {MessageField.KEY_RELEASED: int(owner.id)}},
            )
            for owner in owners
        ]
        await self._mongo.write([Write.updates(MESSAGES, updates)])


def keeps_key(owner: Message, message: Message) -> bool:
    """Return whether a key still stands for its owner, so that a later message with the key is not stored."""
    return owner.created_at_ms >= message.created_at_ms - CLAIM_MS

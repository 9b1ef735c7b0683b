"""Revisions: edits and recalls of stored messages.

A revision is announced in the outbox of its conversation's partition before it is written, and cleared when it is
delivered. So another server can finish it if this one dies.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from store.base.ids import ConversationId, MessageId, UserId
from store.conversations.conversation_fields import ConversationField, HeadField
from store.messages.message import Message, MessageField, message_from
from store.messages.outbox_entries import OutboxField, entry_values
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, MESSAGES, at_place
from store.redis.cache import Cache, Call
from store.redis.keys import Keys


class RevisionKind(StrEnum):
    """Kinds of revisions, with their values in logs and frames."""

    EDIT = "u"
    RECALL = "x"


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision in the outbox: not written yet, or not delivered to all users yet.

    `edits`: edits of the message after it. `age_ms`: by Redis's clock.
    """

    conversation: ConversationId
    message: MessageId
    seq: int
    kind: RevisionKind
    edits: int
    entry: str
    age_ms: int = 0

    def is_applied_to(self, message: Message) -> bool:
        """Return whether the present state of the message includes the revision."""
        return message.is_recalled if self.kind is RevisionKind.RECALL else message.edits >= self.edits


def revision_from(entry: str, fields: Any, now_ms: int = 0) -> Revision | None:
    """Return the revision of an outbox entry; None if the entry is a message with a place."""
    values = entry_values(fields)
    revision = values.get(OutboxField.REVISION.encode())
    if revision is None:
        return None
    message, seq, kind, edits = orjson.loads(revision)
    begun_ms = int(entry.partition("-")[0] or now_ms)
    conversation = ConversationId(values[OutboxField.CONVERSATION.encode()].decode())
    return Revision(conversation, MessageId(int(message)), seq, RevisionKind(kind), edits, entry, now_ms - begun_ms)


def _announced(message: Message, kind: RevisionKind, entry: bytes) -> Revision:
    return Revision(message.conversation, message.id, message.seq, kind, _edits_after(message, kind), entry.decode())


def _edits_after(message: Message, kind: RevisionKind) -> int:
    return message.edits + (kind is RevisionKind.EDIT)


def _entry_fields(message: Message, kind: RevisionKind) -> list[str | int | bytes]:
    """Return names and values of the fields of a revision's outbox entry."""
    revision = orjson.dumps([str(message.id), message.seq, kind.value, _edits_after(message, kind)])
    fields: dict[str, str | int | bytes] = {
        OutboxField.SEQ: 0,
        OutboxField.N: 0,
        OutboxField.CONVERSATION: message.conversation,
        OutboxField.MESSAGE: "{}",
        OutboxField.REVISION: revision,
    }
    return [part for pair in fields.items() for part in pair]


class RevisionStore:
    """Changes messages in MongoDB, which orders the changes: each is one step on one document."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys

    async def announce(self, message: Message, kind: RevisionKind) -> Revision:
        """Put a revision into the outbox, before it is written."""
        outbox = self._keys.conversation(message.conversation)[2]
        entry = await self._cache.one(Call("XADD", (outbox,), ("*", *_entry_fields(message, kind))))
        return _announced(message, kind, entry)

    async def announce_in_channel(self, message: Message, kind: RevisionKind, judged_version: int) -> Revision | None:
        """Like `announce`, in a channel. None if rights have changed since they were judged."""
        head, _, outbox, _ = self._keys.conversation(message.conversation)
        args = (HeadField.POLICY_VERSION, judged_version, *_entry_fields(message, kind))
        entry = await self._cache.one(Call("announce_revision", (head, outbox), args))
        return _announced(message, kind, entry) if entry is not None else None

    def clear_call(self, revision: Revision) -> Call:
        """Return the call that deletes a revision from the outbox."""
        return Call("XDEL", (self._keys.conversation(revision.conversation)[2],), (revision.entry,))

    async def edit(self, message: Message, text: str, sender: UserId, at_ms: int) -> Message | None:
        """Change the text of a message of the sender. Return the message after the change.

        None if the text is the same, or if the message was recalled before.
        """
        # Servers' clocks differ: the time of the last edit must not go back.
        update = {
            "$set": {MessageField.TEXT: text},
            "$max": {MessageField.EDITED_AT: at_ms},
            "$inc": {MessageField.EDITS: 1},
        }
        return await self._revise(message, {MessageField.SENDER: sender, MessageField.TEXT: {"$ne": text}}, update)

    async def recall(self, message: Message, by: UserId, at_ms: int) -> Message | None:
        """Withhold a message's content. Return the message after the change; None if it was recalled before."""
        fields = {MessageField.RECALLED_AT: at_ms, MessageField.RECALLED_BY: by}
        return await self._revise(message, {}, {"$set": fields})

    async def _revise(self, message: Message, condition: dict[str, Any], update: dict[str, Any]) -> Message | None:
        query = {
            MessageField.ID: int(message.id),
            **at_place(message.conversation, message.seq),
            MessageField.RECALLED_AT: {"$exists": False},
            **condition,
        }
        row = await self._mongo.find_one_and_update(MESSAGES, query, update, after=True)
        return message_from(row) if row else None

    async def move_head(self, message: Message, at_ms: int) -> bool:
        """Move the head's time if this is its newest message. Return whether it is.

        Sessions that are loaded from MongoDB after that have this time as their `active_ts` or a later one.
        """
        newest = {"_id": message.conversation, ConversationField.SEQ: message.seq}
        update = {"$max": {ConversationField.MOVED_AT: at_ms}}
        return bool(await self._mongo.update_one(CONVERSATIONS, newest, update))

    def newest_message_call(self, message: Message, at_ms: int) -> Call:
        """Return the call that replaces the head's newest message by the revised one, if it is the same message."""
        args = (message.seq, message.to_json(), at_ms)
        return Call("revise_newest_message", self._keys.conversation(message.conversation), args)

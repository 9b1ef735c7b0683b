"""Edits and recalls: what they make of a stored message, and what is left of them where a server dies half way.

A revision is announced in the outbox of its conversation's partition before it is written, and cleared when everybody was
told: an entry without a place (s 0, n 0, m {}), with `v` [message, seq, kind, edits the message has had after it].
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from store.base.ids import ConversationId, MessageId, UserId
from store.messages.records import Message, message_from
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, MESSAGES, at_place
from store.redis.cache import Cache, Call
from store.redis.keys import Keys


class RevisionKind(StrEnum):
    """What becomes of a message, as logs and frames spell it too."""

    EDIT = "u"
    RECALL = "x"


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision in the outbox: it is about to happen, or has happened and not everybody was told. `age_ms` as Redis's clock
    says."""

    conversation: ConversationId
    message: MessageId
    seq: int
    kind: RevisionKind
    edits: int
    entry: str
    age_ms: int = 0

    def is_done(self, present: Message) -> bool:
        """Whether the message as it is now holds it."""
        return present.is_recalled if self.kind is RevisionKind.RECALL else present.edits >= self.edits


def revision_from(entry: str, fields: Any, now_ms: int = 0) -> Revision | None:
    """The revision that an entry of the outbox tells of; None where that is a message with a place."""
    values = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
    if b"v" not in values:
        return None
    message, seq, kind, edits = orjson.loads(values[b"v"])
    begun_ms = int(entry.partition("-")[0] or now_ms)
    conversation = ConversationId(values[b"c"].decode())
    return Revision(conversation, MessageId(int(message)), seq, RevisionKind(kind), edits, entry, now_ms - begun_ms)


class RevisionStore:
    """Changes of messages in MongoDB, which orders them: each is one step on one document."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys

    async def announce(self, message: Message, kind: RevisionKind) -> Revision:
        """Says in the outbox that a message is about to be revised."""
        edits = message.edits + (kind is RevisionKind.EDIT)
        told = orjson.dumps([str(message.id), message.seq, kind.value, edits])
        outbox = self._keys.conversation(message.conversation)[2]
        fields = ("s", 0, "n", 0, "c", message.conversation, "m", "{}", "v", told)
        entry = await self._cache.one(Call("XADD", (outbox,), ("*", *fields)))
        return Revision(message.conversation, message.id, message.seq, kind, edits, entry.decode())

    def clear(self, revision: Revision) -> Call:
        """The call that takes a revision out of the outbox."""
        return Call("XDEL", (self._keys.conversation(revision.conversation)[2],), (revision.entry,))

    async def edit(self, message: Message, text: str, sender: UserId, at_ms: int) -> Message | None:
        """Gives a message of the sender's another text. Answers it as it is then; None where that changes nothing, or it was
        recalled before."""
        # The clocks of servers differ: the time of the last edit does not go back.
        update = {"$set": {"t": text}, "$max": {"et": at_ms}, "$inc": {"e": 1}}
        return await self._revise(message, {"u": sender, "t": {"$ne": text}}, update)

    async def recall(self, message: Message, at_ms: int) -> Message | None:
        """Withholds a message's content. Answers it as it is then; None where it was recalled before."""
        return await self._revise(message, {}, {"$set": {"rc": at_ms}})

    async def _revise(self, message: Message, also: dict[str, Any], update: dict[str, Any]) -> Message | None:
        query = {
            "_id": int(message.id),
            **at_place(message.conversation, message.seq),
            "rc": {"$exists": False},
            **also,
        }
        row = await self._mongo.find_one_and_update(MESSAGES, query, update, after=True)
        return message_from(row) if row else None

    async def move_head(self, message: Message, at_ms: int) -> bool:
        """Has sessions whose newest message this is, loaded anew, have moved at a time. Answers whether it is the newest."""
        newest = {"_id": message.conversation, "s": message.seq}
        return bool(await self._mongo.update_one(CONVERSATIONS, newest, {"$max": {"at": at_ms}}))

    def show(self, message: Message, at_ms: int) -> Call:
        """The call that makes readers of the conversation's newest message see the revised one, if it is that."""
        args = (message.seq, message.to_json(), at_ms)
        return Call("revised", self._keys.conversation(message.conversation), args)

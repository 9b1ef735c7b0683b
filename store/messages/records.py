"""Messages as records.

A message is kept as a JSON object in Redis and a document in MongoDB, with the same short names in both:
`c` conversation, `s` seq, `n` countable messages up to and with it, `u` sender, `k` kind, `t` text, `m` mentions,
`ma` mentions all, `r` [id, seq] of what it replies to, `ik` idempotency key, `ih` digest of the input it came from,
`e` how often it was edited, `et` when last, `rc` when it was recalled (ms). The document of a recalled one still holds its
text; no record of it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from store.base.ids import ConversationId, MessageId, UserId, bucket_of
from store.base.snowflakes import created_at_ms
from store.conversations.group_changes import GroupChange


class MessageKind(StrEnum):
    """The contract's ContentType, as it is kept."""

    TEXT = "T"
    SYSTEM = "S"
    BOT_COMMAND = "B"

    @property
    def countable(self) -> bool:
        """Whether such a message counts as unread until it is read."""
        return self is not MessageKind.SYSTEM


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `seq` and `n` are 0 until it is reserved. `text` is None exactly where it was recalled: what its row still
    holds does not leave the store. Times in ms since the epoch."""

    id: MessageId
    conversation: ConversationId
    sender: UserId
    kind: MessageKind
    text: str | None
    seq: int = 0
    n: int = 0
    mentions: tuple[UserId, ...] = ()
    mentions_all: bool = False
    reply_to: tuple[MessageId, int] | None = None
    key: str | None = None
    digest: str | None = None
    edits: int = 0
    edited_at_ms: int | None = None
    recalled_at_ms: int | None = None

    @property
    def is_recalled(self) -> bool:
        """Whether its content is withheld."""
        return self.recalled_at_ms is not None

    @property
    def created_at_ms(self) -> int:
        """When the server took it in, ms since the epoch."""
        return created_at_ms(self.id)

    def at(self, seq: int, n: int) -> Message:
        """The same message in its place."""
        return replace(self, seq=seq, n=n)

    def to_fields(self) -> dict[str, Any]:
        """Everything but id and place, short names, nothing empty (Lua's JSON can't tell [] from {})."""
        fields: dict[str, Any] = {
            "c": self.conversation,
            "u": self.sender,
            "k": self.kind.value,
        }
        if self.text is not None:
            fields["t"] = self.text
        if self.mentions:
            fields["m"] = list(self.mentions)
        if self.mentions_all:
            fields["ma"] = True
        if self.reply_to:
            fields["r"] = [str(self.reply_to[0]), self.reply_to[1]]
        if self.key:
            fields["ik"], fields["ih"] = self.key, self.digest
        if self.edits:
            fields["e"], fields["et"] = self.edits, self.edited_at_ms
        if self.is_recalled:
            fields["rc"] = self.recalled_at_ms
        return fields

    def to_json(self) -> bytes:
        """As kept in Redis and sent between servers."""
        return orjson.dumps(self.to_fields() | {"i": str(self.id), "s": self.seq, "n": self.n})

    def to_document(self) -> dict[str, Any]:
        """As kept in MongoDB."""
        place = {"_id": int(self.id), "b": bucket_of(self.seq), "s": self.seq, "n": self.n}
        return place | self.to_fields()


def message_from(fields: dict[str, Any]) -> Message:
    """A message from either form."""
    reply, recalled_at_ms = fields.get("r"), fields.get("rc")
    return Message(
        id=MessageId(int(fields["_id"] if "_id" in fields else fields["i"])),
        conversation=ConversationId(fields["c"]),
        sender=UserId(fields["u"]),
        kind=MessageKind(fields["k"]),
        text=fields["t"] if recalled_at_ms is None else None,
        seq=fields.get("s", 0),
        n=fields.get("n", 0),
        mentions=tuple(UserId(user) for user in fields.get("m", ())),
        mentions_all=bool(fields.get("ma", False)),
        reply_to=(MessageId(int(reply[0])), int(reply[1])) if reply else None,
        key=fields.get("ik"),
        digest=fields.get("ih"),
        edits=fields.get("e", 0),
        edited_at_ms=fields.get("et"),
        recalled_at_ms=recalled_at_ms,
    )


@dataclass(frozen=True, slots=True)
class Reserved:
    """A message with its place, in the outbox and not yet durable.

    `version` is the membership's at that moment; `entry` the outbox entry, cleared when all is delivered; `sender_in_use`
    whether the sender's state was in the cache; `reads` whether it may make messages of others read that its sender had not
    read, and `was_mentioned` whether some of those may mention the sender. `change`: what it tells of. One that is not told has no place: its seq is 0.
    """

    message: Message
    version: str
    entry: str
    change: GroupChange | None = None
    sender_in_use: bool = True
    reads: bool = True
    was_mentioned: bool = True

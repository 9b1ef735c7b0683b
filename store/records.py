"""What the store gives and takes: records with meaning, spelt short where they are kept.

A message is kept as a JSON object in Redis and a document in MongoDB, with the same short names in both:
`c` conversation, `s` seq, `n` countable messages up to and with it, `u` sender, `k` kind, `t` text, `m` mentions,
`ma` mentions all, `r` [id, seq] of what it replies to, `ik` idempotency key, `ih` digest of the input it came from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from store.ids import ConversationId, ConversationKind, MessageId, UserId, bucket_of
from store.snowflakes import created_at_ms


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
    """A message. `seq` and `n` are 0 until it is reserved."""

    id: MessageId
    conversation: ConversationId
    sender: UserId
    kind: MessageKind
    text: str
    seq: int = 0
    n: int = 0
    mentions: tuple[UserId, ...] = ()
    mentions_all: bool = False
    reply_to: tuple[MessageId, int] | None = None
    key: str | None = None
    digest: str | None = None

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
            "t": self.text,
        }
        if self.mentions:
            fields["m"] = list(self.mentions)
        if self.mentions_all:
            fields["ma"] = True
        if self.reply_to:
            fields["r"] = [str(self.reply_to[0]), self.reply_to[1]]
        if self.key:
            fields["ik"], fields["ih"] = self.key, self.digest
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
    reply = fields.get("r")
    return Message(
        id=MessageId(int(fields["_id"] if "_id" in fields else fields["i"])),
        conversation=ConversationId(fields["c"]),
        sender=UserId(fields["u"]),
        kind=MessageKind(fields["k"]),
        text=fields["t"],
        seq=fields.get("s", 0),
        n=fields.get("n", 0),
        mentions=tuple(UserId(user) for user in fields.get("m", ())),
        mentions_all=bool(fields.get("ma", False)),
        reply_to=(MessageId(int(reply[0])), int(reply[1])) if reply else None,
        key=fields.get("ik"),
        digest=fields.get("ih"),
    )


@dataclass(frozen=True, slots=True)
class Joined:
    """Somebody whom a SYSTEM message makes a member: the membership as it is from then on (JSON, as cached)."""

    user: UserId
    member: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """A message with its place, in the outbox and not yet durable.

    `version` is the membership's at that moment; `entry` the outbox entry, cleared when all is delivered; `sender_in_use`
    whether the sender's state was in the cache.
    """

    message: Message
    version: str
    entry: str
    joined: tuple[Joined, ...] = ()
    member_count: int = 0
    sender_in_use: bool = True


@dataclass(frozen=True, slots=True)
class Member:
    """A user's membership of a group. Intervals of seq, oldest first; an open end is None."""

    user: UserId
    role: str
    intervals: tuple[tuple[int, int | None], ...]
    joined_at_ms: int

    @property
    def is_current(self) -> bool:
        """Whether the user is a member now."""
        return bool(self.intervals) and self.intervals[-1][1] is None

    def to_json(self) -> str:
        """As cached in Redis."""
        spans = [[first, -1 if last is None else last] for first, last in self.intervals]
        return orjson.dumps({"r": self.role, "i": spans, "j": self.joined_at_ms}).decode()


def member_from(user: UserId, fields: dict[str, Any]) -> Member:
    """A membership from its JSON object or document."""
    return Member(
        user=user,
        role=fields["r"],
        intervals=tuple((int(first), None if last == -1 else int(last)) for first, last in fields["i"]),
        joined_at_ms=int(fields["j"]),
    )


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """What a group keeps about itself, beside its counters."""

    name: str
    avatar_url: str | None
    owner: UserId
    full_history: bool
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Head:
    """A conversation as its readers see it: only what is durable."""

    conversation: ConversationId
    kind: ConversationKind
    seq: int
    last: Message | None
    member_count: int
    dissolved: bool
    group: GroupInfo | None


@dataclass(frozen=True, slots=True)
class Session:
    """One user's context of one conversation."""

    user: UserId
    conversation: ConversationId
    write_seq: int
    n: int
    read_seq: int
    read_n: int
    delivered_seq: int
    priority: int
    muted: bool
    muted_until_ms: int | None
    unread_status: bool
    category: str | None
    active_ts: int
    write_ts: int
    deleted_n: int | None
    peer_read_seq: int
    peer_delivered_seq: int

    def to_record(self) -> dict[str, Any]:
        """The record it came from, as far as a reader needs it."""
        record: dict[str, Any] = {
            "s": self.write_seq,
            "n": self.n,
            "r": self.read_seq,
            "rn": self.read_n,
            "d": self.delivered_seq,
            "p": self.priority,
            "m": int(self.muted),
            "us": self.unread_status,
            "a": self.active_ts,
            "w": self.write_ts,
            "pr": self.peer_read_seq,
            "pd": self.peer_delivered_seq,
        }
        optional = {"mu": self.muted_until_ms, "ca": self.category, "xn": self.deleted_n}
        return record | {name: value for name, value in optional.items() if value is not None}

    @property
    def valid(self) -> bool:
        """Not deleted, or alive again since a countable message came after the deletion."""
        if self.write_seq == 0 and self.conversation.startswith("p_"):
            return False
        return self.deleted_n is None or self.n > self.deleted_n

    @property
    def unread_count(self) -> int:
        """Countable messages after what was read or deleted."""
        return max(0, self.n - max(self.read_n, self.deleted_n or 0)) if self.valid else 0


def session_from(user: UserId, conversation: ConversationId, record: bytes | dict[str, Any]) -> Session:
    """A session from the record that the scripts keep (its fields: `_user.lua`)."""
    rec = orjson.loads(record) if isinstance(record, bytes) else record
    return Session(
        user=user,
        conversation=conversation,
        write_seq=rec["s"],
        n=rec["n"],
        read_seq=rec["r"],
        read_n=rec["rn"],
        delivered_seq=rec["d"],
        priority=rec["p"],
        muted=rec.get("m") == 1,
        muted_until_ms=rec.get("mu"),
        unread_status=bool(rec.get("us")),
        category=rec.get("ca"),
        active_ts=rec["a"],
        write_ts=rec["w"],
        deleted_n=rec.get("xn"),
        peer_read_seq=rec.get("pr", 0),
        peer_delivered_seq=rec.get("pd", 0),
    )


@dataclass(frozen=True, slots=True)
class User:
    """A user's public face. `display_name` falls back to the id until somebody sets one."""

    id: UserId
    name: str | None
    avatar_url: str | None
    is_bot: bool

    @property
    def display_name(self) -> str:
        return self.name or self.id

"""What the store gives and takes: records with meaning, spelt short where they are kept.

A message is kept as a JSON object in Redis and a document in MongoDB, with the same short names in both:
`c` conversation, `s` seq, `n` countable messages up to and with it, `u` sender, `k` kind, `t` text, `m` mentions,
`ma` mentions all, `r` [id, seq] of what it replies to, `ik` idempotency key, `ih` digest of the input it came from,
`e` how often it was edited, `et` when last, `rc` when it was recalled (ms). The document of a recalled one still holds its
text; no record of it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson

from store.group_changes import GroupChange
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

    def until(self, seq: int) -> Member:
        """The same membership in a group that ended at a seq."""
        return replace(self, intervals=tuple((first, seq if last is None else last) for first, last in self.intervals))

    def to_fields(self) -> dict[str, Any]:
        """As kept."""
        spans = [[first, -1 if last is None else last] for first, last in self.intervals]
        return {"r": self.role, "i": spans, "j": self.joined_at_ms}

    def to_json(self) -> str:
        """As cached in Redis."""
        return orjson.dumps(self.to_fields()).decode()


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
    sub_biz: str | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """A conversation as its readers see it: only what is durable.

    A group that was dissolved stays readable to those who were in it, up to `ended_at`; a dismissed one is gone.
    """

    conversation: ConversationId
    kind: ConversationKind
    seq: int
    last: Message | None
    member_count: int
    group: GroupInfo | None
    ended_at: int | None = None
    dismissed: bool = False

    @property
    def dissolved(self) -> bool:
        """Whether it is a group that has ended, one way or the other."""
        return self.ended_at is not None


@dataclass(frozen=True, slots=True)
class Session:
    """One user's context of one conversation, or of a subBiz (its gateway). `record`: as the scripts keep it (its fields:
    `_sessions.lua`)."""

    user: UserId
    conversation: ConversationId
    record: Mapping[str, Any]

    @property
    def is_gateway(self) -> bool:
        """Whether it stands for all sessions of a subBiz."""
        return self.conversation.startswith("b_")

    @property
    def valid(self) -> bool:
        """Not deleted, or alive again since a countable message came after the deletion; of no group that has ended. A gateway: one
        inside is."""
        if self.is_gateway:
            return bool(self.record.get("gn"))
        if "dd" in self.record or (self.write_seq == 0 and self.conversation.startswith("p_")):
            return False
        return "xn" not in self.record or self.n > self.record["xn"]

    @property
    def frozen(self) -> bool:
        """Of a former member: nothing that happens in the group reaches it any more."""
        return "f" in self.record

    @property
    def exists(self) -> bool:
        """A private conversation exists from its first message."""
        return self.write_seq > 0 or not self.conversation.startswith("p_")

    @property
    def write_seq(self) -> int:
        return int(self.record["s"])

    @property
    def n(self) -> int:
        """Countable messages up to writeSeq."""
        return int(self.record["n"])

    @property
    def read_seq(self) -> int:
        """How far the user is done with it: read, deleted, or in a group that has ended."""
        return max(self.acknowledged_seq, self._gone_seq)

    @property
    def acknowledged_seq(self) -> int:
        """How far the user has read as the senders know it: deleting tells them nothing."""
        return int(self.record["r"])

    @property
    def read_n(self) -> int:
        """Countable messages up to acknowledged_seq."""
        return int(self.record["rn"])

    @property
    def delivered_seq(self) -> int:
        return max(int(self.record["d"]), self._gone_seq)

    @property
    def _gone_seq(self) -> int:
        return self.write_seq if "dd" in self.record else int(self.record.get("x", 0))

    @property
    def received_seq(self) -> int:
        """How far the user has received as the senders know it: deleting tells them nothing."""
        return int(self.record["d"])

    @property
    def unread_count(self) -> int:
        """Countable messages after what was read or deleted; a gateway: of all inside that are not muted."""
        if self.is_gateway:
            return int(self.record.get("gu", 0))
        return max(0, self.n - max(self.read_n, self.record.get("xn", 0))) if self.valid else 0

    @property
    def unread_mention_count(self) -> int:
        """Of the unread messages, those that mention the user or everybody."""
        if self.is_gateway:
            return int(self.record.get("gq", 0))
        return sum(seq > self.read_seq for seq in self.record.get("ms", ())) if self.valid else 0

    @property
    def unread_status(self) -> bool:
        """Marked unread, and not read since: reading further, by sending too, takes the mark away."""
        return "us" in self.record and self.acknowledged_seq <= self.record["us"]

    @property
    def muted(self) -> bool:
        return self.record.get("m") == 1

    @property
    def muted_until_ms(self) -> int | None:
        return int(self.record["mu"]) if "mu" in self.record else None

    @property
    def priority(self) -> int:
        return int(self.record["p"])

    @property
    def category(self) -> str | None:
        return self.record.get("ca")

    @property
    def sub_biz(self) -> str | None:
        """The subBiz it is in. A gateway is in none."""
        return self.record.get("sb")

    @property
    def active_ts(self) -> int:
        return int(self.record["a"])

    @property
    def write_ts(self) -> int:
        return int(self.record["w"])

    @property
    def peer_read_seq(self) -> int:
        return int(self.record.get("pr", 0))

    @property
    def peer_delivered_seq(self) -> int:
        return int(self.record.get("pd", 0))

    @property
    def newest_inside(self) -> ConversationId | None:
        """The conversation inside a subBiz that was written to last. Gateways only."""
        inside = self.record.get("lc")
        return ConversationId(inside) if inside else None


def session_from(user: UserId, conversation: ConversationId, record: bytes) -> Session:
    """A session from the record that the scripts keep."""
    return Session(user, conversation, orjson.loads(record))


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

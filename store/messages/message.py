"""Messages, and their stored forms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, bucket_of, kind_of, message_id
from store.base.snowflakes import created_at_ms
from store.base.workspace_ids import RoleId
from store.conversations.group_change import GroupChange
from store.messages.system_events import SystemEvent, event_from, infer_event


class MessageField:
    """Stored names of a message's fields: the same in MongoDB documents (`messages`) and in Redis records (JSON).

    `messages` is unique by (CONVERSATION, BUCKET, SEQ), sharded by (CONVERSATION, BUCKET). Empty fields are left out,
    because Lua's JSON can't tell [] from {}. The document of a recalled message keeps its text and metadata. Its Redis
    record does not.
    """

    ID = "_id"
    """Snowflake, an integer. MongoDB only."""
    RECORD_ID = "i"
    """Snowflake, a decimal string. Redis only."""
    CONVERSATION = "c"
    BUCKET = "b"
    """`bucket_of(seq)`. MongoDB only."""
    SEQ = "s"
    N = "n"
    """Countable messages up to and including this one."""
    SENDER = "u"
    KIND = "k"
    TEXT = "t"
    MENTIONS = "m"
    MENTIONS_ALL = "ma"
    MENTIONED_ROLES = "mr"
    """Roles of a workspace, in a message in a channel."""
    REPLY_TO = "r"
    """[id, seq] of the message replied to."""
    KEY = "ik"
    """Idempotency key."""
    DIGEST = "ih"
    """Digest of the input that the key was sent with."""
    METADATA = "md"
    """Application data of the sender, as JSON text."""
    EDITS = "e"
    EDITED_AT = "et"
    """Time of the last edit (ms)."""
    RECALLED_AT = "rc"
    """(ms)"""
    RECALLED_BY = "rb"
    """Absent in messages that were recalled before the field existed."""
    SYSTEM_EVENT = "se"
    """[kind] or [kind, text]. Absent in SYSTEM messages that were stored before the field existed."""
    GROUP_CHANGED_AT = "ga"
    """Time at which the group change that a SYSTEM message announces became durable (ms). MongoDB only."""
    GROUP_STATE = "gs"
    """The group after a departure, as a `GroupState`, in the SYSTEM message that announces it. MongoDB only."""


_F = MessageField


class MessageKind(StrEnum):
    """The contract's ContentType, with its stored values."""

    TEXT = "T"
    SYSTEM = "S"
    BOT_COMMAND = "B"

    @property
    def countable(self) -> bool:
        """True if such a message counts as unread until it is read."""
        return self is not MessageKind.SYSTEM


_KINDS = {kind.value: kind for kind in MessageKind}


class Message(NamedTuple):
    """A message. `seq` and `n` are 0 until it is reserved.

    `text` is None if the message was recalled, and only then: the stored text and metadata do not leave the store.
    `metadata` is JSON text. Times are in ms since the epoch. A named tuple, because a frozen dataclass with so many
    fields takes several times as long to create.
    """

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
    recalled_by: UserId | None = None
    """None if the message was not recalled, or if the user is not known: see `_infer_recaller`."""
    system_event: SystemEvent | None = None
    """Set for every SYSTEM message, and for no other."""
    metadata: str | None = None
    mentioned_roles: tuple[RoleId, ...] = ()

    @property
    def public_id(self) -> str:
        """The message's id as the API writes it."""
        return message_id(self.id)

    @property
    def is_recalled(self) -> bool:
        """True if the content is withheld."""
        return self.recalled_at_ms is not None

    @property
    def has_receipts(self) -> bool:
        """True if others read and receive it with receipts: it is countable, and not in a channel."""
        return self.kind.countable and kind_of(self.conversation) is not ConversationKind.CHANNEL

    @property
    def created_at_ms(self) -> int:
        """Time at which the server accepted the message, ms since the epoch."""
        return created_at_ms(self.id)

    def with_place(self, seq: int, n: int) -> Message:
        """Return the same message with a seq and n."""
        return self._replace(seq=seq, n=n)

    def to_fields(self) -> dict[str, Any]:
        """Return the stored fields, except id and place."""
        fields: dict[str, Any] = {
            _F.CONVERSATION: self.conversation,
            _F.SENDER: self.sender,
            _F.KIND: self.kind.value,
        }
        if self.text is not None:
            fields[_F.TEXT] = self.text
        if self.mentions:
            fields[_F.MENTIONS] = list(self.mentions)
        if self.mentions_all:
            fields[_F.MENTIONS_ALL] = True
        if self.mentioned_roles:
            fields[_F.MENTIONED_ROLES] = list(self.mentioned_roles)
        if self.reply_to:
            fields[_F.REPLY_TO] = [str(self.reply_to[0]), self.reply_to[1]]
        if self.key:
            fields[_F.KEY], fields[_F.DIGEST] = self.key, self.digest
        if self.metadata is not None:
            fields[_F.METADATA] = self.metadata
        if self.edits:
            fields[_F.EDITS], fields[_F.EDITED_AT] = self.edits, self.edited_at_ms
        if self.is_recalled:
            fields[_F.RECALLED_AT] = self.recalled_at_ms
        if self.recalled_by is not None:
            fields[_F.RECALLED_BY] = self.recalled_by
        if self.system_event is not None:
            fields[_F.SYSTEM_EVENT] = self.system_event.to_stored()
        return fields

    def to_json(self) -> bytes:
        """Return the record kept in Redis and sent between servers."""
        return orjson.dumps(self.to_fields() | {_F.RECORD_ID: str(self.id), _F.SEQ: self.seq, _F.N: self.n})

    def to_document(self) -> dict[str, Any]:
        """Return the document kept in MongoDB."""
        place = {_F.ID: int(self.id), _F.BUCKET: bucket_of(self.seq), _F.SEQ: self.seq, _F.N: self.n}
        return place | self.to_fields()


def message_from(fields: dict[str, Any]) -> Message:
    """Return the message of a MongoDB document or a decoded Redis record."""
    reply, recalled_at_ms = fields.get(_F.REPLY_TO), fields.get(_F.RECALLED_AT)
    kind = _KINDS[fields[_F.KIND]]
    return Message(
        id=MessageId(int(fields[_F.ID] if _F.ID in fields else fields[_F.RECORD_ID])),
        conversation=ConversationId(fields[_F.CONVERSATION]),
        sender=UserId(fields[_F.SENDER]),
        kind=kind,
        text=fields[_F.TEXT] if recalled_at_ms is None else None,
        seq=fields.get(_F.SEQ, 0),
        n=fields.get(_F.N, 0),
        mentions=tuple(fields.get(_F.MENTIONS, ())),
        mentions_all=bool(fields.get(_F.MENTIONS_ALL, False)),
        reply_to=(MessageId(int(reply[0])), int(reply[1])) if reply else None,
        key=fields.get(_F.KEY),
        digest=fields.get(_F.DIGEST),
        edits=fields.get(_F.EDITS, 0),
        edited_at_ms=fields.get(_F.EDITED_AT),
        recalled_at_ms=recalled_at_ms,
        recalled_by=None if recalled_at_ms is None else fields.get(_F.RECALLED_BY) or _infer_recaller(fields),
        system_event=_system_event(fields) if kind is MessageKind.SYSTEM else None,
        metadata=fields.get(_F.METADATA) if recalled_at_ms is None else None,
        mentioned_roles=tuple(fields.get(_F.MENTIONED_ROLES, ())),
    )


def _infer_recaller(fields: dict[str, Any]) -> UserId | None:
    """Return the sender for a message without RECALLED_BY, or None in a group, where it may have been a moderator."""
    is_private = kind_of(fields[_F.CONVERSATION]) is ConversationKind.PRIVATE
    return UserId(fields[_F.SENDER]) if is_private else None


def _system_event(fields: dict[str, Any]) -> SystemEvent:
    stored = fields.get(_F.SYSTEM_EVENT)
    return event_from(stored) if stored else infer_event(UserId(fields[_F.SENDER]), fields.get(_F.MENTIONS, ()))


@dataclass(frozen=True, slots=True)
class ReservedMessage:
    """A message with its place, in the outbox and not yet durable.

    `membership_version`: version of the group's membership at the reservation; "" if it is not known.
    `outbox_entry`: id of the outbox entry, deleted when the message is delivered.
    `change`: the group change that the message announces. A change without a message has no place: its seq is 0.
    `sender_cached`: the sender's sessions were in the cache.
    `reads_unread`: sending the message may mark unread messages of others as read.
    `reads_mentions`: some of these may mention the sender.
    `notified`: in a channel the users who are notified because the message mentions them by name or role.
    `judged_version`: in a channel the policy version under which the sender's rights were judged; 0: not known.
    """

    message: Message
    membership_version: str
    outbox_entry: str
    change: GroupChange | None = None
    sender_cached: bool = True
    reads_unread: bool = True
    reads_mentions: bool = True
    notified: tuple[UserId, ...] = ()
    judged_version: int = 0


@dataclass(frozen=True, slots=True)
class CommittedMessage:
    """A durable message. `at_ms`: the time its commit began, from which the head and the sessions take their times."""

    reserved: ReservedMessage
    at_ms: int

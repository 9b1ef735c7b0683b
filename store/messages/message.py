"""Messages, and their stored forms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, bucket_of, kind_of, message_id
from store.base.snowflakes import created_at_ms
from store.base.workspace_ids import RoleId
from store.content_rules.content_flag import ContentFlag, flag_from
from store.conversations.group_change import GroupChange
from store.files.file import Attachment, FileId, attachment_from
from store.messages.broadcasts import BroadcastOf, broadcast_of_from
from store.messages.message_fields import MessageField
from store.messages.system_events import SystemEvent, event_from, infer_event
from store.previews.message_embeds import NO_EMBEDS, MessageEmbeds, message_embeds_from
from store.reactions.reaction_summary import ReactionSummary, summaries_from

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
_FIELDS = frozenset(value for name, value in vars(MessageField).items() if name.isupper())
_WITH_RECEIPTS = (ConversationKind.PRIVATE, ConversationKind.GROUP)


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
    pin_changes: int = 0
    """Number of times that it was pinned or unpinned."""
    parent_seq: int = 0
    """In a thread: the parent conversation's newest reserved seq when the message took its place."""
    has_thread: bool = False
    """There may be a thread under the message."""
    reactions: tuple[ReactionSummary, ...] = ()
    """Empty if the message was recalled: its reactions are withheld too."""
    reactions_version: int = 0
    is_broadcast: bool = False
    """A reply that is also shown in the parent conversation, by a copy."""
    broadcast_of: BroadcastOf | None = None
    """Of the copy of a reply: the reply."""
    embeds: MessageEmbeds = NO_EMBEDS
    """Empty if the message was recalled: they are withheld too."""
    attachments: tuple[Attachment, ...] = ()
    """Empty if the message was recalled."""
    is_silent: bool = False
    """Nobody gets a push for it."""
    author: tuple[str | None, str | None] | None = None
    """Of a message from an incoming webhook: name and picture given for it. None for those of the webhook's user."""
    recalled_files: tuple[FileId, ...] = ()
    """Files of a recalled message, which have to be removed. Only in messages that were read from MongoDB."""
    flag: ContentFlag | None = None
    """A report about the message is not stored yet. Only in messages that are not durable."""
    unknown: bytes = b""
    """Stored fields that only a later version knows (JSON), kept when the message is stored again (ADR 104)."""

    @property
    def own_files(self) -> tuple[FileId, ...]:
        """Ids of the files that belong to this message. Those of a copy belong to its reply."""
        if not self.attachments or self.broadcast_of is not None:
            return ()
        return tuple(file.id for file in self.attachments)

    @property
    def is_from_webhook(self) -> bool:
        """True if it came through an incoming webhook. Only such messages have an author."""
        return self.author is not None

    @property
    def is_read_by_sender(self) -> bool:
        """True if sending reads the conversation. SYSTEM messages don't, and webhooks have no sessions."""
        return self.kind.countable and self.author is None

    @property
    def copy_id(self) -> MessageId | None:
        """Of a reply with a copy: the id of the copy. It follows from the reply's, so there is never a second copy."""
        return MessageId(self.id + 1) if self.is_broadcast else None

    @property
    def shown_mentions(self) -> tuple[UserId, ...]:
        """The users that readers see as mentioned by name."""
        return self.mentions if self.broadcast_of is None else self.broadcast_of.mentions

    @property
    def shows_mention_of_all(self) -> bool:
        """True if readers see that it mentions everybody."""
        return self.mentions_all if self.broadcast_of is None else self.broadcast_of.mentions_all

    @property
    def shown_roles(self) -> tuple[RoleId, ...]:
        """The roles that readers see as mentioned."""
        return self.mentioned_roles if self.broadcast_of is None else self.broadcast_of.mentioned_roles

    @property
    def public_id(self) -> str:
        """The message's id as the API writes it."""
        return message_id(self.id)

    @property
    def is_recalled(self) -> bool:
        """True if the content is withheld."""
        return self.recalled_at_ms is not None

    @property
    def is_pinned(self) -> bool:
        """True if it is pinned. A recalled message never is."""
        return self.pin_changes % 2 == 1 and self.recalled_at_ms is None

    @property
    def is_withheld(self) -> bool:
        """True if the message was made by `withheld`."""
        return self.n == 0 and self.recalled_at_ms == self.created_at_ms

    def withheld(self) -> Message:
        """Return the message for somebody who may not read it any more, as if it had been recalled at once.

        It has no number, and only what never changes. Who sees it could read the message when it was sent.
        """
        return Message(
            self.id, self.conversation, self.sender, self.kind, None, self.seq, recalled_at_ms=self.created_at_ms
        )

    def emptied(self) -> Message:
        """Return the message as one that was recalled at once: it has its place, and no content, key or mention."""
        return Message(
            self.id,
            self.conversation,
            self.sender,
            self.kind,
            None,
            self.seq,
            self.n,
            recalled_at_ms=self.created_at_ms,
            recalled_by=self.sender,
            system_event=self.system_event,
            parent_seq=self.parent_seq,
            author=self.author,
        )

    def is_newer_than(self, other: Message) -> bool:
        """Return whether this is a later state of the same message, apart from its reactions.

        No change lowers one of the compared numbers. So of two states, the one with a higher number is the later one.
        """
        if self.is_recalled or other.is_recalled:
            return not other.is_recalled
        return (
            self.edits > other.edits
            or self.pin_changes > other.pin_changes
            or self.embeds.version > other.embeds.version
        )

    @property
    def has_receipts(self) -> bool:
        """True if others read and receive it with receipts: it is countable, and in no channel or thread."""
        return self.kind.countable and kind_of(self.conversation) in _WITH_RECEIPTS

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
        if self.parent_seq:
            fields[_F.PARENT_SEQ] = self.parent_seq
        if self.has_thread:
            fields[_F.HAS_THREAD] = True
        if self.is_broadcast:
            fields[_F.BROADCAST] = True
        if self.broadcast_of is not None:
            fields[_F.BROADCAST_OF] = self.broadcast_of.to_stored()
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
        if self.pin_changes:
            fields[_F.PIN_CHANGES] = self.pin_changes
        if self.system_event is not None:
            fields[_F.SYSTEM_EVENT] = self.system_event.to_stored()
        if self.reactions:
            fields[_F.REACTIONS] = [summary.to_stored() for summary in self.reactions]
        if self.reactions_version:
            fields[_F.REACTIONS_VERSION] = self.reactions_version
        if self.embeds is not NO_EMBEDS and (embeds := self.embeds.to_stored()):
            fields[_F.EMBEDS] = embeds
        if self.is_silent:
            fields[_F.SILENT] = True
        if self.author is not None:
            fields[_F.AUTHOR] = list(self.author)
        if self.attachments:
            fields[_F.ATTACHMENTS] = [attachment.to_stored() for attachment in self.attachments]
        if self.unknown:
            fields |= orjson.loads(self.unknown)
        return fields

    def to_json(self) -> bytes:
        """Return the record kept in Redis and sent between servers."""
        fields = self.to_fields() | {_F.RECORD_ID: str(self.id), _F.SEQ: self.seq, _F.N: self.n}
        if self.flag is not None:
            fields[_F.FLAG] = self.flag.to_stored()
        return orjson.dumps(fields)

    def to_document(self) -> dict[str, Any]:
        """Return the document kept in MongoDB."""
        place = {_F.ID: int(self.id), _F.BUCKET: bucket_of(self.seq), _F.SEQ: self.seq, _F.N: self.n}
        return place | self.to_fields()


def message_from(fields: dict[str, Any]) -> Message:
    """Return the message of a MongoDB document or a decoded Redis record.

    One of a kind that only a later version knows is shown as TEXT.
    """
    reply, recalled_at_ms = fields.get(_F.REPLY_TO), fields.get(_F.RECALLED_AT)
    broadcast_of = fields.get(_F.BROADCAST_OF)
    kind = _KINDS.get(fields[_F.KIND], MessageKind.TEXT)
    reactions = fields.get(_F.REACTIONS) if recalled_at_ms is None else None
    embeds = fields.get(_F.EMBEDS) if recalled_at_ms is None else None
    attachments: tuple[Attachment, ...] = ()
    recalled_files: tuple[FileId, ...] = ()
    if _F.ATTACHMENTS in fields:
        files = tuple(map(attachment_from, fields[_F.ATTACHMENTS]))
        if recalled_at_ms is None:
            attachments = files
        elif broadcast_of is None:
            recalled_files = tuple(file.id for file in files)
    return Message(
        id=MessageId(int(fields[_F.ID] if _F.ID in fields else fields[_F.RECORD_ID])),
        conversation=ConversationId(fields[_F.CONVERSATION]),
        sender=UserId(fields[_F.SENDER]),
        kind=kind,
        text=fields.get(_F.TEXT, "") if recalled_at_ms is None else None,
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
        pin_changes=fields.get(_F.PIN_CHANGES, 0),
        parent_seq=fields.get(_F.PARENT_SEQ, 0),
        has_thread=bool(fields.get(_F.HAS_THREAD, False)),
        reactions=summaries_from(reactions) if reactions else (),
        reactions_version=fields.get(_F.REACTIONS_VERSION, 0),
        is_broadcast=bool(fields.get(_F.BROADCAST, False)),
        broadcast_of=broadcast_of_from(broadcast_of) if broadcast_of else None,
        embeds=message_embeds_from(embeds) if embeds else NO_EMBEDS,
        attachments=attachments,
        is_silent=bool(fields.get(_F.SILENT, False)),
        author=(author[0], author[1]) if (author := fields.get(_F.AUTHOR)) else None,
        recalled_files=recalled_files,
        flag=flag_from(fields[_F.FLAG]) if _F.FLAG in fields else None,
        unknown=b"" if fields.keys() <= _FIELDS and fields[_F.KIND] in _KINDS else _unknown_fields(fields),
    )


def _unknown_fields(fields: dict[str, Any]) -> bytes:
    """Return the fields that only a later version knows (JSON). Of a recalled message, returns the kind at most."""
    unknown = {name: value for name, value in fields.items() if name not in _FIELDS}
    if _F.RECALLED_AT in fields:
        unknown = {}
    if fields[_F.KIND] not in _KINDS:
        unknown[_F.KIND] = fields[_F.KIND]
    try:
        return orjson.dumps(unknown, option=orjson.OPT_PASSTHROUGH_DATETIME) if unknown else b""
    except TypeError:
        # JSON cannot represent a value. MongoDB keeps it, because documents of messages are never replaced.
        return b""


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
    `notified`: in a channel or thread the users who are notified because the message mentions them by name or role.
    `judged_version`: in a channel, or a thread there, the policy version under which the sender's rights were judged;
        0: not known.
    `parent_version`: in a thread of a group the version of the group's membership; "" if it is not known.
    `copy`: of a reply the copy in the parent conversation, if it got its place in the same step.
    `parent_full_history`: in a thread of a group, members read what came before they joined; None if it is not known.
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
    parent_version: str = ""
    copy: ReservedMessage | None = None
    parent_full_history: bool | None = None


@dataclass(frozen=True, slots=True)
class CommittedMessage:
    """A durable message. `at_ms`: the time its commit began, from which the head and the sessions take their times."""

    reserved: ReservedMessage
    at_ms: int

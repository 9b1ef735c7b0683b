"""Events that carry a message: created, edited, recalled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from store.base.ids import ConversationId, MessageId
from store.messages.message import Message, message_from
from store.messages.revision_store import RevisionKind
from subscriptions.realtime.events.base import (
    Event,
    Fields,
    LogEntry,
    MessageEntry,
    MessageStreamEvent,
    ReplayContent,
    encode_entry,
)


@dataclass(frozen=True, slots=True)
class MessageEvent(Event):
    """Base of events that carry a message. The log has a reference; a replay shows the message's present state."""

    message: Message

    def wire_fields(self) -> Fields:
        """Return the whole message."""
        return {"m": message_fields(self.message)}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        return cls(message_from(fields["m"]))

    @classmethod
    def log_entry(cls, message: Message) -> str:
        """Return the log entry of this kind of event for a message."""
        return encode_entry({"k": cls.code, "c": message.conversation, "s": message.seq})

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the message."""
        return MessageReference(ConversationId(fields["c"]), fields["s"], cls)

    @classmethod
    def present(cls, message: Message) -> Self | None:
        """Return the event with the present state of a message; None if there is nothing left to see."""
        return cls(message)

    @property
    def conversation(self) -> ConversationId:
        """The message's conversation."""
        return self.message.conversation

    @property
    def message_event(self) -> MessageStreamEvent | None:
        """The event itself."""
        return self

    @property
    def full_message(self) -> Message | None:
        """The message."""
        return self.message


@dataclass(frozen=True, slots=True)
class MessageReference(MessageEntry):
    """A log entry of an event that shows a message."""

    kind: type[MessageEvent]

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the present state of the message."""
        message = self.find_message(content)
        return self.kind.present(message) if message is not None else None


@dataclass(frozen=True, slots=True)
class MessageCreated(MessageEvent):
    """A message became durable."""

    code = "m"

    @property
    def created_message(self) -> Message | None:
        """The message."""
        return self.message


@dataclass(frozen=True, slots=True)
class Mentioned(MessageEvent):
    """A message in a channel mentions the user by name, or by a role of few members."""

    code = "q"


@dataclass(frozen=True, slots=True)
class MessageRevised(MessageEvent):
    """Base of edits and recalls."""

    @classmethod
    def log_entry(cls, message: Message) -> str:
        """Return the log entry, with the state of the message: no two entries of one message are the same."""
        return encode_entry({"k": cls.code, "c": message.conversation, "s": message.seq} | state_fields(message))

    @property
    def follows_message(self) -> MessageId | None:
        """The message that was revised."""
        return self.message.id


@dataclass(frozen=True, slots=True)
class MessageUpdated(MessageRevised):
    """A message was edited, or its embeds have changed."""

    code = RevisionKind.EDIT.value

    @classmethod
    def present(cls, message: Message) -> Self | None:
        """Return the event, or None for a message that is recalled: its recall is an event of its own."""
        return None if message.is_recalled else cls(message)


@dataclass(frozen=True, slots=True)
class MessageRecalled(MessageRevised):
    """A message was recalled. No later event holds its content."""

    code = RevisionKind.RECALL.value


@dataclass(frozen=True, slots=True)
class PinsChanged(MessageEvent):
    """A message was pinned or unpinned. It shows which of the two.

    for_watchers: Only those who look at the conversation see it.
    """

    code = "p"

    for_watchers: bool = False

    def wire_fields(self) -> Fields:
        """Return the whole message."""
        return {"m": message_fields(self.message)} | watchers_fields(self.for_watchers)

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        return cls(message_from(fields["m"]), bool(fields.get("w")))

    @classmethod
    def log_entry(cls, message: Message, number: int = 0, *, for_watchers: bool = False) -> str:
        """Return the log entry. number: that of the change, so that no two entries are the same."""
        fields: Fields = {"k": cls.code, "c": message.conversation, "s": message.seq, "v": number}
        return encode_entry(fields | watchers_fields(for_watchers))

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the message."""
        return _PinsReference(ConversationId(fields["c"]), fields["s"], bool(fields.get("w")))

    @property
    def message_event(self) -> MessageStreamEvent | None:
        """The event itself, unless it is for watchers."""
        return None if self.for_watchers else self

    @property
    def follows_message(self) -> MessageId | None:
        """The message."""
        return self.message.id


@dataclass(frozen=True, slots=True)
class _PinsReference(MessageEntry):
    for_watchers: bool

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the present state of the message."""
        message = self.find_message(content)
        return PinsChanged(message, self.for_watchers) if message is not None else None


REVISION_EVENTS: dict[RevisionKind, type[MessageRevised]] = {
    RevisionKind.EDIT: MessageUpdated,
    RevisionKind.RECALL: MessageRecalled,
    RevisionKind.EMBEDS: MessageUpdated,
}
"""The event of each kind of revision."""


def state_fields(message: Message) -> Fields:
    """Return the fields of a log entry that differ after each revision of a message."""
    version = message.embeds.version
    return {"v": message.edits} | ({"e": version} if version else {})


def watchers_fields(for_watchers: bool) -> Fields:
    """Return the mark of an event that only those who look at the conversation see."""
    return {"w": 1} if for_watchers else {}


def message_fields(message: Message) -> dict[str, Any]:
    """Return the fields that carry a whole message between servers."""
    return message.to_fields() | {"i": str(message.id), "s": message.seq, "n": message.n}

"""Events that carry a message: created, edited, recalled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

from store.base.ids import ConversationId, MessageId
from store.messages.message import Message, message_from
from store.messages.revision_store import RevisionKind
from subscriptions.realtime.events.base import (
    Event,
    Fields,
    LogEntry,
    MessagePlace,
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
        return MessageReference(cls, ConversationId(fields["c"]), fields["s"])

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
class MessageReference(LogEntry):
    """A log entry that names a message."""

    kind: type[MessageEvent]
    conversation: ConversationId
    seq: int

    @property
    def message_places(self) -> Collection[MessagePlace]:
        """The message."""
        return ((self.conversation, self.seq),)

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the present state of the message."""
        message = content.messages.get((self.conversation, self.seq))
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
        """Return the log entry, with the number of edits: no two entries of one message are the same."""
        return encode_entry({"k": cls.code, "c": message.conversation, "s": message.seq, "v": message.edits})

    @property
    def follows_message(self) -> MessageId | None:
        """The message that was revised."""
        return self.message.id


@dataclass(frozen=True, slots=True)
class MessageUpdated(MessageRevised):
    """A message was edited."""

    code = RevisionKind.EDIT.value

    @classmethod
    def present(cls, message: Message) -> Self | None:
        """Return the event, or None for a message that is recalled: its recall is an event of its own."""
        return None if message.is_recalled else cls(message)


@dataclass(frozen=True, slots=True)
class MessageRecalled(MessageRevised):
    """A message was recalled. No later event holds its content."""

    code = RevisionKind.RECALL.value


REVISION_EVENTS: dict[RevisionKind, type[MessageRevised]] = {
    RevisionKind.EDIT: MessageUpdated,
    RevisionKind.RECALL: MessageRecalled,
}
"""The event of each kind of revision."""


def message_fields(message: Message) -> dict[str, Any]:
    """Return the fields that carry a whole message between servers."""
    return message.to_fields() | {"i": str(message.id), "s": message.seq, "n": message.n}

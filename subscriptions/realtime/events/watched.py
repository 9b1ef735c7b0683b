"""The event of a message for users who look at its conversation, and would not get it otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from store.base.ids import ConversationId, MessageId
from store.messages.message import Message, message_from
from subscriptions.realtime.events.base import (
    Event,
    Fields,
    LogEntry,
    MessageEntry,
    ReplayContent,
    encode_entry,
)
from subscriptions.realtime.events.messages import message_fields, state_fields
from subscriptions.realtime.events.shared import MessageChange


@dataclass(frozen=True, slots=True)
class WatchedMessage(Event):
    """A message was created, edited or recalled in a thread that the user looks at and does not follow.

    Only `channelEvents` shows it. The log has a reference.
    """

    code = "w"

    message: Message
    change: MessageChange

    def wire_fields(self) -> Fields:
        """Return the whole message."""
        return {"h": self.change.value, "m": message_fields(self.message)}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        return cls(message_from(fields["m"]), MessageChange.stored_as(fields["h"]))

    @classmethod
    def log_entry(cls, message: Message, change: MessageChange) -> str:
        """Return the log entry, with the state of the message: no two entries of one message are the same."""
        state = {"v": 0} if change is MessageChange.CREATED else state_fields(message)
        return encode_entry({"k": cls.code, "h": change.value, "c": message.conversation, "s": message.seq} | state)

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the message."""
        return _WatchedMessageEntry(ConversationId(fields["c"]), fields["s"], MessageChange.stored_as(fields["h"]))

    @classmethod
    def present(cls, message: Message, change: MessageChange) -> Self | None:
        """Return the event with the present state of a message; None for an edit that a recall has overtaken."""
        is_overtaken = change is MessageChange.UPDATED and message.is_recalled
        return cls(message, change) if not is_overtaken else None

    @property
    def full_message(self) -> Message | None:
        """The message."""
        return self.message

    @property
    def created_message(self) -> Message | None:
        """The message, if it is new."""
        return self.message if self.change is MessageChange.CREATED else None

    @property
    def follows_message(self) -> MessageId | None:
        """The message, if it was revised."""
        return self.message.id if self.change is not MessageChange.CREATED else None


@dataclass(frozen=True, slots=True)
class _WatchedMessageEntry(MessageEntry):
    change: MessageChange

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the present state of the message."""
        message = self.find_message(content)
        return WatchedMessage.present(message, self.change) if message is not None else None

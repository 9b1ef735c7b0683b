"""Events of a message's reactions. They carry all reactions as they are at present."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Self

from store.base.ids import ConversationId, MessageId
from store.messages.message import Message, message_from
from subscriptions.realtime.events.base import (
    Event,
    Fields,
    LogEntry,
    MessageEntry,
    MessageStreamEvent,
    ReplayContent,
    encode_entry,
)
from subscriptions.realtime.events.messages import message_fields, watchers_fields
from subscriptions.realtime.events.present_state import PresentState

REACTIONS = "e"
"""The code of the event on users' clocks."""


@dataclass(frozen=True, slots=True)
class ReactionsChanged(Event):
    """The reactions of a message have changed. The log has a reference.

    message: The message, see `bare_message`.
    for_watchers: Only those who look at the conversation see it.
    """

    code = REACTIONS

    message: Message
    for_watchers: bool = False

    def wire_fields(self) -> Fields:
        """Return the message."""
        return {"m": message_fields(self.message)} | watchers_fields(self.for_watchers)

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        return cls(message_from(fields["m"]), bool(fields.get("w")))

    @staticmethod
    def log_entry(message: Message, *, for_watchers: bool) -> str:
        """Return the log entry of a message's reactions."""
        fields: Fields = {"k": REACTIONS, "c": message.conversation, "s": message.seq}
        return encode_entry(fields | watchers_fields(for_watchers))

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the message."""
        return _ReactionsReference(ConversationId(fields["c"]), fields["s"], bool(fields.get("w")))

    @property
    def conversation(self) -> ConversationId:
        """The message's conversation."""
        return self.message.conversation

    @property
    def message_event(self) -> MessageStreamEvent | None:
        """The event itself, unless it is for watchers."""
        return None if self.for_watchers else self

    @property
    def follows_message(self) -> MessageId | None:
        """The message."""
        return self.message.id


@dataclass(frozen=True, slots=True)
class _ReactionsReference(MessageEntry):
    """A log entry that names a message. Of several for one message, a replay shows the last one."""

    for_watchers: bool

    @property
    def shown_once(self) -> Hashable | None:
        """The message, and who sees the event."""
        return REACTIONS, self.conversation, self.seq, self.for_watchers

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the present reactions."""
        message = self.find_message(content)
        return ReactionsChanged(bare_message(message), self.for_watchers) if message is not None else None


@dataclass(frozen=True, slots=True)
class ChannelReactions(PresentState):
    """The reactions of a message have changed, for those who look at its conversation. See ReactionsChanged."""

    code = "E"

    def log_entry(self) -> str:
        """Return the log entry, with the version of the reactions: no two entries of one message are the same."""
        message = self.message
        version = message.reactions_version
        return encode_entry({"k": self.code, "c": message.conversation, "s": message.seq, "v": version})

    @classmethod
    def present(cls, message: Message) -> Self:
        """Return the event with the present reactions."""
        return cls(bare_message(message))


def bare_message(message: Message) -> Message:
    """Return a message with its reactions and without its content, which their events do not need."""
    return Message(
        message.id,
        message.conversation,
        message.sender,
        message.kind,
        "" if message.text is not None else None,
        message.seq,
        message.n,
        recalled_at_ms=message.recalled_at_ms,
        recalled_by=message.recalled_by,
        system_event=message.system_event,
        parent_seq=message.parent_seq,
        reactions=message.reactions,
        reactions_version=message.reactions_version,
    )

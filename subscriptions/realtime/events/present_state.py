"""Events on shared clocks that show what belongs to a message as it is at present."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Self

from store.base.ids import ConversationId
from store.messages.message import Message, message_from
from subscriptions.realtime.events.base import Event, Fields, LogEntry, MessageEntry, ReplayContent
from subscriptions.realtime.events.messages import message_fields
from subscriptions.realtime.events.shared import ChannelEvent


@dataclass(frozen=True, slots=True)
class PresentState(ChannelEvent):
    """Base of events that show what belongs to a message as it is at present: its reactions, its thread.

    The log has a reference. Of several for one message, a replay shows the last one.
    """

    @classmethod
    def present(cls, message: Message) -> Self:
        """Return the event with the present state of a message."""
        return cls(message)

    def wire_fields(self) -> Fields:
        """Return the message."""
        return {"m": message_fields(self.message)}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        return cls(message_from(fields["m"]))

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the message."""
        return _PresentStateEntry(ConversationId(fields["c"]), fields["s"], cls)


@dataclass(frozen=True, slots=True)
class _PresentStateEntry(MessageEntry):
    kind: type[PresentState]

    @property
    def shown_once(self) -> Hashable | None:
        """The kind of event, and the message."""
        return self.kind.code, self.conversation, self.seq

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the present state; None if there is no such message."""
        message = self.find_message(content)
        return self.kind.present(message) if message is not None else None

"""The events of changed threads, for those who see the parent message. They show the thread as it is at present.

An event has the parent message. The thread is read when the event is shown, as the viewer may see it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Self

from store.base.ids import ConversationId, MessageId, ThreadPlace
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
from subscriptions.realtime.events.messages import message_fields
from subscriptions.realtime.events.present_state import PresentState

THREAD = "t"
"""The code of the event on users' clocks."""


@dataclass(frozen=True, slots=True)
class ThreadChanged(Event):
    """The number of replies, the participants or the lock of a thread changed. The log has a reference.

    Attributes:
        parent: The parent message.
        publication: Another text for each time that the thread is published. A server takes events with the same form
            for the same event, and shows all of them as it has shown the first one.
    """

    code = THREAD

    parent: Message
    publication: str = ""

    def wire_fields(self) -> Fields:
        """Return the parent message, and the publication."""
        return {"m": message_fields(self.parent), "n": self.publication}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        return cls(message_from(fields["m"]), fields["n"])

    @staticmethod
    def log_entry(thread: ThreadPlace) -> str:
        """Return the log entry of a change of a thread."""
        return encode_entry({"k": THREAD, "c": thread.parent, "s": thread.seq})

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the parent message."""
        return _ThreadReference(ConversationId(fields["c"]), fields["s"])

    @property
    def conversation(self) -> ConversationId:
        """The parent conversation."""
        return self.parent.conversation

    @property
    def message_event(self) -> MessageStreamEvent | None:
        """The event itself."""
        return self

    @property
    def follows_message(self) -> MessageId | None:
        """The parent message."""
        return self.parent.id


@dataclass(frozen=True, slots=True)
class _ThreadReference(MessageEntry):
    """A log entry that names a parent message. Of several for one thread, a replay shows the last one."""

    @property
    def shown_once(self) -> Hashable | None:
        """The thread."""
        return THREAD, self.conversation, self.seq

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event; None if the user may not read the parent message."""
        parent = self.find_message(content)
        return ThreadChanged(parent) if parent is not None else None


@dataclass(frozen=True, slots=True)
class ChannelThread(PresentState):
    """A thread has changed, for those who look at the parent conversation. `message` is the parent message."""

    code = "T"

    def log_entry(self) -> str:
        """Return the log entry."""
        return encode_entry({"k": self.code, "c": self.conversation, "s": self.message.seq})

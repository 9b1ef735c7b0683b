"""Base classes of event kinds, and the content that log entries refer to.

The class of an event kind says how the event is written in a user's log, how it travels between servers, and which
subscribers see it. Bus, hub, replay and live streams use only what this module defines. To add a kind, write its class
and list it in `registry.py`; its GraphQL type is listed in `schema/events`.

Log entries and frames are JSON objects with `k` for the kind. Their field names are stored, or read by servers of other
versions: they never change. A script writes the log entry of a mute that ends
(`_sessions.lua`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import orjson

from store.base.ids import ConversationId, MessageId, UserId
from store.conversations.conversation import Head
from store.messages.message import Message
from store.sessions.session import Session

if TYPE_CHECKING:
    from subscriptions.realtime.events.sessions import SessionChanged

Fields = dict[str, Any]

MessagePlace = tuple[ConversationId, int]
"""The conversation and the seq of a message."""


class MessageStreamEvent(Protocol):
    """An event as subscribers of `messageEvents` see it."""

    @property
    def conversation(self) -> ConversationId:
        """The conversation that it belongs to, for subscribers of one conversation."""
        ...

    @property
    def full_message(self) -> Message | None:
        """The message whose whole state the event carries, if there is one.

        A subscriber never sees an older state of a message after a newer one.
        """
        ...

    @property
    def full_group(self) -> Head | None:
        """The group whose whole state the event carries, if there is one. The same holds for it."""
        ...


class Event(ABC):
    """An event on a user's clock: in the user's log, delivered once and in the order of the clock."""

    __slots__ = ()

    code: ClassVar[str]
    """The value of `k` for this kind. Stored."""

    @abstractmethod
    def wire_fields(self) -> Fields:
        """Return the fields that carry the event between servers, without `k`.

        They hold everything that subscribers see, so that no database is read to deliver the event.
        """

    @classmethod
    @abstractmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""

    @classmethod
    @abstractmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return the log entry with these fields."""

    def encode(self) -> Fields:
        """Return the fields that carry the event between servers."""
        return {"k": self.code} | self.wire_fields()

    @property
    def concerned_users(self) -> Collection[UserId] | None:
        """Users whose subscriptions to the clock get the event; None: all users."""
        return None

    @property
    def subject(self) -> str | None:
        """Subject of the event: only subscriptions to this subject get it. None: all get it."""
        return None

    @property
    def message_event(self) -> MessageStreamEvent | None:
        """The event that subscribers of `messageEvents` see; None: they see nothing.

        It is the same object for all subscribers, so that it is executed once for all of them.
        """
        return None

    @property
    def session_event(self) -> SessionChanged | None:
        """The event that subscribers of `syncSession` see; None: they see nothing."""
        return None

    @property
    def full_message(self) -> Message | None:
        """The message whose whole state the event carries, if there is one."""
        return None

    @property
    def full_group(self) -> Head | None:
        """The group whose whole state the event carries, if there is one."""
        return None

    @property
    def created_message(self) -> Message | None:
        """The message that the event creates. Replays show the creations of a conversation in the order of seq."""
        return None

    @property
    def follows_message(self) -> MessageId | None:
        """The message whose creation comes before this event in every replay."""
        return None

    @property
    def next_mute_end_ms(self) -> int | None:
        """The first time at which a mute of the sessions in the event ends by itself."""
        return None


@dataclass(frozen=True, slots=True)
class ConversationEvent(Event):
    """Base of events of one conversation whose log entry holds the whole event."""

    conversation: ConversationId

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return an entry that holds the event itself."""
        return WholeEvent(cls.from_wire(fields))

    def log_entry(self) -> str:
        """Return the event's log entry."""
        return encode_entry(self.encode())

    @property
    def message_event(self) -> MessageStreamEvent | None:
        """The event itself."""
        return self


@dataclass(frozen=True, slots=True)
class EphemeralEvent:
    """Base of events without a tick: in no log, never replayed, dropped if a mailbox is full.

    The other members of the conversation see it in `messageEvents`, with no cursor.
    """

    frame: ClassVar[str]
    """The name of its frames between servers."""

    conversation: ConversationId
    user: UserId
    """The user who caused it."""
    at_ms: int

    @property
    def full_message(self) -> Message | None:
        """None: the event carries no message."""
        return None

    @property
    def full_group(self) -> Head | None:
        """None: the event carries no group."""
        return None

    def encode(self) -> list[Any]:
        """Return the values that carry the event between servers."""
        return [self.conversation, self.user, self.at_ms]

    @classmethod
    def decode(cls, values: Sequence[Any]) -> Self:
        """Return the event from the values of `encode`."""
        conversation, user, at_ms, *_ = values
        return cls(ConversationId(conversation), UserId(user), at_ms)


@dataclass(frozen=True, slots=True)
class ReplayContent:
    """The present content that the entries of one replay refer to, without messages that the user may not read."""

    messages: Mapping[MessagePlace, Message]
    sessions: Mapping[ConversationId, Session]
    """Includes the gateways of these sessions."""
    total_unread: int
    groups: Mapping[ConversationId, Head] = field(default_factory=dict)


class LogEntry(ABC):
    """An event in a user's log, as it is stored: mostly a short reference to content in the databases."""

    __slots__ = ()

    @property
    def message_places(self) -> Collection[MessagePlace]:
        """The messages that a replay needs."""
        return ()

    @property
    def session_conversations(self) -> Collection[ConversationId]:
        """The conversations whose sessions a replay needs."""
        return ()

    @property
    def group(self) -> ConversationId | None:
        """The group whose current state a replay of this entry shows; None for other entries."""
        return None

    @property
    def shown_once(self) -> Hashable | None:
        """Key of the entries of which a replay shows only the last one, with the present state. None: all are shown."""
        return None

    @abstractmethod
    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with its present content; None if there is nothing left to see."""


@dataclass(frozen=True, slots=True)
class MessageEntry(LogEntry):
    """Base of log entries that name a message by its place."""

    conversation: ConversationId
    seq: int

    @property
    def message_places(self) -> Collection[MessagePlace]:
        """The place of the message."""
        return ((self.conversation, self.seq),)

    def find_message(self, content: ReplayContent) -> Message | None:
        """Return the message as it is at present; None if the user may not read it, or it does not exist."""
        return content.messages.get((self.conversation, self.seq))


@dataclass(frozen=True, slots=True)
class WholeEvent(LogEntry):
    """A log entry that holds the event itself."""

    event: Event

    def replay(self, content: ReplayContent) -> Event:
        """Return the event."""
        return self.event


def encode_entry(fields: Fields) -> str:
    """Return a log entry as the scripts take it."""
    return orjson.dumps(fields).decode()

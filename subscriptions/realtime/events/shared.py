"""Events on shared clocks: what happens in a channel, and what changes in a workspace.

Everybody who may see such an event sees the same object, so that it is executed once for all of them. Codes and field
names are stored in logs, and read by servers of other versions: they never change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from store.base.ids import ConversationId, UserId, without_thread
from store.base.known_values import known_value
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.clocks.shared_clocks import ChangeList
from store.messages.message import Message, message_from
from store.messages.revision_store import RevisionKind
from subscriptions.realtime.events.base import (
    Event,
    Fields,
    LogEntry,
    MessageEntry,
    ReplayContent,
    WholeEvent,
    encode_entry,
)
from subscriptions.realtime.events.messages import message_fields, state_fields

WORKSPACE_OBJECT = "w"
"""The workspace itself, in the list of changed objects: name, picture, roles, categories."""

ACTIVITY = "activity"
"""The subject of ChannelActivity. The subject of a message is its channel."""

RIGHTS_OBJECT = "v"
"""Stands for the rights of many, in the list of changed objects: other channels may have become visible, or hidden."""


@dataclass(frozen=True, slots=True)
class SharedEvent(Event):
    """Base of events on shared clocks. rev: the event's tick; 0 until it has one."""

    rev: int = field(default=0, kw_only=True)

    @property
    def owner(self) -> str:
        """The workspace whose clock has the event."""
        raise NotImplementedError

    @property
    def objects(self) -> Collection[tuple[ChangeList, str]]:
        """The objects of the event, each with the list of the clock that names it."""
        return ()

    def log_entry(self) -> str:
        """Return the event's log entry."""
        raise NotImplementedError

    def at(self, rev: int) -> Self:
        """Return the event with its tick."""
        return replace(self, rev=rev)


class MessageChange(StrEnum):
    """Kind of change of a message, with stored values."""

    CREATED = "m"
    UPDATED = RevisionKind.EDIT.value
    RECALLED = RevisionKind.RECALL.value

    @classmethod
    def stored_as(cls, value: str) -> MessageChange:
        """Return the change with a stored value; UPDATED if only later versions know it."""
        return known_value(cls, value, cls.UPDATED)

    @classmethod
    def of_revision(cls, kind: RevisionKind) -> MessageChange:
        """Return the change that readers see. Other embeds are an update."""
        return cls.UPDATED if kind is RevisionKind.EMBEDS else cls(kind)


@dataclass(frozen=True, slots=True)
class ChannelEvent(SharedEvent):
    """Base of events about a message, for those who look at its conversation: `channelEvents` shows them.

    message: They are shown to those who may see it.
    """

    message: Message

    @property
    def conversation(self) -> ConversationId:
        """The message's conversation."""
        return self.message.conversation

    @property
    def owner(self) -> str:
        """The workspace of the channel."""
        return workspace_of_channel(self.conversation)

    @property
    def subject(self) -> str:
        """The channel, or the thread in one."""
        return self.conversation

    @property
    def begins_message(self) -> bool:
        """True for the event of a new message."""
        return False


@dataclass(frozen=True, slots=True)
class ChannelMessage(ChannelEvent):
    """A message was created, edited or recalled. The log has a reference; a replay shows the message as it is then."""

    code = "M"

    change: MessageChange

    @property
    def begins_message(self) -> bool:
        """True for the event of a new message."""
        return self.change is MessageChange.CREATED

    @property
    def is_activity(self) -> bool:
        """True for a new message of the channel itself. A reply in a thread is no activity of the channel."""
        return self.begins_message and without_thread(self.conversation) == self.conversation

    @property
    def objects(self) -> Collection[tuple[ChangeList, str]]:
        """The channel, if it has a new message."""
        return ((ChangeList.RECENT, self.conversation),) if self.is_activity else ()

    @property
    def full_message(self) -> Message | None:
        """The message."""
        return self.message

    def log_entry(self) -> str:
        """Return the log entry, with the state of the message: no two entries of one message are the same."""
        message = self.message
        state = {"v": 0} if self.change is MessageChange.CREATED else state_fields(message)
        return encode_entry(
            {"k": self.code, "h": self.change.value, "c": message.conversation, "s": message.seq} | state
        )

    def wire_fields(self) -> Fields:
        """Return the whole message."""
        return {"h": self.change.value, "m": message_fields(self.message)}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        return cls(message_from(fields["m"]), MessageChange.stored_as(fields["h"]))

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the message."""
        return _ChannelMessageEntry(ConversationId(fields["c"]), fields["s"], MessageChange.stored_as(fields["h"]))


@dataclass(frozen=True, slots=True)
class _ChannelMessageEntry(MessageEntry):
    change: MessageChange

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the present state of the message; None for an edit that a recall has overtaken."""
        message = self.find_message(content)
        if message is None or (self.change is MessageChange.UPDATED and message.is_recalled):
            return None
        return ChannelMessage(message, self.change)


@dataclass(frozen=True, slots=True)
class ChannelPins(ChannelEvent):
    """A message was pinned or unpinned; it shows which of the two. The log has a reference.

    number: That of the change in its conversation.
    """

    code = "P"

    number: int

    @property
    def full_message(self) -> Message | None:
        """The message."""
        return self.message

    def log_entry(self) -> str:
        """Return the log entry. No two changes in a conversation have the same number."""
        return encode_entry({"k": self.code, "c": self.conversation, "s": self.message.seq, "v": self.number})

    def wire_fields(self) -> Fields:
        """Return the whole message, and the number."""
        return {"m": message_fields(self.message), "v": self.number}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        return cls(message_from(fields["m"]), fields["v"])

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the message."""
        return _ChannelPinsEntry(ConversationId(fields["c"]), fields["s"], fields["v"])


@dataclass(frozen=True, slots=True)
class _ChannelPinsEntry(MessageEntry):
    number: int

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the present state of the message."""
        message = self.find_message(content)
        return ChannelPins(message, self.number) if message is not None else None


@dataclass(frozen=True, slots=True)
class WorkspaceUpdate(SharedEvent):
    """A change of a workspace. Append it after the change is in MongoDB, and its policy version in Redis.

    Attributes:
        workspace: The workspace.
        version: Its policy version, which includes the change. 0: the change needed no new version.
        is_changed: True if name, picture, plan, roles or categories have changed.
        changes_rights: True if it may have become visible or hidden which channels there are, to anybody.
        is_deleted: True if the workspace was deleted.
        channels: Channels that are new, or whose settings have changed. Not those that were deleted.
        members: Members whose own roles, nickname, time-out, channels or membership have changed.
        renamed: Members whose nickname has changed. It has no part in rights, and needs no new version.
        follows: Users who follow a channel from now on (True), or no longer.
    """

    code = "W"

    workspace: WorkspaceId
    version: int = 0
    is_changed: bool = False
    changes_rights: bool = False
    is_deleted: bool = False
    channels: tuple[ConversationId, ...] = ()
    members: tuple[UserId, ...] = ()
    renamed: tuple[UserId, ...] = ()
    follows: tuple[tuple[UserId, ConversationId, bool], ...] = ()

    # Computed once for all subscribers.
    changed_members: frozenset[UserId] = field(init=False, compare=False, repr=False)
    follows_by_user: Mapping[UserId, Sequence[tuple[ConversationId, bool]]] = field(
        init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Index the members and the follows."""
        by_user: dict[UserId, list[tuple[ConversationId, bool]]] = {}
        for user, channel, follows in self.follows:
            by_user.setdefault(user, []).append((channel, follows))
        object.__setattr__(self, "changed_members", frozenset((*self.members, *self.renamed)))
        object.__setattr__(self, "follows_by_user", by_user)

    @property
    def owner(self) -> str:
        """The workspace."""
        return self.workspace

    @property
    def concerned_users(self) -> Collection[UserId] | None:
        """Its members and followers, unless the workspace or channels have changed."""
        if self.is_changed or self.changes_rights or self.is_deleted or self.channels:
            return None
        return self.changed_members | self.follows_by_user.keys()

    @property
    def objects(self) -> Collection[tuple[ChangeList, str]]:
        """All objects that have changed."""
        names: list[str] = [*self.channels]
        names += [WORKSPACE_OBJECT] if self.is_changed else []
        names += [RIGHTS_OBJECT] if self.changes_rights or self.is_deleted else []
        return [
            *((ChangeList.CHANGED, name) for name in names),
            *((ChangeList.MEMBERS, user) for user in self.changed_members),
        ]

    def log_entry(self) -> str:
        """Return the whole event."""
        return encode_entry(self.encode())

    def wire_fields(self) -> Fields:
        """Return all of it. Absent: false, or none."""
        flags = "".join(
            letter
            for letter, is_set in (("w", self.is_changed), ("r", self.changes_rights), ("d", self.is_deleted))
            if is_set
        )
        fields: Fields = {"w": self.workspace, "v": self.version, "f": flags}
        if self.channels:
            fields["c"] = self.channels
        if self.members:
            fields["u"] = self.members
        if self.renamed:
            fields["n"] = self.renamed
        if self.follows:
            fields["fo"] = [[user, channel, int(follows)] for user, channel, follows in self.follows]
        return fields

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent, or that the log holds."""
        flags = fields["f"]
        return cls(
            WorkspaceId(fields["w"]),
            fields["v"],
            is_changed="w" in flags,
            changes_rights="r" in flags,
            is_deleted="d" in flags,
            channels=tuple(map(ConversationId, fields.get("c", ()))),
            members=tuple(map(UserId, fields.get("u", ()))),
            renamed=tuple(map(UserId, fields.get("n", ()))),
            follows=tuple((UserId(u), ConversationId(c), bool(follows)) for u, c, follows in fields.get("fo", ())),
        )

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return an entry that holds the event itself."""
        return WholeEvent(cls.from_wire(fields))


@dataclass(frozen=True, slots=True)
class ChannelActivity(SharedEvent):
    """The newest message of a channel, for those who follow it. Each process makes it of ChannelMessage.

    It has no tick of its own: `rev` is that of the message. It is in no log, and is not sent between servers.
    """

    code = ""

    channel: ConversationId
    seq: int
    n: int
    at_ms: int

    @property
    def owner(self) -> str:
        """The workspace of the channel."""
        return workspace_of_channel(self.channel)

    @property
    def subject(self) -> str:
        """The same for all channels."""
        return ACTIVITY

    def wire_fields(self) -> Fields:
        """Return nothing: it stays on its process."""
        return {}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Never called: it is not sent."""
        raise NotImplementedError

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Never called: it is in no log."""
        raise NotImplementedError

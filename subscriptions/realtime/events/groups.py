"""The event of a changed group."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Self

from store.base.ids import ConversationId, ConversationKind
from store.conversations.conversation import Head
from store.conversations.group_info import group_info_from
from subscriptions.realtime.events.base import (
    Event,
    Fields,
    LogEntry,
    MessageStreamEvent,
    ReplayContent,
    encode_entry,
)


@dataclass(frozen=True, slots=True)
class GroupChanged(Event):
    """A field of a group, or a role of a member, changed. The log has a reference.

    `head`: the group's head without its messages. It includes this change, and maybe later ones. A replay shows the
    group as the user may see it at present.
    """

    code = "g"

    head: Head

    def wire_fields(self) -> Fields:
        """Return the group without its messages."""
        head = self.head
        assert head.group is not None
        return {"c": head.conversation, "v": head.version, "n": head.member_count, "g": head.group.to_fields()}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        conversation, group = ConversationId(fields["c"]), group_info_from(fields["g"])
        return cls(Head(conversation, ConversationKind.GROUP, 0, None, fields["n"], group, version=fields["v"]))

    @classmethod
    def log_entry(cls, conversation: ConversationId, version: int) -> str:
        """Return the log entry of the change that gave the group a version."""
        return encode_entry({"k": cls.code, "c": conversation, "v": version})

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the group."""
        return GroupReference(ConversationId(fields["c"]))

    @property
    def conversation(self) -> ConversationId:
        """The group."""
        return self.head.conversation

    @property
    def message_event(self) -> MessageStreamEvent | None:
        """The event itself."""
        return self

    @property
    def full_group(self) -> Head | None:
        """The group."""
        return self.head


@dataclass(frozen=True, slots=True)
class GroupReference(LogEntry):
    """A log entry that names a group. Of several for one group, a replay shows the last one."""

    conversation: ConversationId

    @property
    def group(self) -> ConversationId | None:
        """The group."""
        return self.conversation

    @property
    def shown_once(self) -> Hashable | None:
        """The group."""
        return GroupChanged.code, self.conversation

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the event with the group as the user may see it; None if the group has ended."""
        head = content.groups.get(self.conversation)
        return GroupChanged(head) if head is not None and not head.has_ended else None

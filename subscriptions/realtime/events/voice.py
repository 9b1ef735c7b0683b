"""The event of a voice state, on the clock of its workspace."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.clocks.shared_clocks import ChangeList
from store.voice.voice_state import VOICE_OBJECT_PREFIX, VoiceState, voice_state_from
from subscriptions.realtime.events.base import Fields, LogEntry, WholeEvent, encode_entry
from subscriptions.realtime.events.shared import SharedEvent


@dataclass(frozen=True, slots=True)
class VoiceStateChanged(SharedEvent):
    """A user joined a voice channel, left it, moved to another one, or changed there.

    The script that changes the state writes the log entry in the same step: `_voice.lua` has its form.

    Attributes:
        workspace: The workspace.
        state: The state; if the user has left, the last one.
        moved_from: The state in the channel from which the user has moved to that of `state`; None: there is none.
        left: True if the user has left.
    """

    code = "V"

    workspace: WorkspaceId
    state: VoiceState
    moved_from: VoiceState | None = None
    left: bool = False

    @property
    def owner(self) -> str:
        """The workspace."""
        return self.workspace

    @property
    def objects(self) -> Collection[tuple[ChangeList, str]]:
        """The user in each channel that is concerned."""
        states = (self.state, self.moved_from)
        return [(ChangeList.CHANGED, voice_object(each.channel, each.user)) for each in states if each is not None]

    def log_entry(self) -> str:
        """Return the whole event. No two have the same version of a state and the same end."""
        return encode_entry(self.encode())

    def wire_fields(self) -> Fields:
        """Return all of it. Absent: false, or none."""
        fields: Fields = {"w": self.workspace, "u": self.state.user, "s": self.state.encode()}
        if self.moved_from is not None:
            fields["b"] = self.moved_from.encode()
        if self.left:
            fields["l"] = 1
        return fields

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent, or that the log holds."""
        user, before = UserId(fields["u"]), fields.get("b")
        return cls(
            WorkspaceId(fields["w"]),
            voice_state_from(user, fields["s"]),
            voice_state_from(user, before) if before is not None else None,
            left="l" in fields,
        )

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return an entry that holds the event itself."""
        return WholeEvent(cls.from_wire(fields))


def voice_object(channel: ConversationId, user: UserId) -> str:
    """Return the name of a user in a voice channel, in the list of objects that have changed."""
    return f"{VOICE_OBJECT_PREFIX}{channel} {user}"


def parse_voice_object(name: str) -> tuple[ConversationId, UserId] | None:
    """Return the channel and the user in the name of an object; None for another object."""
    if not name.startswith(VOICE_OBJECT_PREFIX):
        return None
    channel, _, user = name.removeprefix(VOICE_OBJECT_PREFIX).partition(" ")
    return ConversationId(channel), UserId(user)

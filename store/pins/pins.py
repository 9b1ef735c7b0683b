"""Pins as records, and the notes of their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from store.base.ids import ConversationId, MessageId, UserId
from store.base.workspace_ids import WorkspaceId
from store.conversations.conversation_fields import ConversationField, PinField, PinNoteField

MOST_PINS = 250
"""Pinned messages in one conversation."""


class Pin(NamedTuple):
    """A pinned message. `number`: a later pin in the same conversation has a higher one."""

    seq: int
    number: int


class Pins(NamedTuple):
    """The pinned messages of a conversation, the latest pin first. `version`: number of changes so far."""

    version: int
    items: tuple[Pin, ...]


class PinNote(NamedTuple):
    """A change of the pins of a conversation, as long as it is not announced.

    Attributes:
        number: Number of the change. No two changes in a conversation have the same one.
        seq: seq of the message that was pinned or unpinned.
        at_ms: Time of the change.
        announcement: Id of the SYSTEM message that announces a pin; None: the message was unpinned.
        actor: The user who pinned it, and who sends the SYSTEM message.
    """

    number: int
    seq: int
    at_ms: int
    announcement: MessageId | None = None
    actor: UserId | None = None

    def to_stored(self) -> dict[str, Any]:
        """Return the stored form, without the number, which the write itself gives."""
        fields: dict[str, Any] = {PinNoteField.SEQ: self.seq, PinNoteField.AT: self.at_ms}
        if self.announcement is not None:
            fields |= {PinNoteField.ANNOUNCEMENT: str(self.announcement), PinNoteField.ACTOR: self.actor}
        return fields


@dataclass(frozen=True, slots=True)
class PinGuard:
    """The policy of a workspace, or the version of a group, that must not change before the pins do.

    version: The policy version, or the version of the group.
    """

    workspace: WorkspaceId | None = None
    group: ConversationId | None = None
    version: int = 0


def pins_from(row: Mapping[str, Any]) -> Pins:
    """Return the pins in a document of `conversations`."""
    stored = row.get(ConversationField.PINS, ())
    items = tuple(Pin(pin[PinField.SEQ], pin[PinField.NUMBER]) for pin in reversed(stored))
    return Pins(row.get(ConversationField.PIN_VERSION, 0), items)


def notes_from(row: Mapping[str, Any]) -> list[PinNote]:
    """Return the notes in a document of `conversations`, oldest first."""
    stored: Iterable[Mapping[str, Any]] = row.get(ConversationField.PIN_NOTES, ())
    return [_note_from(note) for note in stored]


def _note_from(note: Mapping[str, Any]) -> PinNote:
    announcement, actor = note.get(PinNoteField.ANNOUNCEMENT), note.get(PinNoteField.ACTOR)
    return PinNote(
        number=note[PinNoteField.NUMBER],
        seq=note[PinNoteField.SEQ],
        at_ms=note[PinNoteField.AT],
        announcement=MessageId(int(announcement)) if announcement is not None else None,
        actor=UserId(actor) if actor is not None else None,
    )

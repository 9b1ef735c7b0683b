"""System events: what SYSTEM messages announce. Clients can write their text in the reader's language."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from store.base.ids import UserId


class SystemEventKind(StrEnum):
    """The contract's SystemEventKind, with its stored values."""

    MEMBERS_JOINED = "J"
    MEMBER_LEFT = "L"
    MEMBER_REMOVED = "R"
    OWNER_CHANGED = "O"
    RENAMED = "N"
    TOPIC_CHANGED = "T"
    MESSAGE_PINNED = "P"
    CHANNEL_ARCHIVED = "A"
    CHANNEL_UNARCHIVED = "U"
    CUSTOM = "C"


class SystemEvent(NamedTuple):
    """An event, stored with its message. The message's sender is the actor, its mentions are the targets.

    `text`: for RENAMED the new name. The text of CUSTOM is that of the message.
    """

    kind: SystemEventKind
    text: str | None = None

    def to_stored(self) -> list[str]:
        """Return the stored form: the kind, and the text if there is one."""
        return [self.kind.value] if self.text is None else [self.kind.value, self.text]


CUSTOM = SystemEvent(SystemEventKind.CUSTOM)


_KINDS = {kind.value: kind for kind in SystemEventKind}


def event_from(stored: Sequence[str]) -> SystemEvent:
    """Return the event that has this stored form; CUSTOM for a kind that only later versions of Confab know."""
    kind = _KINDS.get(stored[0])
    return SystemEvent(kind, *stored[1:]) if kind is not None else CUSTOM


def infer_event(sender: UserId, mentions: Sequence[UserId]) -> SystemEvent:
    """Return the event of a message that was stored without one.

    Its mentions show that one member left, or that several joined. For other messages the event is CUSTOM.
    """
    if list(mentions) == [sender]:
        return SystemEvent(SystemEventKind.MEMBER_LEFT)
    return SystemEvent(SystemEventKind.MEMBERS_JOINED) if len(mentions) > 1 else CUSTOM

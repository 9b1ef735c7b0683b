"""The events of a user who is typing."""

from __future__ import annotations

from dataclasses import dataclass

from subscriptions.realtime.events.base import EphemeralEvent


@dataclass(frozen=True, slots=True)
class TypingStarted(EphemeralEvent):
    """A user is typing in a conversation."""

    frame = "typing"


@dataclass(frozen=True, slots=True)
class TypingStopped(EphemeralEvent):
    """A user has stopped typing in a conversation."""

    frame = "typing_stopped"

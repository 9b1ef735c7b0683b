"""Compares the reactions that a device received with those of the model: the last event always shows the last state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tests.invariants.machine.reading import plain_reactions
from tests.invariants.model.conversation import Json
from tests.invariants.model.sessions import SessionModel

Place = tuple[str, int]


class _Before(NamedTuple):
    """A message's reactions when a device began to listen, and the beginning of its user's membership."""

    reactions: list[Json]
    member_since: int


class ReceivedReactions:
    """The newest ReactionsChanged of each message that one device received since it last agreed with the model."""

    def __init__(self, user: str, ids: Mapping[Place, str]) -> None:
        self._user = user
        self._ids = ids
        self._received: dict[str, list[Json]] = {}
        self._before: dict[Place, _Before] = {}

    def begin(self, model: SessionModel) -> None:
        """Note the reactions that the user sees."""
        self._received.clear()
        self._before = {place: seen for place in self._ids if (seen := self._seen(model, place)) is not None}

    def note(self, event: Json) -> None:
        """Note an event."""
        self._received[event["messageId"]] = plain_reactions(event["reactions"])

    def wrong(self, model: SessionModel, changed_groups: Collection[str], only: str | None) -> str:
        """Return the difference between the newest events and the model as text.

        changed_groups: where the visibility of the history may have changed. only: one conversation; None: all.
        """
        for place, message in self._ids.items():
            seen = self._seen(model, place)
            if seen is None or only not in (None, place[0]):
                continue
            got, before = self._received.get(message), self._before.get(place)
            if got is not None and got != seen.reactions:
                return f"{place}: expected reactions {seen.reactions}, last told {got}"
            stayed = before is not None and before.member_since == seen.member_since and place[0] not in changed_groups
            if got is None and stayed and before.reactions != seen.reactions:
                return f"{place}: not told that {before.reactions} became {seen.reactions}"
        return ""

    def _seen(self, model: SessionModel, place: Place) -> _Before | None:
        name, seq = place
        conversation = model.conversations.get(name)
        if conversation is None or self._user not in conversation.members or not conversation.may_read(self._user, seq):
            return None
        sent = conversation.messages[seq - 1]
        if sent.recalled:
            return None
        return _Before(sent.reactions_for(self._user), conversation.intervals[self._user][-1][0])

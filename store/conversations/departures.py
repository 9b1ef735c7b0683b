"""Groups as former members see them: as they were when the member left.

The SYSTEM message that announces a departure stores the state of the group, in the same write. It has the seq after the
last one of the former member's interval, so a membership leads to it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from store.base.ids import ConversationId
from store.conversations.conversation import Head, Member
from store.conversations.group_info import GroupState, group_state_from
from store.messages.message_fields import MessageField
from store.mongo.client import Mongo
from store.mongo.collections import MESSAGES, at_place

_MAX_STATES = 1_000
"""States that a process keeps. Most take some hundred bytes, the largest 12 KiB."""

_Place = tuple[ConversationId, int]

_PROJECTION = {MessageField.CONVERSATION: 1, MessageField.SEQ: 1, MessageField.GROUP_STATE: 1}


class Departures:
    """The states of groups at departures. They never change, so a process reads each once."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._states: dict[_Place, GroupState | None] = {}

    async def show_to_former_members(self, found: dict[ConversationId, tuple[Head, Member | None]]) -> None:
        """Replace the groups that a user has left, and the user's memberships of groups that have ended.

        A former member sees the group as it was after the departure. Earlier versions of Confab stored no state of the
        group: then the present group is shown. One round trip to MongoDB if this process does not know a state.

        Args:
            found: Conversations as they are at present, groups with the user's stored membership.
        """
        places: list[_Place] = []
        for conversation, (head, member) in found.items():
            if member is None:
                continue
            last = member.intervals[-1][1]
            if last is not None:
                places.append((conversation, last + 1))
            elif head.ended_at is not None:
                found[conversation] = head, member.ended_at(head.ended_at)
        states = await self._find(places) if places else {}
        for place, state in states.items():
            if state is not None:
                head, member = found[place[0]]
                found[place[0]] = head.at(state), member

    async def _find(self, places: Collection[_Place]) -> dict[_Place, GroupState | None]:
        states = {place: self._states[place] for place in places if place in self._states}
        missing = [place for place in places if place not in states]
        if missing:
            query = {"$or": [at_place(*place) for place in missing]}
            # A message that is not found is not durable yet. No other change of its group has been made since.
            for row in await self._mongo.find(MESSAGES, query, projection=_PROJECTION):
                place = ConversationId(row[MessageField.CONVERSATION]), row[MessageField.SEQ]
                states[place] = self._remember(place, row)
        return states

    def _remember(self, place: _Place, row: dict[str, Any]) -> GroupState | None:
        """Keep the state of a message, None if it has none. If there are too many, the first one is dropped."""
        fields = row.get(MessageField.GROUP_STATE)
        state = group_state_from(fields) if fields is not None else None
        if len(self._states) >= _MAX_STATES:
            self._states.pop(next(iter(self._states)))
        self._states[place] = state
        return state

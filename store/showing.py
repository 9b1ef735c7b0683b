"""What users' states answered to a message that was shown to them (`SessionStore.messages`).

Nearly all whom a message reaches have nothing to tell but where it came on their clock, and most of them not even that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from store.ids import ConversationId, UserId
from store.session_rows import Tick
from store.sessions import Applied, applied

Place = tuple[UserId, str, int, int]
"""A user, and an event's place in the user's chain: epoch, tick, tick before."""

_NOTHING: tuple[Any, ...] = (1, [b"cold"])
"""Done, and nobody listens; not in use."""


@dataclass(slots=True)
class Shown:
    """What became of a message at some users.

    `places`: of those whose states it changed, by the servers that hold their connections. `ticks`: where they are not the
    message's own time. `others`: of whom there is more to know.
    """

    places: dict[str, list[Place]] = field(default_factory=dict)
    ticks: list[Tick] = field(default_factory=list)
    others: list[tuple[UserId, Applied]] = field(default_factory=list)

    def place(self, server: str, place: Place) -> None:
        """A server that is to be told."""
        here = self.places.get(server)
        if here is None:
            self.places[server] = [place]
        else:
            here.append(place)


def shown(conversation: ConversationId, at_ms: int, users: Sequence[UserId], answers: Sequence[Any]) -> Shown:
    """What the calls answered that showed a message of that time."""
    result = Shown()
    names: dict[bytes, str] = {}
    for user, answer in zip(users, answers, strict=True):
        if answer in _NOTHING:
            continue
        if answer[0] != b"told":
            result.others.append((user, applied(user, answer)))
            continue
        place = (user, answer[1].decode(), answer[2], answer[3])
        for route in answer[4:]:
            name = names.get(route)
            if name is None:
                name = names[route] = route.decode()
            result.place(name, place)
        if answer[2] != at_ms:
            result.ticks.append(Tick(user, conversation, answer[2]))
    return result

"""Messages as they are shown to users' states: the calls, as few as there can be, and what they answer.

Messages that are shown at the same time go to a user in one call, which costs little more than for one of them. Nearly all whom a
message reaches have nothing to tell but where it came on their clock, and most of them not even that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from store.base.ids import ConversationId, UserId
from store.redis.cache import Call
from store.redis.keys import Keys
from store.sessions.apply_results import ApplyResult, parse_result, parse_results
from store.sessions.session_rows import Tick

MessageKind = Literal["own", "mention"]
"""What a message that counts is to a user: their own, or one that mentions them."""

Place = tuple[UserId, str, int, int]
"""A user, and an event's place in the user's chain: epoch, tick, tick before."""

_NOTHING: tuple[Any, ...] = (1, [b"cold"])
"""Done, and nobody listens; not in use."""


@dataclass(frozen=True, slots=True)
class MessageDelta:
    """A message, and to whom it is to be shown. `kinds`: to whom it is more than a message of others. `event`: its entry in
    their logs."""

    conversation: ConversationId
    seq: int
    n: int
    countable: bool
    at_ms: int
    event: str
    users: Sequence[UserId]
    kinds: Mapping[UserId, MessageKind]

    @property
    def text(self) -> str:
        """As `_changes.lua` reads it."""
        return f"{self.conversation} {self.seq} {self.n} {int(self.countable)} {self.at_ms} {self.event}"


@dataclass(slots=True)
class FanoutResult:
    """What became of a message.

    `places`: of those whose states it changed, by the servers that hold their connections. `ticks`: where they are not the
    message's own time. `others`: of whom there is more to know.
    """

    places: dict[str, list[Place]] = field(default_factory=dict)
    ticks: list[Tick] = field(default_factory=list)
    others: list[tuple[UserId, ApplyResult]] = field(default_factory=list)

    def place(self, server: str, place: Place) -> None:
        """A server that is to be told."""
        here = self.places.get(server)
        if here is None:
            self.places[server] = [place]
        else:
            here.append(place)


class ApplyMessages:
    """Shows messages of one conversation, in the order of their seqs."""

    def __init__(self, keys: Keys, now_ms: int, shows: Sequence[MessageDelta]) -> None:
        self._keys = keys
        self._shows = shows
        self._asked: list[tuple[UserId, tuple[int, ...]]] = []
        self._now_ms = max([now_ms, *(show.at_ms for show in shows)])
        self._names: dict[bytes, str] = {}

    @property
    def size(self) -> int:
        """How many calls there are."""
        return len(self._asked)

    def calls(self) -> list[Call]:
        """The calls, to be made in this order. `read` reads what they answer."""
        self._asked, apart = [], set().union(*(show.kinds for show in self._shows))
        together: dict[UserId, tuple[int, ...]] = {}
        for number, show in enumerate(self._shows):
            for user in show.users:
                if user in apart:
                    self._asked.append((user, (number,)))
                else:
                    together[user] = (*together.get(user, ()), number)
        plain: dict[tuple[int, ...], tuple[Any, ...]] = {}
        texts = [show.text for show in self._shows]
        calls = []
        for user, (number,) in self._asked:
            kind = self._shows[number].kinds.get(user, "message")
            calls.append(Call("apply", self._keys.user(user), (self._now_ms, "", kind, texts[number])))
        for user, numbers in together.items():
            args = plain.get(numbers)
            if args is None:
                each = [part for number in numbers for part in ("message", texts[number])]
                args = plain[numbers] = (self._now_ms, "", *each)
            calls.append(Call("apply", self._keys.user(user), args))
        self._asked += together.items()
        return calls

    def read(self, answers: Sequence[Any]) -> list[FanoutResult]:
        """What became of each message."""
        results = [FanoutResult() for _ in self._shows]
        for (user, numbers), answer in zip(self._asked, answers, strict=True):
            if answer in _NOTHING:
                continue
            if answer[0] == b"routed":
                self._read_told(results, user, numbers, answer)
            elif answer[0] == b"ok":
                for number, outcome in zip(numbers, parse_results(user, answer), strict=True):
                    results[number].others.append((user, outcome))
            else:
                for number in numbers:
                    results[number].others.append((user, parse_result(user, answer)))
        return results

    def _read_told(
        self, results: Sequence[FanoutResult], user: UserId, numbers: Sequence[int], answer: Sequence[Any]
    ) -> None:
        epoch, previous, routes_at = answer[1].decode(), answer[2], 3 + len(numbers)
        for number, tick in zip(numbers, answer[3:routes_at], strict=True):
            result, show = results[number], self._shows[number]
            for route in answer[routes_at:]:
                name = self._names.get(route)
                if name is None:
                    name = self._names[route] = route.decode()
                result.place(name, (user, epoch, tick, previous))
            if tick != show.at_ms:
                result.ticks.append(Tick(user, show.conversation, tick))
            previous = tick

"""Applies messages to users' cached states with as few calls as possible, and parses the answers.

Messages that are applied at the same time reach a user in one call, which costs little more than one message. For
nearly all recipients the answer is only the event's position in their chain, and for most of these it is empty.
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

MessageRelation = Literal["own", "mention"]
"""Relation of a countable message to a user: their own, or one that mentions them."""

EventRecipient = tuple[UserId, str, int, int]
"""A user, and the event's position in that user's chain: epoch, tick, tick before."""

_NOTHING_TO_PUBLISH: tuple[Any, ...] = (1, [b"not_cached"])
"""Answers of users without connections: applied, with the message's time as the tick; not cached."""


@dataclass(frozen=True, slots=True)
class MessageDelta:
    """A message and the users whose sessions it changes.

    Attributes:
        entry: Its entry in the users' logs.
        relations: Its relation to its sender and to the users it mentions; all others are absent.
    """

    conversation: ConversationId
    seq: int
    n: int
    countable: bool
    at_ms: int
    entry: str
    users: Sequence[UserId]
    relations: Mapping[UserId, MessageRelation]

    @property
    def text(self) -> str:
        """The form that scripts parse: see MESSAGE_PATTERN in `script_constants.py`."""
        return f"{self.conversation} {self.seq} {self.n} {int(self.countable)} {self.at_ms} {self.entry}"


@dataclass(slots=True)
class FanoutResult:
    """The effect of a message.

    Attributes:
        recipients: Users with connections, by the servers that hold these.
        ticks: The ticks that differ from the message's time.
        others: Full results, for users whose answer has more than a position.
    """

    recipients: dict[str, list[EventRecipient]] = field(default_factory=dict)
    ticks: list[Tick] = field(default_factory=list)
    others: list[tuple[UserId, ApplyResult]] = field(default_factory=list)

    def add_recipient(self, server: str, recipient: EventRecipient) -> None:
        """Add a recipient that a server delivers to."""
        recipients = self.recipients.get(server)
        if recipients is None:
            self.recipients[server] = [recipient]
        else:
            recipients.append(recipient)


class MessageApplier:
    """Applies messages of one conversation, in the order of their seqs."""

    def __init__(self, keys: Keys, now_ms: int, deltas: Sequence[MessageDelta]) -> None:
        self._keys = keys
        self._deltas = deltas
        self._called: list[tuple[UserId, tuple[int, ...]]] = []
        """For each call its user, and the indexes of its messages."""
        self._now_ms = max([now_ms, *(delta.at_ms for delta in deltas)])
        self._servers: dict[bytes, str] = {}

    @property
    def size(self) -> int:
        """Number of calls."""
        return len(self._called)

    def calls(self) -> list[Call]:
        """Return the calls, to be made in this order. `read` parses their answers."""
        separate_users = set().union(*(delta.relations for delta in self._deltas))
        self._called = []
        shared: dict[UserId, tuple[int, ...]] = {}
        for number, delta in enumerate(self._deltas):
            for user in delta.users:
                if user in separate_users:
                    self._called.append((user, (number,)))
                else:
                    shared[user] = (*shared.get(user, ()), number)
        texts = [delta.text for delta in self._deltas]
        calls = []
        for user, (number,) in self._called:
            kind = self._deltas[number].relations.get(user, "message")
            calls.append(Call("apply", self._keys.user(user), (self._now_ms, "", kind, texts[number])))
        args_by_messages: dict[tuple[int, ...], tuple[Any, ...]] = {}
        for user, numbers in shared.items():
            args = args_by_messages.get(numbers)
            if args is None:
                changes = [part for number in numbers for part in ("message", texts[number])]
                args = args_by_messages[numbers] = (self._now_ms, "", *changes)
            calls.append(Call("apply", self._keys.user(user), args))
        self._called += shared.items()
        return calls

    def read(self, answers: Sequence[Any]) -> list[FanoutResult]:
        """Return the effect of each message."""
        results = [FanoutResult() for _ in self._deltas]
        for (user, numbers), answer in zip(self._called, answers, strict=True):
            if answer in _NOTHING_TO_PUBLISH:
                continue
            if answer[0] == b"routed":
                self._read_routed(results, user, numbers, answer)
            elif answer[0] == b"ok":
                for number, result in zip(numbers, parse_results(user, answer), strict=True):
                    results[number].others.append((user, result))
            else:
                for number in numbers:
                    results[number].others.append((user, parse_result(user, answer)))
        return results

    def _read_routed(
        self, results: Sequence[FanoutResult], user: UserId, numbers: Sequence[int], answer: Sequence[Any]
    ) -> None:
        epoch, previous, routes_at = answer[1].decode(), answer[2], 3 + len(numbers)
        for number, tick in zip(numbers, answer[3:routes_at], strict=True):
            result, delta = results[number], self._deltas[number]
            for route in answer[routes_at:]:
                server = self._servers.get(route)
                if server is None:
                    server = self._servers[route] = route.decode()
                result.add_recipient(server, (user, epoch, tick, previous))
            if tick != delta.at_ms:
                result.ticks.append(Tick(user, delta.conversation, tick))
            previous = tick

"""Applies messages and other changes to the cached states of many users, in few calls of the script `fan_out`.

For nearly all recipients the answer is only the event's position in their chain, and for most of these it is empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from store.base.ids import ConversationId, UserId, encode_user
from store.redis.cache import Cache, Call
from store.sessions.apply_results import ApplyResult, event_result, parse_outcome, parse_own_message, parse_results
from store.sessions.changes import EventOnly, LoggedChange
from store.sessions.script_constants import ELSEWHERE
from store.sessions.session_rows import Tick

MessageRelation = Literal["own", "mention"]
"""Relation of a countable message to a user: their own, or one that mentions them."""

EventRecipient = tuple[UserId, str, int, int]
"""A user, and the event's position in that user's chain: epoch, tick, tick before."""

Run = Callable[[Sequence[Call]], Awaitable[list[Any]]]
"""Makes calls in one round trip: `Cache.run`, `Cache.attempt`, or one of their forms for the background."""

_COST_PER_CALL = 200
"""Largest cost of one call, in appended messages. Redis executes nothing else meanwhile: 2 to 3 ms."""

_COST = {"message": 1, "mention": 1, "own": 2, EventOnly.kind: 1}
_LARGEST_COST = 4
"""Cost of a change that is not appended."""


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
    """The effect of a change on its users.

    Attributes:
        recipients: Users with connections, by the servers that hold these.
        ticks: The ticks that differ from the message's time.
        others: Full results, for users whose answer has more than a position.
    """

    recipients: dict[str, list[EventRecipient]] = field(default_factory=dict)
    ticks: list[Tick] = field(default_factory=list)
    others: list[tuple[UserId, ApplyResult]] = field(default_factory=list)

    def recipients_on(self, server: str) -> list[EventRecipient]:
        """Return the list of the recipients that a server delivers to, to add to it."""
        recipients = self.recipients.get(server)
        if recipients is None:
            recipients = self.recipients[server] = []
        return recipients


@dataclass(frozen=True, slots=True)
class _Change:
    """A change in the form that the script takes, and where its effect is collected."""

    kind: str
    text: str | bytes
    conversation: ConversationId | None
    at_ms: int
    result: FanoutResult

    @property
    def cost(self) -> int:
        return _COST.get(self.kind, _LARGEST_COST)


_SUB_BIZ_LENGTH = 2
"""Length of the outcome of a message in a subBiz: ticks of the session and of the event."""

_Group = tuple[tuple[int, ...], list[UserId]]
"""The numbers of changes, and the users who get exactly these."""


class FanoutCalls:
    """Changes of many users' cached states. Each user gets theirs in the order in which they were added."""

    def __init__(self, cache: Cache, now_ms: int) -> None:
        self._cache = cache
        self._now_ms = now_ms
        self._changes: list[_Change] = []
        self._numbers: dict[UserId, tuple[int, ...]] = {}
        """The numbers of each user's changes."""
        self.unreached: list[UserId] = []
        """Users whose shard of Redis did not answer, if the argument of `run` returns exceptions for them."""

    def add_change(self, change: LoggedChange, users: Sequence[UserId]) -> FanoutResult:
        """Add a change that is not a message. Returns its effect, which is filled in by `run`."""
        result = FanoutResult()
        self._add(_Change(change.kind, change.text, None, change.at, result), users)
        return result

    def add_message(self, delta: MessageDelta) -> FanoutResult:
        """Add a message. Returns its effect, which is filled in by `run`."""
        result, text = FanoutResult(), delta.text
        by_kind: dict[str, list[UserId]] = {}
        for user in delta.users:
            by_kind.setdefault(delta.relations.get(user, "message"), []).append(user)
        for kind, users in by_kind.items():
            self._add(_Change(kind, text, delta.conversation, delta.at_ms, result), users)
        return result

    async def run(self, run: Run, first: Sequence[Call] = ()) -> list[Any]:
        """Apply everything: one round trip, and a second one if a slot of a cluster is moving.

        Args:
            run: Makes the calls. Users of calls for which it returns exceptions become `unreached`.
            first: Calls to be made in the same round trip, before the others.

        Returns:
            What `run` returned for the first calls.

        Raises:
            Unreachable: Some of the changes may have been applied.
        """
        calls = list(self._make_calls())
        answers = await run([*first, *(call for call, _ in calls)])
        elsewhere: list[tuple[UserId, tuple[int, ...]]] = []
        for (_, groups), answer in zip(calls, answers[len(first) :], strict=True):
            if isinstance(answer, Exception):
                self.unreached += [user for _, users in groups for user in users]
            else:
                elsewhere += self._read(groups, answer)
        if elsewhere:
            repeated = await run([self._own_call(user, numbers) for user, numbers in elsewhere])
            for (user, numbers), answer in zip(elsewhere, repeated, strict=True):
                if isinstance(answer, Exception):
                    self.unreached.append(user)
                    continue
                results = parse_results(user, answer)
                for number, result in zip(numbers, results, strict=len(results) > 1):
                    self._changes[number].result.others.append((user, result))
        return answers[: len(first)]

    def _add(self, change: _Change, users: Sequence[UserId]) -> None:
        number, numbers = len(self._changes), self._numbers
        self._changes.append(change)
        self._now_ms = max(self._now_ms, change.at_ms)
        for user in users:
            numbers[user] = (*numbers[user], number) if user in numbers else (number,)

    def _make_calls(self) -> Iterator[tuple[Call, list[_Group]]]:
        """Yield calls, to be made in this order, each with its groups of users.

        The users of a call are on one node of a cluster, as far as is known, and their keys have one generation: the
        script derives their names from one of them.
        """
        groups: defaultdict[tuple[str, tuple[int, ...]], list[UserId]] = defaultdict(list)
        owner, user_key, is_cluster = self._cache.owner, self._cache.keys.user, self._cache.is_cluster
        for user, numbers in self._numbers.items():
            place = ""
            if is_cluster:
                key = user_key(user)[0]
                place = f"{owner(key)} {key[: key.index('{')]}"
            groups[place, numbers].append(user)
        by_node: defaultdict[str, list[_Group]] = defaultdict(list)
        for (node, numbers), users in groups.items():
            by_node[node] += self._split(numbers, users)
        for of_node in by_node.values():
            part: list[_Group] = []
            cost = 0
            for numbers, users in of_node:
                added = self._cost(numbers) * len(users)
                if part and cost + added > _COST_PER_CALL:
                    yield self._call(part), part
                    part, cost = [], 0
                part.append((numbers, users))
                cost += added
            if part:
                yield self._call(part), part

    def _split(self, numbers: tuple[int, ...], users: list[UserId]) -> Iterator[_Group]:
        """Yield parts of a group, each of which fits into a call: by users, or by changes if a user has that many."""
        cost = self._cost(numbers)
        if cost <= _COST_PER_CALL:
            step = _COST_PER_CALL // cost
            for i in range(0, len(users), step):
                yield numbers, users[i : i + step]
            return
        step = _COST_PER_CALL // max([self._changes[number].cost for number in numbers])
        for user in users:
            for i in range(0, len(numbers), step):
                yield numbers[i : i + step], [user]

    def _cost(self, numbers: tuple[int, ...]) -> int:
        return sum([self._changes[number].cost for number in numbers])

    def _call(self, groups: Sequence[_Group]) -> Call:
        local: dict[int, str] = {}
        for numbers, _ in groups:
            for number in numbers:
                local.setdefault(number, str(len(local) + 1))
        args: list[Any] = [self._now_ms, len(local)]
        for number in local:
            args += (self._changes[number].kind, self._changes[number].text)
        for numbers, users in groups:
            args += (" ".join([local[number] for number in numbers]), len(users), *map(encode_user, users))
        return Call("fan_out", self._cache.keys.user(groups[0][1][0]), tuple(args))

    def _own_call(self, user: UserId, numbers: tuple[int, ...]) -> Call:
        """Return the call for a user whose slot the script did not find, or not completely, on the node."""
        changes = [part for number in numbers for part in (self._changes[number].kind, self._changes[number].text)]
        return Call("apply", self._cache.keys.user(user), (self._now_ms, "", *changes))

    def _read(self, groups: Sequence[_Group], answer: Sequence[Any]) -> list[tuple[UserId, tuple[int, ...]]]:
        """Read the answer to one call. Returns the users who need a call of their own, with their changes."""
        elsewhere: list[tuple[UserId, tuple[int, ...]]] = []
        server_sets = [names.decode().split() for names in answer[0]]
        start = 1
        for numbers, users in groups:
            effects = [_Effect(self._changes[number], server_sets) for number in numbers]
            for user, found in zip(users, answer[start : start + len(users)], strict=True):
                if found.__class__ is int:
                    if found == ELSEWHERE:
                        elsewhere.append((user, numbers))
                    continue
                epoch, server_set, previous = found[0].decode(), found[1], found[2]
                for effect, outcome in zip(effects, found[3:], strict=True):
                    previous = effect.add(user, epoch, server_set, previous, outcome)
            start += len(users)
        return elsewhere


class _Effect:
    """Collects the effect of one change on one group of users."""

    __slots__ = ("_at_ms", "_change", "_is_event", "_recipients", "_result", "_server_sets")

    def __init__(self, change: _Change, server_sets: Sequence[Sequence[str]]) -> None:
        self._change = change
        self._result = change.result
        self._at_ms = change.at_ms
        self._is_event = change.kind == EventOnly.kind
        self._server_sets = server_sets
        self._recipients: dict[int, list[list[EventRecipient]]] = {}
        """For each set of servers, the lists to add a recipient to."""

    def add(self, user: UserId, epoch: str, server_set: int, previous: int, outcome: Any) -> int:
        """Add the outcome for a user (`fan_out.lua`). previous: tick before it. Returns the user's tick afterwards."""
        if outcome.__class__ is int:
            if self._is_event:
                result = event_result(epoch, self._server_sets[server_set], outcome, previous)
                self._result.others.append((user, result))
                return int(outcome)
            tick = moved_at = outcome
        elif len(outcome) == _SUB_BIZ_LENGTH:
            # The session is in a subBiz: it has a tick of its own, and the event has the gateway's.
            moved_at, tick = outcome
        else:
            servers = self._server_sets[server_set]
            if outcome[0].__class__ is int:
                assert self._change.conversation is not None
                result = parse_own_message(user, self._change.conversation, epoch, servers, previous, outcome)
            else:
                result = parse_outcome(user, epoch, servers, outcome)
            self._result.others.append((user, result))
            return result.tick
        if moved_at != self._at_ms:
            assert self._change.conversation is not None
            self._result.ticks.append(Tick(user, self._change.conversation, moved_at))
        recipients = self._recipients.get(server_set)
        if recipients is None:
            servers = self._server_sets[server_set]
            recipients = self._recipients[server_set] = [self._result.recipients_on(server) for server in servers]
        for on_server in recipients:
            on_server.append((user, epoch, tick, previous))
        return tick

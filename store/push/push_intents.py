"""Push intents: one record for each user and conversation, overwritten and never appended (ADR 87).

An intent says only that a decision is due. The decision uses the state of that moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import orjson

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.push.leased_queue import LeasedQueue, Settlement, TakenMember, settle_all
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

QUIET_INTERVAL_MS = 30_000
"""Shortest time between quiet pushes to a user. Those that are due together are sent together."""

_USERS_PER_CALL = 500


@dataclass(frozen=True, slots=True)
class PushIntent:
    """The record of a user in a conversation.

    Attributes:
        first: First seq to decide on; 0: nothing is to be decided.
        newest: Last seq to decide on.
        shown: Seq of the message that the devices show; 0: none.
        cool_until_ms: No further notification is shown before this time.
        touches: Number of events, such as reading, after which the shown notification may have to be removed.
        tried: `newest` at the last attempt to send, which `left` is about.
        left: Devices that the last push did not reach, each with the number of attempts.
    """

    first: int = 0
    newest: int = 0
    shown: int = 0
    cool_until_ms: int = 0
    touches: int = 0
    tried: int = 0
    left: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_pending(self) -> bool:
        """True if there is something to decide on."""
        return self.newest > 0

    @property
    def is_retry(self) -> bool:
        """True if the last push did not reach some devices, and no message came since."""
        return bool(self.left) and self.tried == self.newest

    def to_text(self) -> str:
        """Return the stored form. The scripts read all of it but `left`."""
        left = orjson.dumps(self.left).decode() if self.left else "-"
        numbers = (self.first, self.newest, self.shown, self.cool_until_ms, self.touches, self.tried)
        return " ".join((*map(str, numbers), left))


def intent_from(text: str) -> PushIntent:
    """Return the record of its stored form; of "" an empty one."""
    if not text:
        return PushIntent()
    *numbers, left = text.split(" ", 6)
    first, newest, shown, cool_until_ms, touches, tried = map(int, numbers)
    devices = {} if left == "-" else orjson.loads(left)
    return PushIntent(first, newest, shown, cool_until_ms, touches, tried, devices)


@dataclass(frozen=True, slots=True)
class TakenIntent:
    """An intent that a worker has taken."""

    user: UserId
    conversation: ConversationId
    taken: TakenMember
    intent: PushIntent


class SettledIntent(NamedTuple):
    """An intent after the decision on it.

    Attributes:
        taken: The intent as it was taken.
        after: Its record from now on; None: it is removed.
        due_ms: When it is due.
    """

    taken: TakenIntent
    after: PushIntent | None = None
    due_ms: int = 0


class PushIntents:
    """The queue of intents. All methods raise Unreachable, and are one round trip that no request waits for."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._queue = LeasedQueue(cache, keys, clock, "intents")

    async def put(self, messages: Iterable[tuple[ConversationId, int, int, Collection[UserId]]]) -> int:
        """Put new messages into the intents of users: conversation, first and last seq, users.

        Messages that were decided on already are left out. Returns the number of intents that wait for a decision.
        """
        calls = []
        for conversation, first, newest, users in messages:
            for part, inside in self._by_part(users).items():
                for start in range(0, len(inside), _USERS_PER_CALL):
                    some = inside[start : start + _USERS_PER_CALL]
                    calls.append(self._queue.call("push_put", part, conversation, first, newest, *some))
        return sum(await self._cache.run_in_background(calls)) if calls else 0

    async def touch(self, places: Iterable[tuple[UserId, ConversationId]], recalled: Sequence[int] = ()) -> int:
        """Make intents due whose notification is shown: it may have to be removed.

        Args:
            places: Users and conversations.
            recalled: Only notifications that show the message at one of these seqs; none: all.

        Returns:
            The number of intents that became due.
        """
        by_part: dict[int, list[str]] = {}
        for user, conversation in places:
            by_part.setdefault(self._queue.part_of(user), []).append(_member(user, conversation))
        seqs = ",".join(map(str, recalled))
        calls = [
            self._queue.call("push_touch", part, seqs, *members[start : start + _USERS_PER_CALL])
            for part, members in by_part.items()
            for start in range(0, len(members), _USERS_PER_CALL)
        ]
        return sum(await self._cache.run_in_background(calls)) if calls else 0

    async def take(self, limit: int) -> list[TakenIntent]:
        """Take intents that are due, at most `limit` of each part of the queue."""
        found = []
        for taken in await self._queue.take(limit):
            user, _, conversation = taken.name.partition(" ")
            intent = intent_from(taken.record)
            found.append(TakenIntent(UserId(user), ConversationId(conversation), taken, intent))
        return found

    async def settle(self, settled: Sequence[SettledIntent]) -> None:
        """Store intents after decisions. Messages that came meanwhile stay in them, and are decided on later."""
        settlements = [
            (each.taken.user, Settlement(each.taken.taken, each.after.to_text() if each.after else "", each.due_ms))
            for each in settled
        ]
        await settle_all(self._queue, settlements, self._merge)

    async def give_back(self, taken: Sequence[TakenIntent], pause_ms: int) -> None:
        """Make taken intents due again after a pause."""
        due_ms = self._clock.now_ms() + pause_ms
        await self._queue.settle(
            [(each.user, Settlement(each.taken, each.taken.record, due_ms)) for each in taken if each.taken.record]
        )

    async def claim_quiet(self, user: UserId) -> int:
        """Claim the right to send quiet pushes to a user. Returns 0, or the time (ms) until the next claim succeeds."""
        args = (self._clock.now_ms(), QUIET_INTERVAL_MS, user)
        key = self._keys.quiet_pushes(self._queue.part_of(user))
        waiting_ms: int = (await self._cache.run_in_background([Call("push_claim_quiet", (key,), args)]))[0]
        return waiting_ms

    async def measure(self) -> tuple[int, int]:
        """Return the number of intents that are due or worked on, and the time (ms) for which the oldest waits."""
        return await self._queue.measure()

    def _by_part(self, users: Iterable[UserId]) -> dict[int, list[UserId]]:
        found: dict[int, list[UserId]] = {}
        for user in users:
            found.setdefault(self._queue.part_of(user), []).append(user)
        return found

    def _merge(self, settled: Settlement, present: str) -> Settlement:
        """Return the settlement with the messages and touches that came meanwhile."""
        ours, theirs, before = intent_from(settled.after), intent_from(present), intent_from(settled.taken.record)
        merged, due_ms = ours, settled.due_ms or 0
        if theirs.newest > before.newest:
            first = ours.first or max(before.newest, ours.shown) + 1
            merged = replace(merged, first=min(first, theirs.newest), newest=theirs.newest)
            due_ms = max(self._clock.now_ms(), merged.cool_until_ms)
        if theirs.touches != before.touches and (ours.shown or theirs.shown):
            merged = replace(merged, touches=1)
            due_ms = self._clock.now_ms()
        text = merged.to_text() if merged.is_pending or merged.shown else ""
        return Settlement(TakenMember(settled.taken.name, present), text, due_ms)


def _member(user: UserId, conversation: ConversationId) -> str:
    return f"{user} {conversation}"

"""Queues in Redis whose members are leased to one worker at a time.

Each member has one record, which is overwritten. A member is due at a time, or taken until a time. If its worker dies,
it is due again when the lease ends. If Redis evicts the times, members with a record become due.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from store.base.clock import Clock
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

LEASE_MS = 30_000
"""Duration of a lease: for this time no other worker gets a taken member."""

_KEYS_IN_CLUSTER = 8
"""Number of parts of a queue in a cluster, so that its nodes share them. In a single Redis there is one."""


class TakenMember(NamedTuple):
    """A member that is leased to a worker. record: "" if Redis has lost it."""

    name: str
    record: str


class Settlement(NamedTuple):
    """The end of the work on a taken member.

    Attributes:
        taken: The member as it was taken.
        after: Its record from now on; "": it is removed.
        due_ms: When it is due; None: it stays taken, for another lease.
    """

    taken: TakenMember
    after: str = ""
    due_ms: int | None = None


Merge = Callable[[Settlement, str], Settlement]
"""Returns the settlement of a member whose record has changed since it was taken, given the present record."""

_ATTEMPTS = 10


class LeasedQueue:
    """One queue. Each async method is one round trip that no request waits for, and raises Unreachable."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock, name: str) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._name = name
        self._part_count = _KEYS_IN_CLUSTER if cache.is_cluster else 1

    def part_of(self, owner: str) -> int:
        """Return the part of the queue that has the members of an owner."""
        return zlib.crc32(owner.encode()) % self._part_count if self._part_count > 1 else 0

    def call(self, script: str, part: int, *args: object) -> Call:
        """Return the call of a script on one part of the queue, at the present time."""
        return Call(script, self._keys.push_queue(self._name, part), (self._clock.now_ms(), *args))

    async def take(self, limit: int) -> list[TakenMember]:
        """Take members that are due, at most `limit` of each part."""
        lease_until_ms = self._clock.now_ms() + LEASE_MS
        calls = [self.call("push_take", part, lease_until_ms, limit) for part in range(self._part_count)]
        return [
            TakenMember(answer[i].decode(), answer[i + 1].decode())
            for answer in await self._cache.run_in_background(calls)
            for i in range(0, len(answer), 2)
        ]

    async def settle(self, settlements: Sequence[tuple[str, Settlement]]) -> list[str | None]:
        """Settle members, each with its owner. A member whose record has changed since it was taken stays as it is.

        Returns None for each member that was settled, and the present record ("": none) for the others.
        """
        if not settlements:
            return []
        lease_until_ms = self._clock.now_ms() + LEASE_MS
        calls = [
            Call(
                "push_settle",
                self._keys.push_queue(self._name, self.part_of(owner)),
                (
                    settled.taken.name,
                    settled.taken.record,
                    settled.after,
                    "" if settled.due_ms is None else settled.due_ms,
                    lease_until_ms,
                ),
            )
            for owner, settled in settlements
        ]
        answers = await self._cache.run_in_background(calls)
        return [None if answer[0] else answer[1].decode() for answer in answers]

    async def measure(self) -> tuple[int, int]:
        """Return the number of members that are overdue or taken, and the time (ms) for which the oldest is overdue."""
        now_ms, calls = self._clock.now_ms(), list[Call]()
        for part in range(self._part_count):
            due, taken, _ = self._keys.push_queue(self._name, part)
            calls.append(Call("ZCOUNT", (due,), ("-inf", now_ms)))
            calls.append(Call("ZRANGE", (due,), (0, 0, "WITHSCORES")))
            calls.append(Call("ZCARD", (taken,)))
        answers = await self._cache.run_in_background(calls)
        oldest = [int(float(found[1])) for found in answers[1::3] if found]
        return sum(answers[::3]) + sum(answers[2::3]), max(0, now_ms - min(oldest, default=now_ms))


async def settle_all(queue: LeasedQueue, settlements: Sequence[tuple[str, Settlement]], merge: Merge) -> None:
    """Settle members. If a record has changed meanwhile, `merge` makes another settlement of it."""
    waiting = list(settlements)
    for _ in range(_ATTEMPTS):
        answers = await queue.settle(waiting)
        waiting = [
            (owner, merge(settled, present))
            for (owner, settled), present in zip(waiting, answers, strict=True)
            if present is not None
        ]
        if not waiting:
            return
    # The others are due again when their leases end.

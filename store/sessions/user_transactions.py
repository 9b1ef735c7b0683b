"""User transactions: the one way to change a user's sessions on their behalf.

Lock, decide, write the row, update the cached state, unlock (ADR 8). Publishing the event is left to the layer above,
since the bus is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from store.base.errors import Fenced
from store.base.ids import ConversationId, UserId
from store.mongo.client import Mongo
from store.mongo.writes import Write
from store.redis.cache import Cache, Call
from store.sessions.apply_results import NOT_CACHED, ApplyResult, parse_results
from store.sessions.changes import RowChange, logged_change
from store.sessions.session import Session
from store.sessions.session_rows import SessionRows
from store.sessions.session_store import SessionStore
from store.sessions.user_locks import UserLock, UserLocks

T = TypeVar("T")

_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed transaction: a result for each change, and the time (ms) of each session's change in MongoDB."""

    results: list[ApplyResult]
    times: dict[ConversationId, int]


class UserTransaction:
    """One attempt to change a user's sessions, under their lock."""

    def __init__(self, user: UserId, lock: UserLock, cache: Cache, rows: SessionRows, sessions: SessionStore) -> None:
        self.user = user
        self._lock = lock
        self._cache = cache
        self._rows = rows
        self._sessions = sessions

    @property
    def sessions(self) -> Mapping[ConversationId, Session]:
        """The requested sessions that exist, at the time when the lock was taken."""
        return self._lock.sessions

    @property
    def at(self) -> int:
        """Time of the first change, ms: later than anything on the user's clock."""
        return self._lock.at

    @property
    def answers(self) -> Sequence[Any]:
        """The answers to the calls that `run` was given, from the time when the lock was taken."""
        return self._lock.answers

    async def commit(self, changes: Sequence[tuple[RowChange, str]], other_writes: Sequence[Write] = ()) -> Committed:
        """Write changes to MongoDB, then apply them to the cached state and release the lock in one step.

        One awaited round trip each. Call it once, last.

        Args:
            changes: Each with its entry in the user's log. Each session takes the next tick.
            other_writes: Writes to MongoDB, made at the same time. They may be repeated.

        Raises:
            Fenced: The lock was lost. MongoDB may hold some of the changes.
            Unreachable: A database did not answer. MongoDB may hold some of the changes.
        """
        times: dict[ConversationId, int] = {}
        updates: dict[ConversationId, dict[str, Any]] = {}
        entries = []
        for change, event in changes:
            at = self.at + len(times)
            entries.append(logged_change(change, at, event))
            updates |= change.row_updates(at)
            for conversation in change.conversations:
                times[conversation] = self.at + len(times)
        with self._lock.changing():
            await self._rows.write(self.user, self._lock.fence, updates, other_writes)
            answer = await self._cache.one(self._sessions.apply_call(self.user, *entries, token=self._lock.token))
            if answer[0] == b"fenced":
                raise Fenced("the lock ended before the change was applied")
        results = parse_results(self.user, answer)
        return Committed(results if results != [NOT_CACHED] else [NOT_CACHED] * len(entries), times)


class UserTransactions:
    """Runs transactions on users' sessions."""

    def __init__(self, mongo: Mongo, cache: Cache, locks: UserLocks, rows: SessionRows, sessions: SessionStore) -> None:
        self._mongo = mongo
        self._cache = cache
        self._locks = locks
        self._rows = rows
        self._sessions = sessions

    async def run(
        self,
        user: UserId,
        conversations: Sequence[ConversationId],
        work: Callable[[UserTransaction], Awaitable[T]],
        reads: Sequence[Call] = (),
    ) -> T:
        """Run work on some of a user's sessions under their lock. Repeat it if the lock was lost meanwhile.

        reads: Calls that need no round trip of their own: `answers` of the transaction has their results.

        Raises LockTimeout, Unreachable, Fenced.
        """
        # If this failed later, the user's cached state would have to be dropped.
        self._mongo.require_primary()
        attempt = 1
        while True:
            try:
                async with self._locks.hold(user, conversations, reads=reads) as lock:
                    return await work(UserTransaction(user, lock, self._cache, self._rows, self._sessions))
            except Fenced:
                if attempt == _ATTEMPTS:
                    raise
                attempt += 1

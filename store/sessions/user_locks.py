"""The user's lock: orders changes to one user's sessions across devices and servers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from weakref import WeakValueDictionary

import structlog

from store.base.clock import Clock
from store.base.errors import LockTimeout, Refused, StoreError
from store.base.ids import ConversationId, UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.request_scope import discard_request_cache
from store.sessions.session import Session, session_from
from store.sessions.session_store import SessionStore

_log = structlog.get_logger()

LOCK_MS = 6_000
"""Time after which the lock of a holder that died expires."""

MAX_WAIT_SECONDS = 8.0
"""Longest time that a change waits for the lock."""

_MAX_WAIT_FOR_ALL_SECONDS = 2.0
"""Longest time that a change of several users waits for their locks: the first one must not expire meanwhile."""

_POLL_SECONDS = 1.0
"""Interval at which a waiter tries again: the frame that grants the lock may be lost, or the holder may be dead."""


class _State(Enum):
    UNCHANGED = "the holder has written nothing"
    CHANGING = "MongoDB may have newer data than the cached state"
    RELEASED = "the script that applied the change has released the lock"


@dataclass(slots=True)
class UserLock:
    """The lock while it is held, and the sessions at the time when it was taken.

    Attributes:
        fence: Grows with every holder: a write guarded by it is refused once a later holder has written.
        token: Proves to scripts that the lock is this holder's.
        at: Time of a change made now, ms: later than anything on the user's clock.
        sessions: The requested sessions that exist.
        answers: The answers to the calls that were made with it.
    """

    fence: int
    token: str
    at: int
    sessions: dict[ConversationId, Session]
    answers: Sequence[Any] = ()
    _state: _State = field(default=_State.UNCHANGED, init=False)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Surround a write to MongoDB and the script that applies it, which releases the lock in the same step.

        If the block fails, the cached state may be behind MongoDB: releasing the lock then drops it. After Refused,
        nothing was written.
        """
        self._state = _State.CHANGING
        try:
            yield
        except Refused:
            self._state = _State.UNCHANGED
            raise
        self._state = _State.RELEASED

    @property
    def is_changed(self) -> bool:
        """True if MongoDB may hold a change of this holder."""
        return self._state is not _State.UNCHANGED

    @property
    def is_cache_behind(self) -> bool:
        """True if the cached state may lack a change that MongoDB holds."""
        return self._state is _State.CHANGING

    @property
    def is_released(self) -> bool:
        """True once the lock was released together with a change."""
        return self._state is _State.RELEASED


class UserLocks:
    """Locks by user, handed on in the order of asking.

    Within a process waiters queue up; only the first of them is in the queue in Redis. The script that hands on the
    lock notifies the waiter's server.
    """

    def __init__(
        self,
        cache: Cache,
        keys: Keys,
        clock: Clock,
        sessions: SessionStore,
        server: str,
        invalidate_later: Callable[[UserId], None],
    ) -> None:
        """invalidate_later: called if a user's cached state may lack a change and cannot be invalidated now."""
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._sessions = sessions
        self._server = server
        self._invalidate_later = invalidate_later
        self._local: WeakValueDictionary[UserId, asyncio.Lock] = WeakValueDictionary()
        self._grants: dict[str, asyncio.Event] = {}

    def wake_waiter(self, owner: str) -> None:
        """Wake the waiter that has got a lock."""
        grant = self._grants.get(owner)
        if grant is not None:
            grant.set()

    @asynccontextmanager
    async def hold(
        self,
        user: UserId,
        conversations: Sequence[ConversationId],
        *,
        loads: bool = True,
        reads: Sequence[Call] = (),
    ) -> AsyncIterator[UserLock]:
        """Hold the user's lock for the time of the block. Raises LockTimeout, Unreachable.

        loads: Load the user's state if it is not cached. If false, `at` may be before the user's clock.
        reads: Calls made in the same round trip, right after the lock was taken.
        """
        deadline = asyncio.get_running_loop().time() + MAX_WAIT_SECONDS
        is_alone = user not in self._local
        local = self._local.setdefault(user, asyncio.Lock())
        if is_alone:
            # Nobody else has the new lock, so this needs no timer.
            await local.acquire()
        else:
            try:
                async with asyncio.timeout_at(deadline):
                    await local.acquire()
            except TimeoutError as error:
                raise _timeout(user) from error
        try:
            lock = await self._acquire(user, conversations, deadline, reads, loads=loads)
            try:
                yield lock
            finally:
                if not self._cache.is_shared:
                    discard_request_cache()
                    if lock.is_changed:
                        self._invalidate_later(user)
                elif not lock.is_released:
                    await asyncio.shield(self._release(user, lock.token, drop_state=lock.is_cache_behind))
        finally:
            local.release()

    @asynccontextmanager
    async def hold_all(self, users: Collection[UserId]) -> AsyncIterator[dict[UserId, UserLock]]:
        """Hold the locks of several users, for one change of sessions of them all. Raises LockTimeout, Unreachable.

        Locks are taken in the order of the ids, so that two callers never wait for each other. See `loads` of `hold`:
        states that are not cached are not loaded.
        """
        async with AsyncExitStack() as stack:
            locks: dict[UserId, UserLock] = {}
            try:
                async with asyncio.timeout(_MAX_WAIT_FOR_ALL_SECONDS if len(users) > 1 else None):
                    for user in sorted(set(users)):
                        locks[user] = await stack.enter_async_context(self.hold(user, (), loads=False))
            except TimeoutError as error:
                raise LockTimeout("these users are being changed by other requests") from error
            yield locks

    async def _acquire(
        self,
        user: UserId,
        conversations: Sequence[ConversationId],
        deadline: float,
        reads: Sequence[Call],
        *,
        loads: bool,
    ) -> UserLock:
        """Wait in the queue until the lock is ours."""
        owner = secrets.token_hex(8)
        loop = asyncio.get_running_loop()
        grant = self._grants[owner] = asyncio.Event()
        try:
            while True:
                args = (self._clock.now_ms(), owner, self._server, LOCK_MS, *conversations)
                answer, *answers = await self._cache.run([Call("lock", self._keys.user(user), args), *reads])
                if answer[0] == 1:
                    lock = await self._taken(user, conversations, owner, answer, loads=loads)
                    lock.answers = answers
                    return lock
                remaining = deadline - loop.time()
                if remaining <= 0:
                    raise _timeout(user)
                try:
                    async with asyncio.timeout(min(remaining, _POLL_SECONDS, answer[1] / 1000 + 0.005)):
                        await grant.wait()
                    grant.clear()
                except TimeoutError:
                    continue
        except BaseException:
            # Leave the queue, and release the lock if it is ours by now.
            await asyncio.shield(self._release(user, owner, drop_state=False))
            raise
        finally:
            del self._grants[owner]

    async def _taken(
        self, user: UserId, conversations: Sequence[ConversationId], owner: str, answer: Sequence[bytes], *, loads: bool
    ) -> UserLock:
        _, fence, epoch, clock, *records = answer
        if epoch or not loads:
            found = {c: session_from(user, c, text) for c, text in zip(conversations, records, strict=True) if text}
            tick = int(clock)
        else:
            snapshot = await self._sessions.find_many(user, conversations)
            found = {session.conversation: session for session in snapshot.sessions}
            tick = snapshot.clock
        at = max(self._clock.now_ms(), tick + 1)
        return UserLock(self._cache.fence(int(fence), at), f"{owner}:{int(fence)}", at, found)

    async def _release(self, user: UserId, token: str, *, drop_state: bool) -> None:
        args = (self._clock.now_ms(), token, self._server, int(drop_state))
        try:
            await self._cache.one(Call("unlock", self._keys.user(user), args))
        except StoreError as error:
            if drop_state:
                self._invalidate_later(user)
            # The lock expires, and after that the state is not used, unless another Redis has taken over by then.
            _log.warning("lock_release_failed", user=user, reason=str(error))


def _timeout(user: UserId) -> LockTimeout:
    return LockTimeout(f"{user} is being changed by many devices at once")

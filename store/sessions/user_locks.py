"""The user's lock: orders changes to one user's sessions across devices and servers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

import structlog

from store.base.clock import Clock
from store.base.errors import LockTimeout, StoreError
from store.base.ids import ConversationId, UserId
from store.deployment.stale_caches import StaleCaches
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.request_scope import discard_request_cache
from store.sessions.session import Session, session_from
from store.sessions.session_store import SessionStore

_log = structlog.get_logger()

HELD_MS = 6_000
"""How long the lock of a holder that died keeps others waiting."""

PATIENCE_SECONDS = 8.0
"""How long a change waits for its turn."""

_LOOK_SECONDS = 1.0
"""How often who waits in line asks again, for want of word: it may be lost, or the holder be dead."""


@dataclass(slots=True)
class UserLock:
    """The lock while it is ours, with the sessions that exist of those asked for as they were when it became so.

    `fence` grows with every holder: a write guarded by it is refused once a later holder wrote. A change made now is at
    `at`: later than anything on the user's clock. Whoever writes to MongoDB sets `in_doubt` before and, once the change is
    in the user's cached state, `given_back` (the script that applies it gives the lock back in the same step); left
    with doubt, the state is loaded anew.
    """

    fence: int
    token: str
    at: int
    sessions: dict[ConversationId, Session]
    in_doubt: bool = False
    given_back: bool = False


class UserLocks:
    """Locks by user, handed on in the order of asking. Within a process waiters queue up; only the first of them stands in
    line in Redis, and is told when it is its turn."""

    def __init__(
        self, cache: Cache, keys: Keys, clock: Clock, sessions: SessionStore, server: str, stale_caches: StaleCaches
    ) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._sessions = sessions
        self._server = server
        self._stale_caches = stale_caches
        self._local: WeakValueDictionary[UserId, asyncio.Lock] = WeakValueDictionary()
        self._turns: dict[str, asyncio.Event] = {}

    def granted(self, owner: str) -> None:
        """Word from whoever held the lock before: it is that owner's turn."""
        turn = self._turns.get(owner)
        if turn is not None:
            turn.set()

    @asynccontextmanager
    async def hold(self, user: UserId, conversations: Sequence[ConversationId]) -> AsyncIterator[UserLock]:
        """The user's lock for the time of the block. Raises LockTimeout, Unreachable."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        local = self._local.setdefault(user, asyncio.Lock())
        try:
            async with asyncio.timeout_at(deadline):
                await local.acquire()
        except TimeoutError as error:
            raise _timeout(user) from error
        try:
            held = await self._acquire(user, conversations, deadline)
            try:
                yield held
            finally:
                if not self._cache.is_shared:
                    discard_request_cache()
                    if held.in_doubt or held.given_back:
                        self._stale_caches.add_user(user)
                elif not held.given_back:
                    await asyncio.shield(self._leave(user, held.token, in_doubt=held.in_doubt))
        finally:
            local.release()

    async def _acquire(self, user: UserId, conversations: Sequence[ConversationId], deadline: float) -> UserLock:
        """Stands in line until it is our turn."""
        owner = secrets.token_hex(8)
        loop = asyncio.get_running_loop()
        turn = self._turns[owner] = asyncio.Event()
        try:
            while True:
                now = self._clock.now_ms()
                args = (now, owner, self._server, HELD_MS, *conversations)
                answer = await self._cache.one(Call("lock", self._keys.user(user), args))
                if answer[0] == 1:
                    return await self._held(user, conversations, owner, answer)
                left = deadline - loop.time()
                if left <= 0:
                    raise _timeout(user)
                try:
                    async with asyncio.timeout(min(left, _LOOK_SECONDS, answer[1] / 1000 + 0.005)):
                        await turn.wait()
                    turn.clear()
                except TimeoutError:
                    continue
        except BaseException:
            # Its place in line, or the lock if it is the owner's by now.
            await asyncio.shield(self._leave(user, owner, in_doubt=False))
            raise
        finally:
            del self._turns[owner]

    async def _held(
        self, user: UserId, conversations: Sequence[ConversationId], owner: str, answer: Sequence[bytes]
    ) -> UserLock:
        _, fence, epoch, clock, *records = answer
        token = f"{owner}:{int(fence)}"
        if epoch:
            found = {c: session_from(user, c, text) for c, text in zip(conversations, records, strict=True) if text}
            tick = int(clock)
        else:
            snapshot = await self._sessions.find_many(user, conversations)
            found = {session.conversation: session for session in snapshot.sessions}
            tick = snapshot.clock
        at = max(self._clock.now_ms(), tick + 1)
        return UserLock(self._cache.fence(int(fence), at), token, at, found)

    async def _leave(self, user: UserId, token: str, *, in_doubt: bool) -> None:
        args = (self._clock.now_ms(), token, self._server, int(in_doubt))
        try:
            await self._cache.one(Call("unlock", self._keys.user(user), args))
        except StoreError as error:
            if in_doubt:
                self._stale_caches.add_user(user)
            # The lock ends by itself, and with it the doubt, unless Redis is another one by then.
            _log.warning("a lock was not given back", user=user, reason=str(error))


def _timeout(user: UserId) -> LockTimeout:
    return LockTimeout(f"{user} is being changed by many devices at once")

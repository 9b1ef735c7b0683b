"""The user's lock: orders changes to one user's sessions across devices and servers."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from store.cache import Cache, Call
from store.clock import Clock
from store.errors import LockTimeout
from store.ids import ConversationId, UserId
from store.keys import Keys
from store.records import Session, session_from
from store.sessions import SessionStore

HELD_MS = 6_000
"""How long the lock of a holder that died keeps others waiting."""

_PATIENCE_SECONDS = 8.0
_LONGEST_PAUSE_SECONDS = 0.05


@dataclass(slots=True)
class Held:
    """The lock while it is ours, and the session as it was when it became so (None: the user has none).

    `fence` grows with every holder: a write guarded by it is refused once a later holder wrote. Handing `token` to the
    script that applies the change gives the lock back in the same step: `given_back` says so.
    """

    fence: int
    token: str
    session: Session | None
    given_back: bool = False


class UserLocks:
    """Locks by user. Within a process waiters queue up; only the first of them asks Redis."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock, sessions: SessionStore) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._sessions = sessions
        self._local: WeakValueDictionary[UserId, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, user: UserId, conversation: ConversationId) -> AsyncIterator[Held]:
        """The user's lock for the time of the block. Raises LockTimeout, Unreachable."""
        local = self._local.setdefault(user, asyncio.Lock())
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await local.acquire()
        except TimeoutError as error:
            raise LockTimeout(f"{user} is being changed by many devices at once") from error
        try:
            held = await self._acquire(user, conversation)
            try:
                yield held
            finally:
                if not held.given_back:
                    await self._cache.one(Call("unlock", self._keys.user(user), (held.token,)))
        finally:
            local.release()

    async def _acquire(self, user: UserId, conversation: ConversationId) -> Held:
        owner = secrets.token_hex(8)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_SECONDS
        pause = 0.002
        while True:
            args = (owner, HELD_MS, self._clock.now_ms(), conversation)
            answer = await self._cache.one(Call("lock", self._keys.user(user), args))
            if answer[0] == 1:
                fence = int(answer[1])
                token = f"{owner}:{fence}"
                if answer[2]:
                    text = answer[3]
                    return Held(fence, token, session_from(user, conversation, text) if text else None)
                try:
                    return Held(fence, token, await self._sessions.find(user, conversation))
                except BaseException:
                    await self._cache.one(Call("unlock", self._keys.user(user), (token,)))
                    raise
            if loop.time() > deadline:
                raise LockTimeout(f"{user} is being changed by many devices at once")
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

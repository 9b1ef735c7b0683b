"""Loads users' states, without channels, from MongoDB into Redis, and answers reads before Redis has them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Hashable
from typing import Any

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.base.request_user import SharedWork
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.single_flight import CLAIM_MS, retry_until_true
from store.sessions.loading.loaded_state import LoadedState
from store.sessions.session_rows import SessionRows, Tick

SESSIONS_PER_CALL = 250
"""Sessions that one call puts into Redis, which executes nothing else at the same time."""


class _Load:
    """A running load of one user's state.

    Attributes:
        task: Ends when Redis has the state.
        read: The state that MongoDB had, and the claim under which it was read; None if another process loads it.
    """

    def __init__(self) -> None:
        self.task: asyncio.Task[None]
        self.read: asyncio.Future[tuple[LoadedState, str] | None] = asyncio.get_running_loop().create_future()

    def start_again(self) -> None:
        """Note that the state was lost before Redis had it. It is read again."""
        if self.read.done():
            self.read = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Answer all that still wait for the state."""
        error = None if self.task.cancelled() else self.task.exception()
        if self.read.done():
            return
        if error is None:
            self.read.set_result(None)
        else:
            self.read.set_exception(error)
            # Nobody may be waiting for it.
            self.read.exception()


class StateLoader:
    """Loads each state once for all concurrent requests: of this process and, with a claim in Redis, of all others.

    Changes that are made during a load wait in Redis, and are applied at its end.
    """

    def __init__(self, rows: SessionRows, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._rows = rows
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._running: dict[Hashable, _Load] = {}

    async def load(self, user: UserId) -> None:
        """Make the user's state cached. Does nothing if it is. Cancelling a caller does not stop it for the others."""
        await asyncio.shield(self._join(user).task)

    def is_loading(self, user: UserId) -> bool:
        """Return whether this process is loading the user's state."""
        return (self._cache.request_prefix, user) in self._running

    async def read(self, user: UserId) -> LoadedState | None:
        """Load the user's state, and return it as soon as it is read from MongoDB; None: Redis has it now.

        Like the cached state it contains every change that was answered before. If Redis does not get it because the
        load fails afterwards, no other state will have its epoch.
        """
        load = self._join(user)
        found = await asyncio.shield(load.read)
        if found is not None:
            state, token = found
            if not state.is_outdated(self._clock.now_ms()) and await self._is_unchanged(user, token):
                return state
            await asyncio.shield(load.task)
        return None

    async def _is_unchanged(self, user: UserId, token: str) -> bool:
        """Return whether nothing was changed since a load took the claim.

        A change waits in Redis before it is answered. If nothing waits, the rows and the heads that MongoDB sent one
        after the other belong together.
        """
        key = self._keys.of_user(user, "loading")
        holder, waiting = await self._cache.one(Call("HMGET", (key,), ("token", "pending")))
        return bool(holder == token.encode() and not int(waiting or 0))

    def _join(self, user: UserId) -> _Load:
        """Return the running load of the user's state, which is started if there is none."""
        key = (self._cache.request_prefix, user)
        load = self._running.get(key)
        if load is None:
            load = self._running[key] = _Load()
            load.task = asyncio.create_task(self._run(user, load))
            load.task.add_done_callback(lambda _: self._end(key, load))
        return load

    def _end(self, key: Hashable, load: _Load) -> None:
        del self._running[key]
        load.end()

    async def _run(self, user: UserId, load: _Load) -> None:
        async def attempt() -> bool:
            is_loaded = await self._try_to_load(user, load)
            if not is_loaded:
                load.start_again()
            return is_loaded

        with SharedWork():
            await retry_until_true(attempt)

    async def _try_to_load(self, user: UserId, load: _Load) -> bool:
        """Return False if another process has the claim, or if this one lost it."""
        token = secrets.token_hex(8)
        answer = await self._call(user, "load_begin", token, CLAIM_MS)
        if answer in (b"loaded", b"busy"):
            return bool(answer == b"loaded")
        state = await self._rows.read(user)
        load.read.set_result((state, token))
        moved = await self._store(user, token, state)
        if moved == 0:
            return False
        await self._rows.keep_ticks(_ticks(user, moved))
        return True

    async def _store(self, user: UserId, token: str, state: LoadedState) -> Any:
        """Store a state and make it visible: one round trip if it has the usual size.

        Returns the answer of `load_finish`. If the claim was lost, the scripts do nothing.
        """
        last: list[Call] = []
        for part in state.parts(SESSIONS_PER_CALL):
            if last and not await self._cache.one(last[0]):
                return 0
            last = [self._make_call(user, "load_part", "loading", token, CLAIM_MS, *part)]
        finish = self._make_call(user, "load_finish", token, *state.totals)
        return (await self._cache.run([*last, finish]))[-1]

    async def _call(self, user: UserId, script: str, *args: Any) -> Any:
        return await self._cache.one(self._make_call(user, script, *args))

    def _make_call(self, user: UserId, script: str, *args: Any) -> Call:
        return Call(script, self._keys.user(user), (self._clock.now_ms(), *args))


def _ticks(user: UserId, moved: list[bytes]) -> list[Tick]:
    triples = zip(*[iter(moved)] * 3, strict=True)
    return [Tick(user, ConversationId(name.decode()), int(at), int(written_at)) for name, at, written_at in triples]

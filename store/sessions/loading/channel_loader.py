"""Loads users' sessions in channels from MongoDB into Redis, when one of them is first needed (ADR 66)."""

from __future__ import annotations

import secrets
from typing import Any

from store.base.clock import Clock
from store.base.ids import UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.single_flight import CLAIM_MS, SingleFlight, retry_until_true
from store.sessions.loading.loaded_channels import LoadedChannels
from store.sessions.loading.state_loader import SESSIONS_PER_CALL, StateLoader
from store.sessions.session_rows import SessionRows


class ChannelLoader:
    """Loads the sessions in channels of each user once for all concurrent requests, as `StateLoader` loads the rest.

    Changes that are made before the end of the load are in the user's log already. They wait in Redis, and are applied
    to the sessions at its end.
    """

    def __init__(self, rows: SessionRows, states: StateLoader, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._rows = rows
        self._states = states
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._flights = SingleFlight()

    async def load(self, user: UserId) -> None:
        """Make the user's state cached, with the sessions in channels. Does nothing if it is."""

        async def attempt() -> bool:
            return await self._try_to_load(user)

        await self._flights.run((self._cache.request_prefix, user), lambda: retry_until_true(attempt))

    async def _try_to_load(self, user: UserId) -> bool:
        """Return False if another process has the claim, or if this one lost it."""
        token = secrets.token_hex(8)
        answer = await self._call(user, "load_channels_begin", token, CLAIM_MS)
        if answer == b"not_cached":
            await self._states.load(user)
            return False
        if answer != b"go":
            return bool(answer == b"loaded")
        return await self._store(user, token, await self._rows.read_channels(user))

    async def _store(self, user: UserId, token: str, loaded: LoadedChannels) -> bool:
        """Store the sessions and make them visible: one round trip if there are not many."""
        last: list[Call] = []
        for part in loaded.parts(SESSIONS_PER_CALL):
            if last and not await self._cache.one(last[0]):
                return False
            last = [self._make_call(user, "load_part", "channels_loading", token, CLAIM_MS, *part)]
        finish = self._make_call(user, "load_channels_finish", token, *loaded.totals)
        return bool((await self._cache.run([*last, finish]))[-1])

    async def _call(self, user: UserId, script: str, *args: Any) -> Any:
        return await self._cache.one(self._make_call(user, script, *args))

    def _make_call(self, user: UserId, script: str, *args: Any) -> Call:
        return Call(script, self._keys.user(user), (self._clock.now_ms(), *args))

"""Loads users' states from MongoDB into Redis."""

from __future__ import annotations

import secrets
from typing import Any

import orjson

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.single_flight import CLAIM_MS, SingleFlight, retry_until_true
from store.sessions.session import Session
from store.sessions.session_rows import SessionRows, Tick

_SESSIONS_PER_CALL = 250
"""Sessions that one call puts into Redis, which executes nothing else at the same time."""


class StateLoader:
    """Loads each state once for all concurrent requests: of this process and, with a claim in Redis, of all others.

    Changes that are made during a load wait in Redis, and are applied at its end.
    """

    def __init__(self, rows: SessionRows, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._rows = rows
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._flights = SingleFlight()

    async def load(self, user: UserId) -> None:
        """Make the user's state cached. Does nothing if it is."""
        key = (self._cache.request_prefix, user)
        await self._flights.run(key, lambda: retry_until_true(lambda: self._try_to_load(user)))

    async def _try_to_load(self, user: UserId) -> bool:
        """Return False if another process has the claim, or if this one lost it."""
        token = secrets.token_hex(8)
        state = await self._call(user, "load_begin", token, CLAIM_MS)
        if state in (b"loaded", b"busy"):
            return bool(state == b"loaded")
        records = await self._rows.read(user)
        for start in range(0, len(records), _SESSIONS_PER_CALL):
            some = records[start : start + _SESSIONS_PER_CALL]
            part = [text for conversation, record in some for text in (conversation, orjson.dumps(record))]
            if not await self._call(user, "load_part", token, CLAIM_MS, *part):
                return False
        sessions = [Session(user, conversation, record) for conversation, record in records]
        clock = max([self._clock.now_ms(), *(session.active_ts for session in sessions)])
        sub_bizs = sorted({session.sub_biz for session in sessions if session.sub_biz is not None})
        epoch = secrets.token_hex(4)
        moved = await self._call(user, "load_finish", token, epoch, clock, len(records), *sub_bizs)
        if moved == 0:
            return False
        await self._rows.keep_ticks(_ticks(user, moved))
        return True

    async def _call(self, user: UserId, script: str, *args: Any) -> Any:
        return await self._cache.one(Call(script, self._keys.user(user), (self._clock.now_ms(), *args)))


def _ticks(user: UserId, moved: list[bytes]) -> list[Tick]:
    triples = zip(*[iter(moved)] * 3, strict=True)
    return [Tick(user, ConversationId(name.decode()), int(at), int(written_at)) for name, at, written_at in triples]

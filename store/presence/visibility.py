"""Visibility: whether others may know that a user is connected (ADR 81).

Operations whose answer depends on a user being there ask here, and nowhere else. Routes do not answer it: an INVISIBLE
user has some, and a user who has departed keeps them for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from store.base.clock import Clock
from store.base.ids import UserId
from store.presence.cached_record import record_from
from store.presence.presence_cache import PresenceCache
from store.presence.presence_record import PresenceRecord, Setting
from store.presence.presence_store import PresenceStore
from store.presence.shown_presence import is_visibly_connected
from store.redis.cache import Cache, Call

_USERS_AT_ONCE = 200


class Visibility:
    """Finds visible users. All methods raise StoreError."""

    def __init__(self, presence: PresenceStore, records: PresenceCache, cache: Cache, clock: Clock) -> None:
        self._presence = presence
        self._records = records
        self._cache = cache
        self._clock = clock

    def read_calls(self, users: Iterable[UserId]) -> list[Call]:
        """Return one call for each user. They may be made together with others; the methods below take the answers."""
        return self._records.read_calls(users)

    async def setting(self, user: UserId, answer: Sequence[bytes]) -> Setting:
        """Return what a user has set. A round trip to each database if Redis does not have it."""
        cached = record_from(user, answer)
        if cached.is_complete:
            return cached.record.setting
        return (await self._records.load((user,)))[user].after.record.setting

    async def is_invisible(self, user: UserId, answer: Sequence[bytes]) -> bool:
        """Return whether a user is INVISIBLE. Round trips as for `setting`."""
        return (await self.setting(user, answer)).is_hidden_at(self._clock.now_ms())

    async def is_any_visible(self, answers: Mapping[UserId, Sequence[bytes]]) -> bool:
        """Return whether a device of one of some users is connected, and visible to others.

        A round trip to each database if Redis has devices of a user and not what the user has set; usually none.
        """
        unknown = []
        for user, answer in answers.items():
            if answer:
                cached = record_from(user, answer)
                if not cached.is_complete:
                    unknown.append(user)
                elif self._is_visible(cached.record):
                    return True
        if not unknown:
            return False
        loaded = await self._records.load(unknown)
        return any(self._is_visible(change.after.record) for change in loaded.values())

    async def find_any_visible(self, users: Sequence[UserId]) -> bool:
        """Like `is_any_visible`, with a round trip to Redis for each 200 users, until one is visible."""
        for start in range(0, len(users), _USERS_AT_ONCE):
            part = users[start : start + _USERS_AT_ONCE]
            answers: list[Any] = await self._cache.run(self.read_calls(part))
            if await self.is_any_visible(dict(zip(part, answers, strict=True))):
                return True
        return False

    async def list_visibly_offline(self, users: Sequence[UserId], limit: int) -> list[UserId]:
        """Return those of some users who are not visibly connected, the first `limit` of them.

        A round trip to Redis for each 200 users, and sometimes one to each database. For work that nobody waits for.
        """
        offline: list[UserId] = []
        for start in range(0, len(users), _USERS_AT_ONCE):
            part = users[start : start + _USERS_AT_ONCE]
            answers: list[Any] = await self._cache.run_in_background(self.read_calls(part))
            cached = {user: record_from(user, answer) for user, answer in zip(part, answers, strict=True) if answer}
            unknown = [user for user, record in cached.items() if not record.is_complete]
            loaded = await self._records.load(unknown) if unknown else {}
            records = {user: each.record for user, each in cached.items() if each.is_complete}
            records |= {user: change.after.record for user, change in loaded.items()}
            offline += [user for user in part if user not in records or not self._is_visible(records[user])]
            if len(offline) >= limit:
                break
        return offline[:limit]

    def _is_visible(self, record: PresenceRecord) -> bool:
        return is_visibly_connected(record, self._presence.find_end, self._clock.now_ms())

"""Notification settings in Redis, so that `ready` does not read MongoDB for them (ADR 67).

The record of a user is a hash: the settings with their revision, and a field for each change that is being made, with
the time at which it began (ms). While there is such a field, readers use MongoDB.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence

import orjson

from store.base.clock import Clock
from store.base.ids import UserId
from store.notifications.notification_settings import NotificationSettings, fields_of, settings_from
from store.notifications.settings_rows import SettingsRow, SettingsRows
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_SETTINGS = b"settings"
_REVISION = b"revision"

_KEPT_MS = 24 * 3600 * 1000
_LONGEST_CHANGE_MS = 120_000
"""Time after which a change has ended: its server has died, or did not learn the outcome. Writes are shorter."""


class SettingsCache:
    """Reads and writes the records. All methods that wait raise StoreError."""

    def __init__(self, rows: SettingsRows, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._rows = rows
        self._cache = cache
        self._keys = keys
        self._clock = clock

    def read_call(self, user: UserId) -> Call:
        """Return the call that reads a record. `complete` takes its answer."""
        return Call("HGETALL", (self._keys.notification_settings(user),))

    async def complete(self, user: UserId, answer: Sequence[bytes]) -> NotificationSettings:
        """Return settings by the answer of Redis. If it does not have them, one round trip to each database."""
        changes = dict(zip(answer[::2], answer[1::2], strict=True))
        cached = changes.pop(_SETTINGS, None)
        changes.pop(_REVISION, None)
        if cached is not None and not changes:
            return settings_from(orjson.loads(cached))
        oldest_ms = self._clock.now_ms() - _LONGEST_CHANGE_MS
        ended = [name.decode() for name, began_ms in changes.items() if int(began_ms) < oldest_ms]
        row = (await self._rows.find((user,)))[user]
        if len(ended) == len(changes):
            await self.put(user, row, ended)
        return row.settings

    async def reload(self, users: Collection[UserId]) -> None:
        """Load settings that may be out of date: one round trip to each database."""
        rows = await self._rows.find(users)
        await self._cache.run([self._put_call(user, row) for user, row in rows.items()])

    async def begin_change(self, user: UserId) -> str:
        """Let readers use MongoDB until the change is put. Return the field of the change. One round trip."""
        key, change = self._keys.notification_settings(user), f"c{secrets.token_hex(8)}"
        await self._cache.run(
            [Call("HSET", (key,), (change, self._clock.now_ms())), Call("PEXPIRE", (key,), (_KEPT_MS,))]
        )
        return change

    async def put(self, user: UserId, row: SettingsRow, ended: Sequence[str] = ()) -> None:
        """Put a row into the record, unless it has a later one, and remove fields of changes. One round trip."""
        await self._cache.one(self._put_call(user, row, ended))

    def _put_call(self, user: UserId, row: SettingsRow, ended: Sequence[str] = ()) -> Call:
        key, form = self._keys.notification_settings(user), orjson.dumps(fields_of(row.settings))
        return Call("put_notification_settings", (key,), (row.revision, form, _KEPT_MS, *ended))

"""Presence stores with a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from store.base.clock import Clock
from store.base.ids import UserId
from store.presence.presence_cache import ChangedPresence, PresenceCache
from store.presence.presence_record import DevicePresence, DeviceType, PresenceRecord
from store.presence.presence_rows import PresenceRows
from store.presence.presence_store import DeviceChange, PresenceStore
from store.redis.cache import Call
from store.store import Store
from tests.clock import ManualClock

ANNA, BEN = UserId("anna"), UserId("ben")
MINUTE = 60_000


def open_presence(
    store: Store, clock: Clock, note_stored: Callable[[UserId, bool], None] | None = None
) -> PresenceStore:
    """Return the presence store of one more server."""
    rows = PresenceRows(store.mongo)
    records = PresenceCache(rows, store.cache, store.keys, clock)
    note = note_stored or store.stale_caches.add_settings_unless_applied
    return PresenceStore(rows, records, store.cache, store.keys, clock, note)


async def evict(store: Store, user: UserId, *names: str) -> None:
    """Remove keys of a user from Redis, as it does when its memory is full. All of presence if none are named."""
    for name in names or ("presence", "pwatch"):
        await store.cache.one(Call("DEL", (store.keys.of_user(user, name),)))


def a_device(clock: ManualClock, device: str = "phone", server: str = "s1", **fields: Any) -> DevicePresence:
    return DevicePresence(server, device, DeviceType.MOBILE, clock.ms, **fields)


async def put(presence: PresenceStore, *devices: DevicePresence, user: UserId = ANNA) -> ChangedPresence:
    (change,) = await presence.change_devices([DeviceChange(user, devices[0].server, devices)])
    return change


async def read(presence: PresenceStore, user: UserId = ANNA) -> PresenceRecord:
    return (await presence.read([user]))[user]


async def lose_redis(store: Store) -> None:
    await store.deployment.generations.begin_next()
    await store.deployment.check_redis()

"""Presence stores with a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable

from store.base.clock import Clock
from store.base.ids import UserId
from store.presence.presence_cache import PresenceCache
from store.presence.presence_rows import PresenceRows
from store.presence.presence_store import PresenceStore
from store.redis.cache import Call
from store.store import Store


def open_presence(
    store: Store, clock: Clock, note_stored: Callable[[UserId, bool], None] | None = None
) -> PresenceStore:
    """Return the presence store of one more server."""
    rows = PresenceRows(store.mongo)
    records = PresenceCache(rows, store.cache, store.keys, clock)
    note = note_stored or store.stale_caches.add_presence_unless_applied
    return PresenceStore(rows, records, store.cache, store.keys, clock, note)


async def evict(store: Store, user: UserId, *names: str) -> None:
    """Remove keys of a user from Redis, as it does when its memory is full. All of presence if none are named."""
    for name in names or ("presence", "pwatch"):
        await store.cache.one(Call("DEL", (store.keys.of_user(user, name),)))

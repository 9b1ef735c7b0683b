"""Removes the id of an erased user from Redis, after MongoDB no longer has it.

Keys with a time to live are copies, and may be evicted at any time: servers read them again from MongoDB. In other
keys only the entries with the id are deleted. Work that must not be lost is awaited: see `KeyTreatment`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from store.erasure.key_scan import KeyScan
from store.erasure.renaming import Renaming, contains_form
from store.redis.cache import Cache
from store.redis.keys import Keys

_AWAITED = (b":outbox", b":events", b":recovered", b":waiting")
"""Ends of the names of keys whose entries servers complete within seconds."""

_CLAIM = b"}:key:"
"""In the names of claims of idempotency keys. They are no copies: without its claim, a repeated send is sent twice."""

_KEYS_PER_PAUSE = 200
_PAUSE_SECONDS = 0.01


class RedisClearing:
    """Removes ids from Redis."""

    def __init__(self, cache: Cache, keys: Keys) -> None:
        self._cache = cache
        self._keys = keys

    async def count_awaited(self, renaming: Renaming) -> int:
        """Return the number of keys whose entries have to be awaited. Raises as `clear` does.

        Servers write rows with the id as long as there is one, also behind a search that has passed.
        """
        self._cache.require_shared()
        forms, awaited = renaming.stored_forms(), 0
        scan = KeyScan(self._cache.url, self._keys.prefix)
        try:
            async for key in scan.list_keys():
                if key.endswith(_AWAITED):
                    awaited += any(contains_form(part.content, forms) for part in (await scan.read(key))[1])
        finally:
            await scan.close()
        return awaited

    async def clear(self, renaming: Renaming, on_step: Callable[[], Awaitable[None]]) -> int:
        """Delete what contains the id. Return the number of keys whose entries have to be awaited.

        May be repeated. Raises Unreachable, also while the Redis fallback is used.
        """
        self._cache.require_shared()
        forms, awaited, seen = renaming.stored_forms(), 0, 0
        own_claims = self._keys.claim(renaming.user, "").encode()
        scan = KeyScan(self._cache.url, self._keys.prefix)
        try:
            async for key in scan.list_keys():
                seen += 1
                if seen % _KEYS_PER_PAUSE == 0:
                    await on_step()
                    await asyncio.sleep(_PAUSE_SECONDS)
                awaited += await self._clear_key(scan, key, forms, own_claims)
        finally:
            await scan.close()
        return awaited

    async def _clear_key(self, scan: KeyScan, key: bytes, forms: tuple[bytes, ...], own_claims: bytes) -> bool:
        """Return whether the key has to be awaited. own_claims: beginning of the names of the user's claims."""
        is_claim, is_awaited = _CLAIM in key, key.endswith(_AWAITED)
        name = key[len(self._keys.prefix) :]
        is_named = key.startswith(own_claims) if is_claim else contains_form(name, forms)
        kind, parts = await scan.read(key)
        # Ids of others may begin with this one: what they send is always on its way, and their claims stay.
        only_words = is_claim or is_awaited
        named = [part for part in parts if contains_form(part.content, forms, only_words=only_words)]
        if not named and not is_named:
            return False
        if is_awaited:
            return True
        if is_named or kind == "string" or await scan.ends_by_itself(key):
            await scan.delete(key)
        else:
            for part in named:
                await scan.delete_part(key, kind, part.name)
        return False

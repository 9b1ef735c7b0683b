"""Looks for the id of a user in everything that a deployment stores, in any form, texts included."""

from __future__ import annotations

from collections.abc import Sequence

from store.erasure.key_scan import KeyScan
from store.erasure.renaming import Renaming, contains_form
from store.erasure.row_changes import contains_id
from store.mongo.client import Mongo
from store.mongo.paced_reads import read_in_steps
from store.redis.cache import Cache


async def list_traces(mongo: Mongo, cache: Cache, renaming: Renaming, collections: Sequence[str]) -> list[str]:
    """Return the rows of some collections, and the keys in Redis, that contain the id. Raises Unreachable.

    Reads everything. For tests, benchmarks and operators: an erasure itself finds rows by their fields.
    """
    found = []
    for collection in collections:
        async for rows in read_in_steps(mongo, collection, {}, projection={}, size=1_000):
            found += [f"{collection} {row['_id']!r}" for row in rows if contains_id(row, renaming)]
    forms = renaming.stored_forms()
    scan = KeyScan(cache.url, cache.keys.prefix)
    try:
        async for key in scan.list_keys():
            _, parts = await scan.read(key)
            if contains_form(key, forms) or any(contains_form(part.content, forms) for part in parts):
                found.append(f"redis {key.decode(errors='replace')}")
    finally:
        await scan.close()
    return found

"""Looks for an id in everything that a deployment stores, knowing nothing of how it is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from bson import encode
from redis import Redis

from tests.api.client import Api, Json
from tests.conftest import redis_client
from tests.user_ids import encoded

ERASE = """mutation ($id: ID!, $messages: Boolean) { eraseUser(userId: $id, messages: $messages) {
    userId state remaining finishedAt } }"""
ERASURE = "query ($id: ID!) { erasure(userId: $id) { userId state remaining finishedAt } }"
_SECONDS = 60


def list_traces(api: Api, user: str) -> list[str]:
    """Return the rows and keys that contain an id, plain or percent-encoded, in names or values."""
    in_json = orjson.dumps(user).decode()[1:-1]
    twice = orjson.dumps(in_json).decode()[1:-1]
    forms = {form.encode() for text in (user, in_json, twice) for form in (text, text.replace("/", "\\/"))}
    forms.add(encoded(user).encode())
    found = []
    for collection in api.database.list_collection_names():
        rows = api.database[collection].find()
        found += [f"{collection}: {row}" for row in rows if any(form in encode(row) for form in forms)]
    cache = api.services.app.store.cache
    with redis_client(cache.url) as redis:
        for key in redis.scan_iter(match=f"{cache.keys.prefix}*", count=1000):
            content = key + b" " + _content(redis, key)
            if any(form in content for form in forms):
                found.append(f"redis: {content[:300]!r}")
    return found


def _content(redis: Redis | Any, key: bytes) -> bytes:
    match redis.type(key):
        case b"string":
            parts: Any = [redis.get(key) or b""]
        case b"hash":
            parts = [part for pair in redis.hgetall(key).items() for part in pair]
        case b"zset":
            parts = redis.zrange(key, 0, -1)
        case b"set":
            parts = redis.smembers(key)
        case b"list":
            parts = redis.lrange(key, 0, -1)
        case b"stream":
            entries: Any = redis.xrange(key)
            parts = [part for _, fields in entries for pair in fields.items() for part in pair]
        case _:
            parts = []
    return b" ".join(parts)


async def wait_for_end(api: Api, caller: Any, user: str) -> Json:
    """Return the erasure of a user after its end."""
    async with asyncio.timeout(_SECONDS):
        while True:
            found: Json = (await api.data(caller, ERASURE, id=user))["erasure"]
            if found["finishedAt"] is not None:
                return found
            await asyncio.sleep(0.05)

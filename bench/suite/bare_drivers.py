"""The minimum waiting time of a durable message.

An insert with majority and journal, and two calls to Redis, by the bare drivers.
"""

from __future__ import annotations

import time
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.write_concern import WriteConcern
from redis.asyncio import Redis

_DATABASE = "bench_bare"


class BareDrivers:
    """One connection to each database."""

    def __init__(self, messages: Any, redis: Redis) -> None:
        self._messages = messages
        self._redis = redis
        self._number = 0

    @classmethod
    async def open(cls, mongo_url: str, redis_url: str) -> BareDrivers:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_url)
        database = client.get_database(_DATABASE, write_concern=WriteConcern(w="majority", j=True))
        messages = database["messages"]
        # The same indexes as the real messages.
        await messages.create_index([("c", 1), ("b", 1), ("s", 1)], unique=True)
        bare = cls(messages, Redis.from_url(redis_url))
        for _ in range(5):
            await bare.act()
        return bare

    async def act(self) -> dict[str, float]:
        """Return the seconds of a message, and of the insert alone."""
        self._number += 1
        document = {"_id": time.time_ns(), "c": "p_a_b", "b": 0, "s": time.time_ns(), "u": "a", "t": "x" * 100}
        began = time.perf_counter()
        await self._redis.hincrby("bare:head", "s", 1)
        between = time.perf_counter()
        await self._messages.insert_one(document)
        inserted = time.perf_counter()
        await self._redis.hset("bare:sessions", "a", self._number)
        return {"seconds": time.perf_counter() - began, "insert": inserted - between}

"""Reads all keys of the deployment in Redis, with their values: for rare work in the background."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from store.base.driver_errors import translate_errors
from store.redis.cluster.url import parse_cluster_url

_KEYS_PER_STEP = 500
_PARTS = 1_000


class StoredPart(NamedTuple):
    """A part of a value: a field, member or entry, with its content. A string is one part."""

    name: bytes
    content: bytes


class KeyScan:
    """Connections of its own to Redis, or to all nodes of a cluster. Methods raise Unreachable."""

    def __init__(self, url: str, prefix: str) -> None:
        """Connect with the first call. prefix: only keys whose names begin with it are read."""
        cluster = parse_cluster_url(url)
        self._redis: Any = (
            Redis.from_url(url) if cluster is None else RedisCluster.from_url(cluster.node_url(cluster.seeds[0]))
        )
        self._prefix = prefix

    async def close(self) -> None:
        """End the connections."""
        await self._redis.aclose()

    async def list_keys(self, ending: str = "") -> AsyncIterator[bytes]:
        """Yield the names of all keys. A key that is there all the time is yielded at least once.

        ending: only keys whose names end with it, without characters that have a meaning in patterns.
        """
        escaped = "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in self._prefix)
        with translate_errors():
            async for key in self._redis.scan_iter(match=f"{escaped}*{ending}", count=_KEYS_PER_STEP):
                yield key

    async def read(self, key: bytes) -> tuple[str, list[StoredPart]]:
        """Return the type of a key, and all parts of its value."""
        redis, parts = self._redis, list[StoredPart]()
        with translate_errors():
            kind = (await redis.type(key)).decode()
            match kind:
                case "string":
                    parts = [StoredPart(b"", await redis.get(key) or b"")]
                case "hash":
                    async for name, value in redis.hscan_iter(key, count=_PARTS):
                        parts.append(StoredPart(name, name + b" " + value))
                case "zset":
                    parts = [StoredPart(name, name) async for name, _ in redis.zscan_iter(key, count=_PARTS)]
                case "set":
                    parts = [StoredPart(name, name) async for name in redis.sscan_iter(key, count=_PARTS)]
                case "list":
                    parts = [StoredPart(item, item) for item in await redis.lrange(key, 0, -1)]
                case "stream":
                    for entry, fields in await redis.xrange(key):
                        parts.append(StoredPart(entry, b" ".join(part for pair in fields.items() for part in pair)))
        return kind, parts

    async def ends_by_itself(self, key: bytes) -> bool:
        """Return whether a key has a time to live."""
        with translate_errors():
            return bool(await self._redis.pttl(key) >= 0)

    async def delete(self, key: bytes) -> None:
        """Delete a key."""
        with translate_errors():
            await self._redis.unlink(key)

    async def delete_part(self, key: bytes, kind: str, name: bytes) -> None:
        """Delete a part of a value."""
        with translate_errors():
            match kind:
                case "hash":
                    await self._redis.hdel(key, name)
                case "zset":
                    await self._redis.zrem(key, name)
                case "set":
                    await self._redis.srem(key, name)
                case "list":
                    await self._redis.lrem(key, 0, name)
                case "stream":
                    await self._redis.xdel(key, name)
                case _:
                    await self._redis.unlink(key)

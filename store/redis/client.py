"""Redis, Valkey, or a Redis Cluster: runs commands and scripts in pipelines that concurrent callers share (ADR 17).

This is the only module that depends on which of the three is used. A call that may have been executed is not repeated
here: only the caller knows whether that is safe.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from store.base.driver_errors import translate_errors
from store.base.errors import Unreachable
from store.redis.admission import ClusterReport, ConnectionAdmission
from store.redis.calls import Call, FormerGeneration, ReadScripts, encode_command
from store.redis.cluster.nodes import ClusterNodes
from store.redis.cluster.url import parse_cluster_url
from store.redis.keys import Keys, is_present
from store.redis.node import TIMEOUT_SECONDS, RedisNode


class RedisClient:
    """One Redis or one cluster."""

    def __init__(self, url: str, keys: Keys, read_scripts: ReadScripts) -> None:
        """Create the client; the first call connects. keys: only names of their generation are sent."""
        cluster_url = parse_cluster_url(url)
        self.url = url
        self.is_cluster = cluster_url is not None
        self._keys = keys
        self._scripts = read_scripts(self.is_cluster)
        self._evalsha = {name: ("EVALSHA", script.digest) for name, script in self._scripts.items()}
        self.admission = ConnectionAdmission(self._scripts.values(), is_cluster=self.is_cluster)
        self._redis: RedisNode | ClusterNodes
        if cluster_url is None:
            self._redis = self._connect(url)
        else:
            self._redis = ClusterNodes(cluster_url, self._connect)

    @property
    def queued(self) -> int:
        """Callers whose calls were not sent yet."""
        return self._redis.queued

    def drop(self) -> None:
        """End all connections and fail all callers. Later calls go over new connections."""
        self._redis.drop()

    def drop_shards(self, shards: Collection[str]) -> None:
        """Like `drop`, for the connections to some shards of a cluster. shards: their ids."""
        if isinstance(self._redis, ClusterNodes):
            self._redis.drop(shards)

    async def close(self) -> None:
        """Like `drop`, and wait until the connections have ended."""
        await self._redis.close()

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Return the replies in order, error replies as exceptions in their places.

        Raises Unreachable if replies are missing. In a cluster, the failures of single nodes are in the places of their
        replies instead.
        All calls take one round trip and are no transaction. Scripts that Redis does not know are loaded and called
        again.
        """
        results = await self._send(calls)
        missing = [i for i, result in enumerate(results) if isinstance(result, NoScriptError)]
        if missing:
            # Redis was restarted. It executed nothing of a call that it refused with NOSCRIPT.
            # In a cluster, the keys lead to the node that has to load the script.
            names = {(calls[i].name, calls[i].keys if self.is_cluster else ()) for i in missing}
            loads = [Call("SCRIPT", keys, ("LOAD", self._scripts[name].source)) for name, keys in names]
            raise_first_error(await self._send(loads))
            for i, result in zip(missing, await self._send([calls[i] for i in missing]), strict=True):
                results[i] = result
        return results

    async def ping(self) -> bool:
        """Return whether all of Redis answers; False if only a part of a cluster does. Raises Unreachable if none does.

        A new connection is admitted first, which determines the generation.
        """
        if isinstance(self._redis, ClusterNodes):
            with translate_errors():
                return await self._redis.ping()
        raise_first_error(await self.run([Call("PING", ())]))
        return True

    async def ping_without_admission(self) -> None:
        """Raise Unreachable unless Redis, or a part of a cluster, answers. Needs no MongoDB, except on a cluster."""
        if self.is_cluster:
            await self.ping()
            return
        client = Redis.from_url(self.url, socket_timeout=TIMEOUT_SECONDS, retry=Retry(NoBackoff(), 0))
        with translate_errors():
            try:
                await client.ping()
            finally:
                await client.aclose()

    async def load_scripts(self) -> None:
        """Load all scripts. A node of a cluster gets them with its first connection, which is opened here if it can be.

        Raises Unreachable.
        """
        if isinstance(self._redis, ClusterNodes):
            with translate_errors():
                await self._redis.open_connections()
            return
        loads = [Call("SCRIPT", (), ("LOAD", script.source)) for script in self._scripts.values()]
        raise_first_error(await self.run(loads))

    async def find_url(self, channel: str) -> str:
        """Return the URL of the Redis at which to subscribe to a channel; of any node while its own is away.

        Raises Unreachable.
        """
        if isinstance(self._redis, ClusterNodes):
            with translate_errors():
                return await self._redis.find_url(channel)
        return self.url

    def owner(self, key: str) -> str:
        """Return the address of the cluster's node that owns a key, as far as is known; "" if there is one Redis."""
        return self._redis.find_owner(key) if isinstance(self._redis, ClusterNodes) else ""

    def is_away(self, key: str) -> bool:
        """Return whether the node of a cluster that owns a key or a channel has not answered for some time."""
        return self._redis.is_away(key) if isinstance(self._redis, ClusterNodes) else False

    def is_slot_away(self, slot: int) -> bool:
        """Return whether the node of a cluster that owns a slot has not answered for some time."""
        return self._redis.is_slot_away(slot) if isinstance(self._redis, ClusterNodes) else False

    def widen_slots(self, slots: Collection[int]) -> Collection[int]:
        """Return all slots of the nodes of a cluster that own one of the given slots, as far as is known."""
        return self._redis.widen_slots(slots) if isinstance(self._redis, ClusterNodes) else slots

    def is_owner(self, channel: str, url: str) -> bool:
        """Return whether the Redis at a URL still serves a channel."""
        return self._redis.is_owner(channel, url) if isinstance(self._redis, ClusterNodes) else True

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        redis = self._redis
        with translate_errors():
            if isinstance(redis, RedisNode):
                return await redis.enqueue(calls, len(calls)).replies
            return await redis.run(calls)

    def _connect(self, url: str) -> RedisNode:
        async def admit(connection: AbstractConnection) -> None:
            node.shard = await self.admission.check(connection, partial(self._read_report, node))

        node = RedisNode(url, self._encode, admit)
        return node

    async def _read_report(self, node: RedisNode) -> ClusterReport:
        return await self._redis.read_report(node) if isinstance(self._redis, ClusterNodes) else ClusterReport()

    def _encode(self, calls: Sequence[Call]) -> bytes:
        """Return the calls in the Redis protocol. Raises FormerGeneration if a key belongs to a former generation."""
        is_uniform, space = self._keys.is_uniform, self._keys.namespace
        parts = []
        for call in calls:
            keys, evalsha = call.keys, self._evalsha.get(call.name)
            is_valid = not keys or (keys[0].startswith(space) if is_uniform else is_present(self._keys, keys[0]))
            if not is_valid and call.name != "SPUBLISH":
                raise FormerGeneration("the key belongs to a former generation of Redis")
            if evalsha is not None:
                if keys and "{" not in keys[0]:
                    # In a cluster, scripts look whether the whole slot of their keys is on the node, by further names.
                    raise ValueError(f"the keys of the script {call.name} need a hash tag")
                words = (*evalsha, len(keys), *keys, *call.args)
            else:
                # The keys of SCRIPT LOAD only lead to a node.
                words = (call.name, *keys, *call.args) if call.name != "SCRIPT" else (call.name, *call.args)
            parts.append(encode_command(words))
        return b"".join(parts)


def raise_first_error(results: Sequence[Any]) -> None:
    """Raise Unreachable for the first error reply among results."""
    for result in results:
        if isinstance(result, Exception):
            raise Unreachable(str(result), "redis") from result

"""Redis (or Valkey, or a Redis Cluster): scripts and pipelines, one round trip a call of `run`.

Concurrent calls of `run` share pipelines (ADR 17). Nothing is retried here: a script that may have run is not run again unless
its caller knows that to be safe.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

from store.base.errors import Unreachable, translated
from store.redis.cluster import ClusterNodes, parse_cluster_url
from store.redis.fallback import scope_name, scoped
from store.redis.keys import Keys
from store.redis.pipeline import PipelinePool, packed
from store.redis.scripts import read_scripts

_RUN_ID = re.compile(rb"^run_id:(\w+)", re.MULTILINE)

_PATIENCE_SECONDS = 5.0
_SHARED_LINES = 3
"""Pipelines on their way that callers share. More cost more, fewer have callers wait for each other."""

_FEW_CALLS = 16
"""More calls of one caller go over a connection of their own: others would wait for all their answers."""

_LINES_OF_THEIR_OWN = 16


@dataclass(frozen=True, slots=True)
class Call:
    """One command, or script by its name: the keys it touches, then arguments."""

    name: str
    keys: tuple[str, ...]
    args: tuple[Any, ...] = ()


class Cache:
    """A Redis. `trips` counts the round trips that callers wait for, `aside` those made after they were answered."""

    def __init__(self, url: str, *, prefix: str = "") -> None:
        cluster = parse_cluster_url(url)
        self._redis: _Redis | ClusterNodes
        if cluster is None:
            self._redis = self._connect(url)
        else:
            asking, slots = Call("ASKING", ()), Call("CLUSTER", (), ("SLOTS",))
            self._redis = ClusterNodes(cluster, self._connect, _PATIENCE_SECONDS, asking, slots)
        self.is_cluster = cluster is not None
        self._knowing: set[str] = set()
        """Run ids of nodes of a cluster that were given the scripts."""
        self._scripts = read_scripts(for_cluster=self.is_cluster)
        self._heads = {name: ("EVALSHA", script.digest) for name, script in self._scripts.items()}
        self.url = url
        self.keys = Keys(prefix)
        self.admit: Callable[[str, str], Awaitable[None]] | None = None
        """Waited for with the run id of the Redis behind each new connection, and which shard of a cluster it is ("": of none), before
        that is used. What it raises refuses it."""
        self.spare: Cache | None = None
        """Asked instead, while the deployment does without Redis (`store/redis/fallback.py`)."""
        self.trips = 0
        self.aside = 0

    @property
    def waiting(self) -> int:
        """Callers whose commands were not sent yet."""
        return self._redis.waiting

    def drop(self) -> None:
        """Ends all connections, with what is on its way. What is asked from then on goes over new ones."""
        self._redis.drop()

    async def close(self) -> None:
        """Ends all connections."""
        await self._redis.close()

    async def load_scripts(self) -> None:
        """Has Redis know all scripts before they are called, which it would otherwise be taught one by one. A node of a cluster is
        taught them when it is met."""
        if self.is_cluster:
            await self.ping()
            return
        await self.run([Call("SCRIPT", (), ("LOAD", script.source)) for script in self._scripts.values()])

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """All calls in one round trip, in order, not as a transaction. A call that failed raises Unreachable."""
        results = await self.attempt(calls)
        for result in results:
            if isinstance(result, Exception):
                raise Unreachable(str(result)) from result
        return results

    async def run_aside(self, calls: Sequence[Call]) -> list[Any]:
        """Like run, for work that nobody waits for."""
        self.trips -= 1
        self.aside += 1
        return await self.run(calls)

    async def one(self, call: Call) -> Any:
        """One call, one round trip."""
        return (await self.run((call,)))[0]

    async def attempt(self, calls: Sequence[Call]) -> list[Any]:
        """Like run, but a call that Redis refused answers its error in place. Raises Unreachable if nothing came back."""
        self.trips += 1
        if not calls:
            return []
        if self.spare is not None:
            return await self.spare.attempt(scoped(calls))
        return await self._attempt(calls)

    async def ping(self) -> None:
        """Raises Unreachable unless Redis answers, whatever is asked instead meanwhile. Then its names of keys are those that count."""
        (answer,) = await self._attempt([Call("PING", ())])
        if isinstance(answer, Exception):
            raise Unreachable(str(answer)) from answer

    async def knock(self) -> None:
        """Raises Unreachable where requests can't be answered for want of Redis. What it holds is not asked: that would need MongoDB."""
        if self.spare is not None:
            return
        if self.is_cluster:
            await self.ping()
            return
        client = Redis.from_url(self.url, socket_timeout=_PATIENCE_SECONDS, retry=Retry(NoBackoff(), 0))
        with translated():
            try:
                await client.ping()
            finally:
                await client.aclose()

    @property
    def scope(self) -> str:
        """Whose what is held is that is asked for now: nobody's in particular while Redis is there."""
        return scope_name() if self.spare is not None else ""

    def require_shared(self) -> None:
        """Raises Unreachable while the deployment does without Redis: for what is of no use unless other servers see it."""
        if self.spare is not None:
            raise Unreachable("Redis is away")

    async def _attempt(self, calls: Sequence[Call]) -> list[Any]:
        results = await self._send(calls)
        missing = [i for i, result in enumerate(results) if isinstance(result, NoScriptError)]
        if missing:
            # A restarted Redis knows no scripts, and a command it refused for that has done nothing.
            # Keys lead to the node that is to learn a script.
            names = {(calls[i].name, calls[i].keys if self.is_cluster else ()) for i in missing}
            again = await self._send(
                [Call("SCRIPT", keys, ("LOAD", self._scripts[name].source)) for name, keys in names]
            )
            for result in again:
                if isinstance(result, Exception):
                    raise Unreachable(str(result)) from result
            for i, result in zip(missing, await self._send([calls[i] for i in missing]), strict=True):
                results[i] = result
        return results

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        redis, few = self._redis, len(calls) <= _FEW_CALLS
        with translated():
            if isinstance(redis, _Redis):
                return await (redis.few if few else redis.many).put(calls).replies
            return await redis.ask(calls, many=not few)

    def publish(self, channel: str, frame: bytes) -> Call:
        """The call that says something to whoever listens to a channel, in a cluster on the node that holds it."""
        return Call("SPUBLISH", (channel,), (frame,)) if self.is_cluster else Call("PUBLISH", (), (channel, frame))

    async def url_of(self, channel: str) -> str:
        """The URL of the Redis to listen to a channel at. Raises Unreachable."""
        if isinstance(self._redis, ClusterNodes):
            with translated():
                return await self._redis.url_of(channel)
        return self.url

    def is_at(self, channel: str, url: str) -> bool:
        """Whether a channel is still to be listened to at a URL."""
        return self._redis.is_at(channel, url) if isinstance(self._redis, ClusterNodes) else True

    def _connect(self, url: str) -> _Redis:
        pool = ConnectionPool.from_url(
            url,
            protocol=2,
            socket_connect_timeout=_PATIENCE_SECONDS,
            socket_timeout=_PATIENCE_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        lines = partial(PipelinePool, pool, patience=_PATIENCE_SECONDS, pack=self._pack, admit=self._admitted)
        return _Redis(lines(_SHARED_LINES, shared=True), lines(_LINES_OF_THEIR_OWN, shared=False))

    def _pack(self, calls: Sequence[Call]) -> bytes:
        """Raises RedisConnectionError where a key is of another generation than the one that counts by now."""
        space = self.keys.space
        parts = []
        for call in calls:
            keys, head = call.keys, self._heads.get(call.name)
            if keys and not keys[0].startswith(space) and call.name != "SPUBLISH":
                raise RedisConnectionError("what Redis held does not count any more")
            if head is not None:
                words = (*head, len(keys), *keys, *call.args)
            else:
                words = (call.name, *keys, *call.args) if call.name != "SCRIPT" else (call.name, *call.args)
            parts.append(packed(words))
        return b"".join(parts)

    async def _admitted(self, connection: AbstractConnection) -> None:
        if self.admit is None and not self.is_cluster:
            return
        await connection.send_command("INFO", "server")
        told: bytes = await connection.read_response()
        found = _RUN_ID.search(told)
        if found is None:
            raise RedisConnectionError("this Redis does not tell its run id")
        run, shard = found[1].decode(), ""
        if self.is_cluster:
            shard = await _shard_of(connection)
            await self._teach(connection, run)
        if self.admit is not None:
            await self.admit(run, shard)

    async def _teach(self, connection: AbstractConnection, run: str) -> None:
        """Gives a node of a cluster all scripts: one to which a call was sent on could not be told them by the key."""
        if run not in self._knowing:
            loads = [("SCRIPT", "LOAD", script.source) for script in self._scripts.values()]
            await connection.send_packed_command(connection.pack_commands(loads))
            for _ in loads:
                await connection.read_response()
            self._knowing.add(run)


class _Redis:
    """One Redis, or one node: pipelines that callers of a few calls share, and others."""

    def __init__(self, few: PipelinePool, many: PipelinePool) -> None:
        self.few, self.many = few, many

    @property
    def waiting(self) -> int:
        """Callers whose commands were not sent yet."""
        return self.few.waiting + self.many.waiting

    def drop(self) -> None:
        """Ends all connections, with what is on its way."""
        self.few.drop()
        self.many.drop()

    async def close(self) -> None:
        """Ends all connections."""
        await self.few.close()
        await self.many.close()


async def _shard_of(connection: AbstractConnection) -> str:
    """What a primary and those who may take its place have in common; of an old Redis what is its own."""
    for word in ("MYSHARDID", "MYID"):
        try:
            await connection.send_command("CLUSTER", word)
            told: bytes = await connection.read_response()
        except ResponseError:
            continue
        return told.decode()
    raise RedisConnectionError("this Redis is of no cluster")

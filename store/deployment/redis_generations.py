"""The generation of Redis: which contents are valid (ADR 19), and when the Redis fallback is used (ADR 20).

The deployment's row in MongoDB holds the number of the generation and the run id of the Redis that it lives in. A Redis
with another run id was restarted, restored or promoted, so it may hold older data than MongoDB. Its first use therefore
begins the next generation, whose key names are new, and nothing that it held before is read. No connection is used
before that is settled.

When no server has reached Redis for `AWAY_AFTER_MS`, a generation without a Redis begins: each server uses a Redis
fallback of its own. The first server that reaches Redis again begins the next generation. If only one server cannot
reach Redis, it raises Unreachable instead: the others would not see what it writes.

Fields of the row `deployment` {_id 1}; all times are in ms by MongoDB's clock:
    gen    number of the generation
    run    run id of the Redis that it lives in: CLUSTER for a cluster, AWAY for no Redis
    runs   run ids of a cluster's nodes, by shard id
    since  when the generation began
    seen   when a server last reached that Redis
    was    `seen` of the Redis before
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from store.base.errors import Unreachable
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW
from store.redis.cache import Cache

_log = structlog.get_logger()

CLUSTER = "cluster"
"""The run id of a cluster. Its nodes have their own."""

AWAY = ""
"""The run id while the deployment has no Redis."""

AWAY_AFTER_MS = 4_000
"""Time without any server reaching Redis after which the servers use their fallbacks."""

_SEEN_INTERVAL_MS = 1_000
_PROJECTION = {"gen": 1, "run": 1, "runs": 1, "since": 1, "seen": 1, "mend": 1, "search": 1, "now": MONGO_NOW}


class FallbackServer(Protocol):
    """A Redis for this process alone."""

    async def open(self) -> str:
        """Return its URL once it answers. Idempotent. Raises Unreachable if it cannot be started."""
        ...


class Generations:
    """One process's view of the generation."""

    def __init__(self, mongo: Mongo, cache: Cache, fallback: FallbackServer | None) -> None:
        """Start without a generation. fallback: without one, requests fail while Redis is unavailable."""
        self._mongo = mongo
        self._cache = cache
        self._fallback = fallback
        self._lock = asyncio.Lock()
        self._run: str | None = None
        self._unreachable_since: float | None = None
        self._shards: dict[str, str] = {}
        self.number = 0
        self.began_at = 0.0
        """Time at which this generation began, by `time.monotonic`, as far as known."""
        self.recover_from_ms: int | None = None
        """Messages stored since then may not be delivered completely. None: there is nothing to recover."""
        self.on_row: Callable[[dict[str, Any]], object] = lambda _: None
        """Called with each row that `check` reads."""
        cache.admit_with(self.admit)

    async def admit(self, run: str, shard: str = "") -> None:
        """Determine the generation under which a Redis is used. Raises Unreachable if MongoDB does not answer.

        Args:
            run: The run id of the Redis.
            shard: Its shard id in a cluster. A shard that is new to the generation holds no old data; a known one must
                have the same run id.
        """
        if shard:
            await self._admit_shard(run, shard)
            return
        async with self._lock:
            while run != self._run:
                row = await self._read_row()
                if row.get("run") == run:
                    self._enter(run, row)
                elif await self._begin_after(row, run) and "gen" in row:
                    _log.warning("redis_contents_discarded", run=run)

    async def _admit_shard(self, run: str, shard: str) -> None:
        async with self._lock:
            while self._shards.get(shard) != run or self._run != CLUSTER:
                row = await self._read_row()
                number = row.get("gen", 0)
                known_run = row.get("runs", {}).get(shard) if row.get("run") == CLUSTER else None
                if row.get("run") != CLUSTER or known_run not in (None, run):
                    if await self._begin_after(row, CLUSTER, {shard: run}) and number:
                        _log.warning("redis_contents_discarded", run=run, shard=shard)
                elif known_run is None:
                    without_shard = {"_id": 1, "gen": number, "run": CLUSTER, f"runs.{shard}": {"$exists": False}}
                    await self._mongo.update_one(DEPLOYMENT, without_shard, {"$set": {f"runs.{shard}": run}})
                else:
                    if (self._run, self.number) != (CLUSTER, number):
                        # The other nodes have to be admitted to this generation too.
                        self._shards.clear()
                        self._cache.drop()
                    self._shards[shard] = run
                    self._enter(CLUSTER, row)

    async def begin_next(self) -> None:
        """Begin the next generation: all servers discard the contents of Redis within a second or two.

        Raises Unreachable.
        """
        row = await self._read_row()
        await self._begin_after(row, row.get("run", AWAY))
        self.reconnect()

    async def check(self) -> None:
        """Follow the generation in MongoDB, and start or end the use of the fallback.

        Costs one read of MongoDB and a PING, and one write per second in the whole deployment. Raises Unreachable if
        Redis or MongoDB does not answer, also if the fallback is used from now on.
        """
        row = await self._read_row()
        self.recover_from_ms = row.get("mend")
        self.on_row(row)
        if self._run not in (None, row.get("run")) or row.get("gen", self.number) != self.number:
            self.reconnect()
        try:
            await self._cache.ping()
        except Unreachable:
            if self._unreachable_since is None:
                self._unreachable_since = time.monotonic()
            await self._handle_unreachable((time.monotonic() - self._unreachable_since) * 1000)
            raise
        self._unreachable_since = None
        if not self._cache.is_shared:
            _log.warning("redis_is_back")
            await self._cache.leave_fallback()
        if row["now"] - row.get("seen", 0) > _SEEN_INTERVAL_MS:
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1, "run": self._run}, [{"$set": {"seen": MONGO_NOW}}])

    async def is_away(self) -> bool:
        """Return whether the deployment has no Redis at this moment. Raises Unreachable if MongoDB does not answer."""
        return (await self._read_row()).get("run") == AWAY

    async def is_recovering(self) -> bool:
        """Return whether the recovery from a loss of Redis has not ended. Raises Unreachable."""
        return (await self._read_row()).get("mend") is not None

    def reconnect(self) -> None:
        """Drop all connections. New ones are admitted to the generation that is valid then."""
        self._run = None
        self._cache.drop()

    async def _handle_unreachable(self, unreachable_ms: float) -> None:
        """Use the fallback if no server reaches Redis, and stop using it if another server does."""
        if self._fallback is None:
            return
        row = await self._read_row()
        if row.get("run") != AWAY:
            if row["now"] - row.get("seen", row["now"]) < AWAY_AFTER_MS or unreachable_ms < AWAY_AFTER_MS / 4:
                # Other servers use Redis, and would not see what this one writes.
                await self._cache.leave_fallback()
                return
            url = await self._fallback.open()
            if not await self._begin_after(row, AWAY):
                return
            _log.error("redis_is_away")
            row = await self._read_row()
        else:
            url = await self._fallback.open()
        if self._cache.is_shared and row.get("run") == AWAY:
            self._enter(AWAY, row)
            self._cache.use_fallback(url)

    async def _read_row(self) -> dict[str, Any]:
        rows = await self._mongo.find(DEPLOYMENT, {"_id": 1}, projection=_PROJECTION)
        if not rows:
            raise Unreachable("the deployment was not opened yet")
        return rows[0]

    async def _begin_after(self, row: dict[str, Any], run: str, runs: Mapping[str, str] | None = None) -> bool:
        """Begin the generation after the row's. Returns false if another process was faster."""
        unchanged = {name: row.get(name, {"$exists": False}) for name in ("gen", "seen")}
        if run != AWAY:
            del unchanged["seen"]
        # Keeps the time when Redis was last seen through a generation without Redis.
        was = {"$cond": [{"$eq": ["$run", AWAY]}, "$was", "$seen"]}
        change = {
            "gen": row.get("gen", 0) + 1,
            "run": run,
            "runs": {"$literal": runs or {}},
            "since": MONGO_NOW,
            "seen": MONGO_NOW,
            "was": was,
        }
        return bool(await self._mongo.update_one(DEPLOYMENT, {"_id": 1} | unchanged, [{"$set": change}]))

    def _enter(self, run: str, row: dict[str, Any]) -> None:
        self._run, self.number = run, row["gen"]
        self.began_at = time.monotonic() - (row["now"] - row.get("since", 0)) / 1000
        self._cache.keys.enter(self.number)


def use_present_generation(mongo: Mongo, cache: Cache) -> None:
    """Make a cache use the generation that is valid, and never begin another one: for programs other than servers.

    Connections to another Redis than the deployment's are refused: calls raise Unreachable.
    """

    async def admit(run: str, shard: str = "") -> None:
        rows = await mongo.find(DEPLOYMENT, {"_id": 1}, projection=_PROJECTION)
        row = rows[0] if rows else {}
        valid = row.get("runs", {}).get(shard) if shard else row.get("run")
        if valid != run or (shard and row.get("run") != CLUSTER):
            raise Unreachable("the servers do not use this Redis")
        cache.keys.enter(row["gen"])

    cache.admit_with(admit)

"""Which contents of Redis count: those of the current generation, under its names of keys (ADR 19); and doing without (ADR 20).

The deployment's row in MongoDB holds the generation, and the run id of the Redis that it lives in. A Redis of another run id was
restarted, restored, or promoted: what it holds may be older than what MongoDB does, and stale is worse than lost. So its first
use begins the next generation, and nothing that it held is ever read. No connection is used before that is settled.

Where no server has heard of Redis for a while, a generation begins that lives in none: each server asks a spare one of its own
(`store/redis/fallback.py`). Whoever finds Redis again begins the next one. A server that alone can't reach Redis answers Unreachable: were it
to write past Redis, what the others see would be stale.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

import structlog

from store.base.errors import StoreError, Unreachable
from store.mongo.client import Mongo
from store.redis.cache import Cache, Call

_log = structlog.get_logger()

DEPLOYMENT = "deployment"
CLUSTER = "cluster"
"""The run id of a cluster, whose parts have theirs."""

AWAY = ""
"""The run id while the deployment does without Redis."""

UNSEEN_MS = 4_000
"""How long no server has heard of Redis before the deployment does without."""

_SAID_MS = 1_000
_NOW = {"$toLong": "$$NOW"}
_ROW = {"gen": 1, "run": 1, "runs": 1, "since": 1, "seen": 1, "mend": 1, "now": _NOW}


class FallbackServer(Protocol):
    """A Redis for this process alone."""

    async def open(self) -> str:
        """Its URL, once it serves. Idempotent. Raises Unreachable where there is none to be had."""


class Generations:
    """One process's view of the generation. `deployment` {_id 1, gen, run: of the Redis that gen lives in, runs: of a cluster's parts,
    by shard, since: when it began, seen: when a server last heard of that Redis, was: likewise, of the one before}, the times by MongoDB's clock."""

    def __init__(self, mongo: Mongo, cache: Cache, spare: FallbackServer | None) -> None:
        self._mongo = mongo
        self._cache = cache
        self._spare = spare
        self._lock = asyncio.Lock()
        self._run: str | None = None
        self._missed_at: float | None = None
        self._shards: dict[str, str] = {}
        self.number = 0
        self.began_at = 0.0
        """When this generation began, by `time.monotonic`, as far as known."""
        self.mend_from_ms: int | None = None
        """From when on what was stored may not have been shown to all: servers died, and what they left with Redis."""
        cache.admit = self.admit

    async def admit(self, run: str, shard: str = "") -> None:
        """Settles which generation a Redis of this run id is used under. Raises Unreachable where MongoDB can't tell.

        shard: which part of a cluster it is. A part that comes new holds nothing that is old; of one that was there, the run id tells.
        """
        if shard:
            await self._admit_shard(run, shard)
            return
        async with self._lock:
            while run != self._run:
                row = await self._read()
                if row.get("run") == run:
                    self._enter(run, row)
                elif await self._begin(row, run) and "gen" in row:
                    _log.warning("Redis is another one, or was restarted: nothing that it held counts")

    async def _admit_shard(self, run: str, shard: str) -> None:
        async with self._lock:
            while self._shards.get(shard) != run or self._run != CLUSTER:
                row = await self._read()
                was = row.get("gen", 0)
                held = row.get("runs", {}).get(shard) if row.get("run") == CLUSTER else None
                if row.get("run") != CLUSTER or held not in (None, run):
                    if await self._begin(row, CLUSTER, {shard: run}) and was:
                        _log.warning(
                            "a node of Redis that is another or was restarted: nothing that Redis held counts", run=run
                        )
                elif held is None:
                    here = {"_id": 1, "gen": was, "run": CLUSTER, f"runs.{shard}": {"$exists": False}}
                    await self._mongo.update_one(DEPLOYMENT, here, {"$set": {f"runs.{shard}": run}})
                else:
                    if (self._run, self.number) != (CLUSTER, was):
                        # Other nodes have to be admitted to this one too.
                        self._shards.clear()
                        self._cache.drop()
                    self._shards[shard] = run
                    self._enter(CLUSTER, row)

    async def begin(self) -> None:
        """Begins the next generation: all that Redis holds is to be forgotten, by all servers within a second or two. Raises
        Unreachable."""
        row = await self._read()
        await self._begin(row, row.get("run", AWAY))
        self.forget()

    async def check(self) -> None:
        """Looks for Redis, and follows where others began a generation that this process knows nothing of. Raises Unreachable where
        Redis, or MongoDB, does not answer; the deployment may do without Redis then.

        One read of MongoDB, and a PING; a write a second in all the deployment.
        """
        row = await self._read()
        self.mend_from_ms = row.get("mend")
        if self._run not in (None, row.get("run")) or row.get("gen", self.number) != self.number:
            # All connections are made anew: each is admitted to what counts.
            self.forget()
        try:
            await self._cache.ping()
        except Unreachable:
            if self._missed_at is None:
                self._missed_at = time.monotonic()
            await self._miss((time.monotonic() - self._missed_at) * 1000)
            raise
        self._missed_at = None
        if self._cache.spare is not None:
            _log.warning("Redis is back")
            await self._leave_spare()
        if row["now"] - row.get("seen", 0) > _SAID_MS:
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1, "run": self._run}, [{"$set": {"seen": _NOW}}])

    async def is_away(self) -> bool:
        """Whether the deployment does without Redis at this moment. Raises Unreachable where MongoDB can't tell."""
        return (await self._read()).get("run") == AWAY

    def forget(self) -> None:
        """Drops all connections. What Redis is has to be found out anew."""
        self._run = None
        self._cache.drop()

    async def close(self) -> None:
        """Ends what is connected to the spare Redis."""
        if self._cache.spare is not None:
            await self._cache.spare.close()

    async def _miss(self, missed_ms: float) -> None:
        """Redis has not answered for so long: the deployment does without where nobody else has heard of it, and this server where it does."""
        if self._spare is None:
            return
        row = await self._read()
        if row.get("run") != AWAY:
            if row["now"] - row.get("seen", row["now"]) < UNSEEN_MS or missed_ms < UNSEEN_MS / 4:
                # Others hear of it: what this server wrote would not reach what they see.
                await self._leave_spare()
                return
            url = await self._spare.open()
            if not await self._begin(row, AWAY):
                return
            _log.error("Redis is away: requests are answered from MongoDB, and nobody is told of what happens")
            row = await self._read()
        else:
            url = await self._spare.open()
        if self._cache.spare is None and row.get("run") == AWAY:
            self._cache.drop()
            self._enter(AWAY, row)
            self._cache.spare = Cache(url)

    async def _leave_spare(self) -> None:
        spare, self._cache.spare = self._cache.spare, None
        if spare is None:
            return
        try:
            await spare.one(Call("FLUSHALL", ()))
        except StoreError as error:
            _log.warning("the spare Redis was not emptied", reason=str(error))
        await spare.close()

    async def _read(self) -> dict[str, Any]:
        rows = await self._mongo.find(DEPLOYMENT, {"_id": 1}, projection=_ROW)
        if not rows:
            raise Unreachable("the deployment was not opened yet")
        return rows[0]

    async def _begin(self, row: dict[str, Any], run: str, runs: Mapping[str, str] | None = None) -> bool:
        """Whether it was this process that began the generation after the row's."""
        known = {name: row.get(name, {"$exists": False}) for name in ("gen", "seen")}
        if run != AWAY:
            del known["seen"]
        parts = {"$literal": runs or {}}
        # When Redis was last there, through a time without it too.
        was = {"$cond": [{"$eq": ["$run", AWAY]}, "$was", "$seen"]}
        change = {"gen": row.get("gen", 0) + 1, "run": run, "runs": parts, "since": _NOW, "seen": _NOW, "was": was}
        return bool(await self._mongo.update_one(DEPLOYMENT, {"_id": 1} | known, [{"$set": change}]))

    def _enter(self, run: str, row: dict[str, Any]) -> None:
        self._run, self.number = run, row["gen"]
        self.began_at = time.monotonic() - (row["now"] - row.get("since", 0)) / 1000
        self._cache.keys.enter(self.number)

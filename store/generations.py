"""Which contents of Redis count: those of the current generation, under its names of keys (ADR 19).

The deployment's row in MongoDB holds the generation, and the run id of the Redis that it lives in. A Redis of another run id was
restarted, restored, or promoted: what it holds may be older than what MongoDB does, and stale is worse than lost. So its first
use begins the next generation, and nothing that it held is ever read. No connection is used before that is settled.
"""

from __future__ import annotations

import asyncio

import structlog

from store.cache import Cache
from store.errors import Unreachable
from store.mongo import Mongo

_log = structlog.get_logger()

DEPLOYMENT = "deployment"
AWAY = ""
"""The run id while the deployment does without Redis."""


class Generations:
    """One process's view of the generation. `deployment` {_id 1, gen, run: of the Redis that gen lives in, since: when it began, by
    MongoDB's clock}."""

    def __init__(self, mongo: Mongo, cache: Cache) -> None:
        self._mongo = mongo
        self._cache = cache
        self._lock = asyncio.Lock()
        self._run: str | None = None
        self.number = 0
        cache.admit = self.admit

    async def admit(self, run: str) -> None:
        """Settles which generation a Redis of this run id is used under. Raises Unreachable where MongoDB can't tell."""
        async with self._lock:
            while run != self._run:
                row = await self._mongo.find_one(DEPLOYMENT, {"_id": 1})
                if row is None:
                    raise Unreachable("the deployment was not opened yet")
                if row.get("run") == run:
                    self._enter(run, row["gen"])
                    return
                was = row.get("gen", 0)
                if await self._begin(was, run):
                    if was:
                        _log.warning("another Redis, or one that was restarted: nothing that it held counts", run=run)
                    self._enter(run, was + 1)

    async def begin(self) -> None:
        """Begins the next generation: all that Redis holds is to be forgotten, by all servers within a second or two. Raises
        Unreachable."""
        row = await self._mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
        await self._begin(row.get("gen", 0), row.get("run", AWAY))
        await self.check()

    async def check(self) -> None:
        """Follows where another server began a generation that this process knows nothing of: all connections are made anew. One read
        of MongoDB."""
        if self._run is None:
            return
        row = await self._mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
        if (row.get("run"), row.get("gen")) != (self._run, self.number):
            self.forget()

    def forget(self) -> None:
        """Drops all connections. What Redis is has to be found out anew."""
        self._run = None
        self._cache.drop()

    async def _begin(self, was: int, run: str) -> bool:
        """Whether it was this process that began the generation after `was`."""
        known = {"gen": was} if was else {"gen": {"$exists": False}}
        change = [{"$set": {"gen": was + 1, "run": run, "since": "$$NOW"}}]
        return bool(await self._mongo.update_one(DEPLOYMENT, {"_id": 1} | known, change))

    def _enter(self, run: str, number: int) -> None:
        self._run, self.number = run, number
        self._cache.keys.enter(number)

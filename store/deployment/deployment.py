"""What belongs to the deployment as a whole: its name, indexes, time, worker numbers, and whether Redis lost what it held.

`deployment` {_id 1, name, time (ms: the highest that any server told), epoch of Redis, lost (ms: when it last lost all), egen (the
generation that the epoch is of), mend (ms: from when on what was stored has to be looked through), and what
`store/deployment/redis_generations.py` keeps there}.
`leases` {_id worker number, owner, until (ms of MongoDB's own time), from, used (ms of the deployment's time: the owner's
ids are made in between)}.
"""

from __future__ import annotations

import asyncio
import secrets

import structlog
from pymongo.errors import DuplicateKeyError

from store.base.clock import DeploymentClock
from store.base.errors import Unreachable
from store.base.snowflakes import WORKERS, Snowflakes
from store.deployment.redis_generations import DEPLOYMENT, FallbackServer, Generations
from store.mongo.client import Document, Mongo
from store.mongo.indexes import Indexes
from store.mongo.migrations import check_version, known_version
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_log = structlog.get_logger()

LEASE_MS = 60_000
"""How long a worker number stays with a process that no longer says it is alive."""

VALID_MS = LEASE_MS * 2 // 3
"""How long that process makes ids: it stops well before somebody else may take the number."""

FAR_AHEAD_MS = 24 * 3600 * 1000
"""A server whose clock is further ahead than this, of the deployment's time and of MongoDB's too, is not followed."""

_LEFT_MS = 30_000
"""What dead servers had not finished when Redis was last there was begun within that time."""

_MONGO_NOW = {"$toLong": "$$NOW"}

LEASES = "leases"


class Deployment:
    """One deployment, seen from one process."""

    def __init__(
        self, mongo: Mongo, cache: Cache, keys: Keys, clock: DeploymentClock, spare: FallbackServer | None = None
    ) -> None:
        """spare: asked for what Redis is asked for, while that is away."""
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self.generations = Generations(mongo, cache, spare)
        self.indexes = Indexes(mongo)
        self.owner = secrets.token_hex(8)
        self.name = ""
        self._looking = asyncio.Lock()
        self.redis_epoch = ""
        self.redis_lost_at_ms = 0

    async def open(self) -> None:
        """Indexes, the deployment's name and time, the state of Redis. Idempotent. Raises Unreachable, and NewerData where the data is not for
        this version of Confab."""
        await check_version(self._mongo)
        await self.indexes.open()
        await self._mongo.update_one(
            DEPLOYMENT,
            {"_id": 1},
            {"$setOnInsert": {"name": secrets.token_hex(4), "version": known_version()}},
            upsert=True,
        )
        row = await self._tell_time()
        self._clock.advance_to(row["time"])
        self.name = row["name"]
        try:
            await self.check_redis()
        except Unreachable:
            if self._cache.spare is None:
                raise

    async def _tell_time(self) -> Document:
        """The deployment's row, in which the highest time that any server has seen is kept, this one's included.

        A clock that is absurdly far ahead would take all others along, and for ever: it is not counted, and said so. Two
        things must speak against it, because a deployment may have slept, and MongoDB's clock may be the one that is
        wrong. Before any time was told there is nothing to compare with, so the first is taken as it is.
        """
        now = self._clock.now_ms()
        told = {"$ifNull": ["$time", now]}
        absurd = {"$and": [{"$gt": [now, {"$add": [time, FAR_AHEAD_MS]}]} for time in (told, _MONGO_NOW)]}
        highest = {"$cond": [absurd, "$time", {"$max": ["$time", now]}]}
        row = await self._mongo.find_one_and_update(DEPLOYMENT, {"_id": 1}, [{"$set": {"time": highest}}], after=True)
        if row is None:
            raise Unreachable("the deployment was not opened yet")
        if row["time"] < now:
            _log.error("this server's clock is far ahead of the others' and MongoDB's", ahead_ms=now - row["time"])
        return row

    async def check_redis(self) -> None:
        """Looks whether Redis has lost what it held, or what it holds does not count any more: `redis_epoch` is another one then."""
        async with self._looking:
            await self._check_redis()

    async def _check_redis(self) -> None:
        await self.generations.check()
        epoch = await self._read_epoch()
        if epoch == self.redis_epoch:
            return
        row = await self._mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
        number = self.generations.number
        if row.get("epoch") not in (None, epoch):
            lost_at = int(epoch.partition("-")[0])
            last_there = lost_at if row.get("egen") == number else min(lost_at, row.get("was") or lost_at)
            await self._mongo.update_one(
                DEPLOYMENT,
                {"_id": 1, "epoch": row["epoch"]},
                {
                    "$set": {"epoch": epoch, "egen": number},
                    "$max": {"lost": lost_at},
                    "$min": {"mend": last_there - _LEFT_MS},
                },
            )
            self.redis_lost_at_ms = max(lost_at, row.get("lost", 0))
        else:
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"epoch": epoch, "egen": number}})
            self.redis_lost_at_ms = row.get("lost", 0)
        self.redis_epoch = epoch

    async def mended(self, from_ms: int, epoch: str) -> None:
        """What was stored from then on is shown to all, as Redis knows it. epoch: of Redis when the looking through began; where
        it was lost once more since then, all is to be looked through again."""
        begun = {"_id": 1, "mend": from_ms, "epoch": epoch}
        if await self._mongo.update_one(DEPLOYMENT, begun, {"$unset": {"mend": ""}}):
            self.generations.mend_from_ms = None

    async def _read_epoch(self) -> str:
        """The mark of what Redis holds. Makes one where there is none: whoever finds it missing first."""
        while True:
            held = await self._cache.one(Call("GET", (self._keys.epoch,)))
            if held is not None:
                return bytes(held).decode()
            mark = f"{self._clock.now_ms()}-{secrets.token_hex(4)}"
            if await self._cache.one(Call("SET", (self._keys.epoch,), (mark, "NX"))):
                return mark

    async def lease(self, ids: Snowflakes, data_center: int) -> None:
        """Takes or renews a worker number for the id maker, and compares clocks. Raises Unreachable if all are taken.

        A clock that is behind goes on from the deployment's time once the number is good for that.
        """
        told: int = (await self._tell_time())["time"]
        first = data_center * WORKERS
        mine = first + ids.worker if ids.valid_until_ms else None
        for number in [mine] if mine is not None else range(first, first + WORKERS):
            now = max(self._clock.now_ms(), told)
            begin = await self._take(number, now + VALID_MS)
            if begin is not None and begin > now:
                # Whoever had it before may have made ids up to then.
                now = begin
                begin = await self._take(number, now + VALID_MS)
            if begin is not None:
                ids.worker, ids.valid_until_ms = number - first, now + VALID_MS
                self._clock.advance_to(now)
                return
        if mine is not None:
            ids.valid_until_ms = 0
        self._clock.advance_to(told)
        raise Unreachable("all worker numbers of this data centre are taken")

    async def _take(self, number: int, valid_until_ms: int) -> int | None:
        """Takes a worker number if it is ours or free, for ids of times before valid_until_ms.

        Answers from what time on they are made with it, or None. Whether it is free is for MongoDB's own clock to say:
        the servers' differ, and one far ahead would find every number free.
        """
        mine = {"$eq": ["$owner", self.owner]}
        free = {"$or": [mine, {"$lt": ["$until", _MONGO_NOW]}]}
        begin = {"$cond": [mine, "$from", {"$ifNull": ["$used", 0]}]}
        fields = {
            "owner": self.owner,
            "until": {"$add": [_MONGO_NOW, LEASE_MS]},
            "from": begin,
            "used": valid_until_ms,
        }
        change = {name: {"$cond": [free, value, f"${name}"]} for name, value in fields.items()}
        try:
            row = await self._mongo.find_one_and_update(
                LEASES, {"_id": number}, [{"$set": change}], upsert=True, after=True
            )
        except DuplicateKeyError:
            return None
        assert row is not None
        return int(row["from"]) if row["owner"] == self.owner else None

    async def close(self) -> None:
        """Ends what it opened."""
        await self.generations.close()

    async def release(self, ids: Snowflakes, data_center: int) -> None:
        """Gives the worker number back, and tells the time for the last time."""
        if ids.valid_until_ms:
            number, used = data_center * WORKERS + ids.worker, ids.stop()
            await self._mongo.update_one(
                LEASES,
                {"_id": number, "owner": self.owner},
                [{"$set": {"until": 0, "used": {"$max": ["$from", used]}}}],
            )
        await self._tell_time()

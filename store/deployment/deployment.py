"""State of the deployment as a whole: its name, indexes, time, worker numbers, and losses of Redis.

Fields of the row `deployment` {_id 1}, besides those of `redis_generations.py`:
    name   random, part of every cursor
    time   ms: the latest time that any server has reported
    epoch  the epoch of Redis: a mark in it that is lost with its contents
    egen   the generation that the epoch belongs to
    lost   ms: when Redis last lost its contents
    mend   ms: messages stored since then have to be checked by loss recovery; absent if there is nothing to check

Fields of a row of `leases` {_id worker number}:
    owner  the process that has the number
    until  ms by MongoDB's clock: when the lease ends
    from   ms of the deployment's time: the owner makes ids of later times only
    used   ms of the deployment's time: the owner makes ids of earlier times only
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
"""Duration of the lease of a worker number, unless it is renewed."""

VALID_MS = LEASE_MS * 2 // 3
"""Duration for which a lease allows to make ids. It ends well before another process may take the number."""

FAR_AHEAD_MS = 24 * 3600 * 1000
"""The clock of a server that is further ahead of both the deployment's time and MongoDB's is ignored."""

_MAX_DELIVERY_MS = 30_000
"""A delivery that was not finished when Redis was last seen had begun at most so long before."""

_RECENTLY_LOST_MS = 60_000

_MONGO_NOW = {"$toLong": "$$NOW"}

LEASES = "leases"


class Deployment:
    """One deployment, seen from one process."""

    def __init__(
        self, mongo: Mongo, cache: Cache, keys: Keys, clock: DeploymentClock, fallback: FallbackServer | None = None
    ) -> None:
        """Read nothing yet. fallback: used while Redis is away."""
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self.generations = Generations(mongo, cache, fallback)
        self.indexes = Indexes(mongo)
        self.owner = secrets.token_hex(8)
        self.name = ""
        self._check_lock = asyncio.Lock()
        self.redis_epoch = ""
        self.redis_lost_at_ms = 0
        """When Redis last lost its contents. 0: never."""

    @property
    def may_redis_lag(self) -> bool:
        """True if Redis may not know the newest messages: it lost its contents lately, or the fallback is used."""
        lost_recently = self._clock.now_ms() - self.redis_lost_at_ms < _RECENTLY_LOST_MS
        return lost_recently or not self._cache.is_shared

    async def open(self) -> None:
        """Create indexes, and read the deployment's name, its time and the state of Redis. Idempotent.

        Raises:
            Unreachable: A database does not answer. The Redis fallback is no failure.
            NewerData: The data was written by a later version of Confab.
        """
        await check_version(self._mongo)
        await self.indexes.open()
        await self._mongo.update_one(
            DEPLOYMENT,
            {"_id": 1},
            {"$setOnInsert": {"name": secrets.token_hex(4), "version": known_version()}},
            upsert=True,
        )
        row = await self._report_time()
        self._clock.advance_to(row["time"])
        self.name = row["name"]
        try:
            await self.check_redis()
        except Unreachable:
            if self._cache.is_shared:
                raise

    async def _report_time(self) -> Document:
        """Report this server's time, and return the deployment's row with the latest time that any server has reported.

        A clock that is absurdly far ahead would take all others along, for ever: it is ignored and logged. It must be
        ahead of two other clocks, because a deployment may have been stopped for long, and MongoDB's clock may be the
        wrong one. The first time ever reported has nothing to be compared with and is taken as it is.
        """
        now = self._clock.now_ms()
        latest = {"$ifNull": ["$time", now]}
        is_absurd = {"$and": [{"$gt": [now, {"$add": [time, FAR_AHEAD_MS]}]} for time in (latest, _MONGO_NOW)]}
        change = {"time": {"$cond": [is_absurd, "$time", {"$max": ["$time", now]}]}}
        row = await self._mongo.find_one_and_update(DEPLOYMENT, {"_id": 1}, [{"$set": change}], after=True)
        if row is None:
            raise Unreachable("the deployment was not opened yet")
        if row["time"] < now:
            _log.error("clock_far_ahead", ahead_ms=now - row["time"])
        return row

    async def check_redis(self) -> None:
        """Find out whether the contents of Redis were lost or became invalid: `redis_epoch` changes then.

        Raises Unreachable.
        """
        async with self._check_lock:
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
            last_seen = lost_at if row.get("egen") == number else min(lost_at, row.get("was") or lost_at)
            await self._mongo.update_one(
                DEPLOYMENT,
                {"_id": 1, "epoch": row["epoch"]},
                {
                    "$set": {"epoch": epoch, "egen": number},
                    "$max": {"lost": lost_at},
                    "$min": {"mend": last_seen - _MAX_DELIVERY_MS},
                },
            )
            self.redis_lost_at_ms = max(lost_at, row.get("lost", 0))
        else:
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"epoch": epoch, "egen": number}})
            self.redis_lost_at_ms = row.get("lost", 0)
        self.redis_epoch = epoch

    async def end_loss_recovery(self, from_ms: int, epoch: str) -> None:
        """Note that loss recovery has checked all messages stored since a time.

        Args:
            from_ms: Where it began.
            epoch: The epoch of Redis when it began. If Redis was lost again since then, all has to be checked again.
        """
        unchanged = {"_id": 1, "mend": from_ms, "epoch": epoch}
        if await self._mongo.update_one(DEPLOYMENT, unchanged, {"$unset": {"mend": ""}}):
            self.generations.recover_from_ms = None

    async def _read_epoch(self) -> str:
        """Return the epoch of Redis. The first process that finds none sets one, which begins with the time in ms."""
        while True:
            found = await self._cache.one(Call("GET", (self._keys.epoch,)))
            if found is not None:
                return bytes(found).decode()
            epoch = f"{self._clock.now_ms()}-{secrets.token_hex(4)}"
            if await self._cache.one(Call("SET", (self._keys.epoch,), (epoch, "NX"))):
                return epoch

    async def lease(self, ids: Snowflakes, data_center: int) -> None:
        """Take or renew a worker number for the id maker, and compare clocks. Raises Unreachable if all are taken.

        A clock that is behind is advanced to the deployment's time as soon as the number is leased for that time.
        """
        latest: int = (await self._report_time())["time"]
        first = data_center * WORKERS
        mine = first + ids.worker if ids.valid_until_ms else None
        for number in [mine] if mine is not None else range(first, first + WORKERS):
            now = max(self._clock.now_ms(), latest)
            begin = await self._take(number, now + VALID_MS)
            if begin is not None and begin > now:
                # The process that had the number before may have made ids up to then.
                now = begin
                begin = await self._take(number, now + VALID_MS)
            if begin is not None:
                ids.worker, ids.valid_until_ms = number - first, now + VALID_MS
                self._clock.advance_to(now)
                return
        if mine is not None:
            ids.valid_until_ms = 0
        self._clock.advance_to(latest)
        raise Unreachable("all worker numbers of this data centre are taken")

    async def _take(self, number: int, valid_until_ms: int) -> int | None:
        """Take a worker number, if it is ours or free, for ids of times before valid_until_ms.

        Returns the time from which on ids may be made with it, or None if it is taken. MongoDB's own clock decides
        whether it is free: the clocks of servers differ, and to one that is far ahead every number would seem free.
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

    async def release(self, ids: Snowflakes, data_center: int) -> None:
        """Give the worker number back, and report the time for the last time."""
        if ids.valid_until_ms:
            number, used = data_center * WORKERS + ids.worker, ids.stop()
            await self._mongo.update_one(
                LEASES,
                {"_id": number, "owner": self.owner},
                [{"$set": {"until": 0, "used": {"$max": ["$from", used]}}}],
            )
        await self._report_time()

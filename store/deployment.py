"""What belongs to the deployment as a whole: its name, indexes, worker numbers, and whether Redis lost what it held."""

from __future__ import annotations

import secrets

from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError

from store.cache import Cache, Call
from store.clock import Clock
from store.errors import Unreachable
from store.keys import Keys
from store.mongo import Mongo
from store.snowflakes import WORKERS, Snowflakes

LEASE_MS = 60_000
"""How long a worker number stays with a process that no longer says it is alive."""

DEPLOYMENT = "deployment"
LEASES = "leases"


async def ensure_indexes(mongo: Mongo) -> None:
    """Creates every index there is beside those on `_id`. Idempotent."""
    place = IndexModel([("c", 1), ("b", 1), ("s", 1)], unique=True)
    key = IndexModel([("u", 1), ("ik", 1)], partialFilterExpression={"ik": {"$exists": True}})
    await mongo.ensure_indexes("messages", [place, key])
    await mongo.ensure_indexes("claims", [IndexModel([("until", 1)], expireAfterSeconds=0)])


class Deployment:
    """One deployment, seen from one process."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self.owner = secrets.token_hex(8)
        self.name = ""
        self.redis_epoch = ""
        self.redis_lost_at_ms = 0

    async def open(self) -> None:
        """Indexes, the deployment's name, the state of Redis. Idempotent. Raises Unreachable."""
        await ensure_indexes(self._mongo)
        await self._mongo.update_one(
            DEPLOYMENT, {"_id": 1}, {"$setOnInsert": {"name": secrets.token_hex(4)}}, upsert=True
        )
        row = await self._mongo.find_one(DEPLOYMENT, {"_id": 1})
        self.name = row["name"] if row else ""
        await self.check_redis()

    async def check_redis(self) -> None:
        """Looks whether Redis has lost what it held: `redis_epoch` is another one then. One GET while it has not."""
        epoch = await self._read_epoch()
        if epoch == self.redis_epoch:
            return
        row = await self._mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
        if row.get("epoch") not in (None, epoch):
            lost_at = int(epoch.partition("-")[0])
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"epoch": epoch}, "$max": {"lost": lost_at}})
            self.redis_lost_at_ms = max(lost_at, row.get("lost", 0))
        else:
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"epoch": epoch}})
            self.redis_lost_at_ms = row.get("lost", 0)
        self.redis_epoch = epoch

    async def _read_epoch(self) -> str:
        """The mark of what Redis holds. Makes one where there is none: whoever finds it missing first."""
        while True:
            held = await self._cache.one(Call("GET", None, (self._keys.epoch,)))
            if held is not None:
                return bytes(held).decode()
            mark = f"{self._clock.now_ms()}-{secrets.token_hex(4)}"
            if await self._cache.one(Call("SET", None, (self._keys.epoch, mark, "NX"))):
                return mark

    async def lease(self, ids: Snowflakes, data_center: int) -> None:
        """Takes or renews a worker number for the id maker. Raises Unreachable if all are taken."""
        now = self._clock.now_ms()
        first = data_center * WORKERS
        mine = first + ids.worker if ids.valid_until_ms else None
        for number in [mine] if mine is not None else range(first, first + WORKERS):
            free = {"_id": number, "$or": [{"owner": self.owner}, {"until": {"$lt": now}}]}
            try:
                await self._mongo.find_one_and_update(
                    LEASES, free, {"$set": {"owner": self.owner, "until": now + LEASE_MS}}, upsert=True
                )
            except DuplicateKeyError:
                continue
            ids.worker = number - first
            # Stop making ids well before somebody else may take the number.
            ids.valid_until_ms = now + LEASE_MS * 2 // 3
            return
        if mine is not None:
            ids.valid_until_ms = 0
        raise Unreachable("all worker numbers of this data centre are taken")

    async def release(self, ids: Snowflakes, data_center: int) -> None:
        """Gives the worker number back."""
        if ids.valid_until_ms:
            ids.valid_until_ms = 0
            await self._mongo.update_one(
                LEASES, {"_id": data_center * WORKERS + ids.worker, "owner": self.owner}, {"$set": {"until": 0}}
            )

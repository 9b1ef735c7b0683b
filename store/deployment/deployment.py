"""The deployment as a whole: its name and losses of Redis, with access to its indexes, generations and worker numbers.

Fields of the row `deployment` {_id 1}, in addition to those of `redis_generations.py`, `reach_times.py`,
`deployment_time.py` and `shared_formats.py`:
    name   random, part of every cursor
    epoch  the epoch of Redis: a mark in it that is lost with its contents
    egen   the generation that the epoch belongs to
    lost   ms: when Redis last lost its contents
    fkey   random, in hexadecimal digits: signs addresses of files, unless a setting has the key (ADR 76)
    ekey   random, in hexadecimal digits: key of the names of erased users (ADR 94)
    search the state of the index of messages: see `store/search/index_state.py`
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from store.base.clock import DeploymentClock
from store.base.errors import StoreError, Unreachable
from store.deployment.deployment_time import DeploymentTime
from store.deployment.reach_times import MAX_DELIVERY_MS
from store.deployment.redis_generations import FallbackServer, Generations
from store.deployment.shared_formats import SHARED_FORMAT, IncompatibleServer, SharedFormats
from store.deployment.worker_numbers import LEASES, WorkerNumbers
from store.mongo.client import Document, Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.indexes import Indexes
from store.mongo.migrations import check_version, known_version
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.search.index_state import new_state
from store.search.index_states import INDEX_STATE, IndexStates

_SLOTS_FORMAT = 2
"""The first shared format whose servers know generations of slots."""

_RECENTLY_LOST_MS = 60_000


class Deployment:
    """One deployment, seen from one process."""

    def __init__(
        self,
        mongo: Mongo,
        cache: Cache,
        keys: Keys,
        clock: DeploymentClock,
        fallback: FallbackServer | None = None,
        *,
        lease_mongo: Mongo | None = None,
        has_directory: bool = False,
        has_search: bool = True,
        shared_format: int = SHARED_FORMAT,
    ) -> None:
        """Connect the parts; `open` reads the state.

        Args:
            mongo: The deployment's MongoDB.
            cache: Its Redis.
            keys: Names of its Redis keys.
            clock: Its time.
            fallback: Used while Redis is unavailable.
            lease_mongo: The same MongoDB with connections of its own, for the lease of the worker number.
            has_directory: Users may search the directory.
            has_search: This process writes the index of messages.
            shared_format: The shared format of this process; tests change it.
        """
        self._mongo = mongo
        self._lease_mongo = lease_mongo or mongo
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self.generations = Generations(mongo, cache, fallback)
        self.indexes = Indexes(mongo, has_directory=has_directory)
        self.owner = secrets.token_hex(8)
        """Random name of this process."""
        self._time = DeploymentTime(mongo, clock)
        self._has_search = has_search
        self.worker_numbers = WorkerNumbers(
            self._lease_mongo,
            clock,
            DeploymentTime(self._lease_mongo, clock),
            self.owner,
            notes_messages=has_search,
            shared_format=shared_format,
        )
        self.formats = SharedFormats(self._lease_mongo, LEASES, self.owner, shared_format)
        self.generations.may_differ_by_slot = self._may_differ_by_slot
        self.index_states = IndexStates(mongo, clock, self.owner, lambda: self.redis_epoch)
        self.generations.on_row = lambda row: self.index_states.note(row, self.redis_epoch)
        self.name = ""
        self._check_lock = asyncio.Lock()
        self.file_address_key: bytes | None = None
        """Key of addresses of files, the same on all servers; None until `open` has read it."""
        self.erased_user_key: bytes | None = None
        """Key of the names of erased users, the same on all servers; None until `open` has read it."""
        self.redis_epoch = ""
        self.epoch_generation = 0
        """The newest generation when `redis_epoch` was read."""
        self.redis_lost_at_ms = 0
        """Time at which Redis last lost its contents. 0: never."""

    async def _may_differ_by_slot(self) -> bool:
        """Return whether all servers understand that slots have different generations."""
        if self.formats.oldest is None:
            # This process is starting, or is no server. Without an answer, a generation begins for all slots.
            with suppress(StoreError, IncompatibleServer):
                await self.formats.check()
        return await self.formats.all_servers_have(_SLOTS_FORMAT)

    @property
    def may_redis_lag(self) -> bool:
        """True if Redis may not know the newest messages: it lost its contents lately, or the fallback is used."""
        return self.redis_was_lost_since(self._clock.now_ms() - _RECENTLY_LOST_MS) or not self._cache.is_shared

    def redis_was_lost_since(self, at_ms: int) -> bool:
        """Return whether Redis lost contents at or after a time (ms).

        Also returns True if a new connection has shown a loss that `check_redis` has not noted yet.
        """
        return self.redis_lost_at_ms >= at_ms or self.generations.number != self.epoch_generation

    def refuse_calls(self) -> None:
        """Make all calls of MongoDB fail from now on: see `Mongo.refuse_calls`."""
        self._mongo.refuse_calls()
        self._lease_mongo.refuse_calls()

    async def open(self) -> None:
        """Create indexes, and read the deployment's name, key, time and the state of Redis. Idempotent.

        Raises:
            Unreachable: A database does not answer. The Redis fallback is no failure.
            NewerData: The data was written by a later version of Confab.
        """
        await check_version(self._mongo)
        await self.indexes.open()
        await self._mongo.update_one(
            DEPLOYMENT,
            {"_id": 1},
            {
                "$setOnInsert": {
                    "name": secrets.token_hex(4),
                    "version": known_version(),
                    INDEX_STATE: new_state(self._clock.now_ms()),
                }
            },
            upsert=True,
        )
        # Rows of earlier versions have no key.
        without_key = {"_id": 1, "fkey": {"$exists": False}}
        await self._mongo.update_one(DEPLOYMENT, without_key, {"$set": {"fkey": secrets.token_hex(32)}})
        without_key = {"_id": 1, "ekey": {"$exists": False}}
        await self._mongo.update_one(DEPLOYMENT, without_key, {"$set": {"ekey": secrets.token_hex(32)}})
        row = await self._time.report()
        self._clock.advance_to(row["time"])
        self._take_names(row)
        try:
            await self.check_redis()
        except Unreachable:
            if self._cache.is_shared:
                raise
        if self._has_search:
            # Before this process takes the worker number of one that has noted no messages.
            await self.watch_servers_without_notes()
        else:
            # Before the first message that this process does not note. Servers that search know it within seconds.
            now = self._clock.now_ms()
            await self.index_states.watch(now, now)

    async def read(self) -> None:
        """Read the name and the keys of a deployment that servers have opened. Changes nothing. Raises Unreachable."""
        row = await self._mongo.find_one(DEPLOYMENT, {"_id": 1})
        if row is None or "ekey" not in row:
            raise Unreachable("the deployment was not opened yet")
        self._take_names(row)

    def _take_names(self, row: Document) -> None:
        self.name = row["name"]
        self.file_address_key = bytes.fromhex(row["fkey"])
        self.erased_user_key = bytes.fromhex(row["ekey"])

    async def watch_servers_without_notes(self) -> None:
        """Look for servers that note no messages for the index: theirs become part of its past. Raises Unreachable."""
        seen_at = self._clock.now_ms()
        await self.index_states.watch(await self.worker_numbers.find_unnoted_until_ms(), seen_at)

    async def check_redis(self) -> None:
        """Check whether the contents of Redis were lost or became invalid. Then `redis_epoch` changes.

        Raises Unreachable.
        """
        async with self._check_lock:
            await self._check_redis()

    async def _check_redis(self) -> None:
        await self.generations.check()
        oldest = self.formats.oldest
        if self.generations.differs_by_slot and oldest is not None and oldest < _SLOTS_FORMAT:
            # A server of an earlier version has started. It uses the newest generation for all slots.
            await self.generations.begin_next()
        number = self.generations.number
        try:
            epoch = await self._read_epoch()
        except Unreachable:
            if not self._cache.is_cluster:
                raise
            # The shard with the mark is away.
            if number == self.epoch_generation:
                return
            epoch = f"{self.generations.begun_ms}-{number}"
        if number != self.generations.number:
            # A new connection has shown that a shard was replaced.
            await self._check_redis()
            return
        if epoch == self.redis_epoch == self.generations.noted_epoch:
            self.epoch_generation = number
            # Another process may have noted an epoch that it read before a loss. With it, no recovery would end.
            return
        row = await self._mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
        if row.get("epoch") not in (None, epoch):
            lost_at = int(epoch.partition("-")[0])
            last_seen = lost_at if row.get("egen") == number else min(lost_at, row.get("was") or lost_at)
            await self._mongo.update_one(
                DEPLOYMENT,
                {"_id": 1, "epoch": row["epoch"]},
                {
                    "$set": {"epoch": epoch, "egen": number},
                    "$max": {"lost": lost_at},
                    "$min": {"mend": last_seen - MAX_DELIVERY_MS},
                },
            )
            self.redis_lost_at_ms = max(lost_at, row.get("lost", 0))
        else:
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"epoch": epoch, "egen": number}})
            self.redis_lost_at_ms = row.get("lost", 0)
        self.redis_epoch, self.epoch_generation = epoch, number

    async def has_contents(self) -> bool:
        """Return whether Redis has not been lost, or all messages were found again since then.

        Also right if no process has noticed the loss yet. Raises Unreachable.
        """
        found = await self._cache.one(Call("GET", (self._keys.epoch,)))
        if found is None or bytes(found).decode() != self.redis_epoch:
            return False
        return not await self.generations.is_recovering()

    async def end_loss_recovery(self, from_ms: int, epoch: str) -> None:
        """Note that loss recovery has checked all messages stored since a time.

        Args:
            from_ms: That time.
            epoch: The epoch of Redis when the recovery began. If Redis was lost since then, nothing is noted.
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

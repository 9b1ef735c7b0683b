"""The generation of Redis: which contents are valid (ADR 19), and when the Redis fallback is used (ADR 20).

The deployment's row in MongoDB holds the number of the generation and the run id of the Redis that it lives in. A Redis
with another run id was restarted, restored or promoted, so it may hold older data than MongoDB. Its first use therefore
begins the next generation, whose key names are new, and nothing that it held before is read. No connection is used
before that is decided.

A shard of a cluster that was restarted or replaced begins a generation for its slots alone (ADR 105). The key names of
other slots stay as they are, and so do the connections to other shards.

When no server has reached Redis for `AWAY_AFTER_MS`, a generation without a Redis begins: each server uses a Redis
fallback of its own. The first server that reaches Redis again begins the next generation. If only one server cannot
reach Redis, it raises Unreachable instead: the others would not see what it writes.

Fields of the row `deployment` {_id 1}, in addition to those of `reach_times.py`. Times are in ms by MongoDB's clock:
    gen    number of the newest generation
    slots  the generations of a cluster's slots, unless all have the newest one: see `slot_generations.py`
    run    run id of the Redis that it lives in: CLUSTER for a cluster, AWAY for no Redis
    runs   run ids of a cluster's primaries, by shard id
    epochs their configuration epochs, by shard id
    first  configuration epochs of the primaries with slots when the servers began to use the cluster, by node id
    begun  when the newest generation began
    since  when the last generation of all slots began
    was    when all of the previous Redis was last reached
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

import structlog
from redis.exceptions import ConnectionError as RedisConnectionError

from store.base.errors import Unreachable
from store.deployment import known_shards
from store.deployment.known_shards import CLUSTER
from store.deployment.lost_notes import LostNotes
from store.deployment.reach_times import LAST_WHOLE, ReachTimes
from store.deployment.slot_generations import SlotGenerations, is_outdated
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW
from store.redis.admission import RedisIdentity
from store.redis.cache import Cache
from store.redis.keys import slot_of_tag

_log = structlog.get_logger()

AWAY = ""
"""The run id while the deployment has no Redis."""

_FIELDS = (
    "gen",
    "run",
    "runs",
    "epochs",
    "begun",
    "since",
    "seen",
    "noted",
    "whole",
    "apart",
    "mend",
    "epoch",
    "search",
)
_PROJECTION = dict.fromkeys(_FIELDS, 1) | {"now": MONGO_NOW}
ROW_FIELDS = _PROJECTION | {"slots": 1, "first": 1}
"""The fields of the row that say which contents of Redis are valid."""


async def _always() -> bool:
    return True


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
        self._shards: dict[str, str] = {}
        """The run ids under which this process uses the shards of a cluster."""
        self._slots = SlotGenerations.uniform(0)
        self.number = 0
        """The newest generation."""
        self.begun_ms = 0
        """Time at which the newest generation began, by MongoDB's clock."""
        self.began_at = 0.0
        """Time at which the last generation of all slots began, by `time.monotonic`, as far as known."""
        self.recover_from_ms: int | None = None
        """Messages stored since then may not be delivered completely. None: there is nothing to recover."""
        self.is_apart = False
        """True while a shard is away for all servers. Messages stored meanwhile are checked when it is back."""
        self.noted_epoch: str | None = None
        """The epoch of Redis that the row had when it was last checked."""
        self.lost_notes = LostNotes()
        """Times of messages and changes whose notes are lost, because Redis or a shard was away."""
        self._reach_times = ReachTimes(mongo, self.lost_notes)
        self.on_row: Callable[[dict[str, Any]], object] = lambda _: None
        """Called with the deployment's row whenever `check` has read it."""
        self.may_differ_by_slot: Callable[[], Awaitable[bool]] = _always
        """Returns whether all servers understand that slots have different generations."""
        cache.admit_with(self.admit)

    async def admit(self, redis: RedisIdentity) -> None:
        """Determine the generation in which a Redis is used.

        If a known shard has another run id, a generation begins for its slots. The same happens if an
        unknown shard may have old data: it may be a known shard under another id. Raises Unreachable if MongoDB does
        not answer, and RedisConnectionError for a primary of a shard in which another one has taken over.
        """
        if redis.shard:
            await self._admit_shard(redis)
            return
        async with self._lock:
            while redis.run != self._run:
                row = await self._read_row()
                if row.get("run") == redis.run:
                    self._enter(redis.run, row)
                elif await self._begin_after(row, redis.run) and "gen" in row:
                    _log.warning("redis_contents_discarded", run=redis.run)

    async def _admit_shard(self, redis: RedisIdentity) -> None:
        run, shard = redis.run, redis.shard
        async with self._lock:
            while self._shards.get(shard) != run or self._run != CLUSTER:
                row = await self._read_row()
                number = row.get("gen", 0)
                known_run = row.get("runs", {}).get(shard)
                if row.get("run") != CLUSTER:
                    if await self._begin_after(row, CLUSTER, redis) and number:
                        _log.warning("redis_contents_discarded", run=run, shard=shard)
                elif known_run is None and not known_shards.may_have_old_data(row, redis):
                    without_shard = {"_id": 1, "gen": number, "run": CLUSTER, f"runs.{shard}": {"$exists": False}}
                    await self._mongo.update_one(DEPLOYMENT, without_shard, {"$set": known_shards.shard_fields(redis)})
                elif known_run != run:
                    if redis.config_epoch < row.get("epochs", {}).get(shard, 0):
                        # It was paused or cut off, and does not know yet that another one has taken over.
                        raise RedisConnectionError("another node has taken over this shard of Redis")
                    await self._replace_shard(row, redis)
                else:
                    self._follow(row)
                    self._shards[shard] = run

    async def _replace_shard(self, row: dict[str, Any], redis: RedisIdentity) -> None:
        """Begin a generation for the slots of a shard whose run id is not the one in the row.

        It begins for all slots if some servers do not know generations of slots, or if there are too many ranges.
        """
        number, slots = row["gen"] + 1, (await redis.read_report()).slots
        field = SlotGenerations.from_row(row).begin(slots, number).to_field(number)
        if field is None or not await self.may_differ_by_slot():
            if await self._begin_after(row, CLUSTER, redis):
                _log.warning("redis_contents_discarded", run=redis.run, shard=redis.shard)
        elif await self._begin_for_slots(row, field, redis):
            _log.warning("redis_shard_contents_discarded", run=redis.run, shard=redis.shard, slots=len(slots))

    async def begin_next(self, slots: Collection[int] | None = None) -> None:
        """Begin the next generation: all servers discard the contents of Redis within a second or two.

        slots: discard only these slots of a cluster, or all slots of their shards if they are too scattered. Raises
            Unreachable.
        """
        row = await self._read_row()
        if slots is not None and row.get("run") == CLUSTER and await self.may_differ_by_slot():
            number, present = row["gen"] + 1, SlotGenerations.from_row(row)
            for chosen in (slots, self._cache.widen_slots(slots)):
                if (field := present.begin(chosen, number).to_field(number)) is not None:
                    await self._begin_for_slots(row, field)
                    await self._follow_present_row()
                    return
        await self._begin_after(row, row.get("run", AWAY))
        self.reconnect()

    async def check(self) -> None:
        """Follow the generation in MongoDB, and start or end the use of the fallback.

        Costs one read of MongoDB and a PING of each shard, and one write per second in the whole deployment. Raises
        Unreachable if Redis or MongoDB does not answer, even if it starts to use the fallback. A cluster of which
        a part answers is reachable.
        """
        row = await self._read_row(_PROJECTION)
        self.recover_from_ms, self.is_apart = row.get("mend"), "apart" in row
        self.noted_epoch = row.get("epoch")
        self.lost_notes.set_time(row["now"], row["asked_at"])
        self.on_row(row)
        if self._run not in (None, row.get("run")) or row.get("gen", self.number) != self.number:
            await self._follow_present_row()
        elif self.differs_by_slot and is_outdated(row):
            # This process was paused, or the others do not see its writes: they use the newest names for all slots.
            await self.begin_next()
        try:
            is_whole = await self._cache.ping()
        except Unreachable:
            self._reach_times.note_unreachable()
            await self._handle_unreachable()
            raise
        if not self._cache.is_shared:
            _log.warning("redis_is_back")
            await self._cache.leave_fallback()
        await self._reach_times.note_reached(row, self._run, self.begun_ms, is_whole=is_whole)

    @property
    def differs_by_slot(self) -> bool:
        """True if slots have different generations."""
        return not self._cache.keys.is_uniform

    def is_later(self, key: str, number: int) -> bool:
        """Return whether the generation of a key's slot has a greater number than the given one."""
        tag = key.partition("{")[2].partition("}")[0]
        return self._slots.of(slot_of_tag(tag)) > number

    async def is_away(self) -> bool:
        """Return whether the deployment has no Redis at this moment. Raises Unreachable if MongoDB does not answer."""
        return (await self._read_row()).get("run") == AWAY

    async def is_recovering(self) -> bool:
        """Return whether the recovery from a loss of Redis has not ended. Raises Unreachable."""
        return (await self._read_row()).get("mend") is not None

    def reconnect(self) -> None:
        """Drop all connections. New ones are admitted to the generation that is valid then."""
        self._run = None
        self._shards.clear()
        self._cache.drop()

    async def _follow_present_row(self) -> None:
        """Use the generation that MongoDB has."""
        async with self._lock:
            self._follow(await self._read_row())

    def _follow(self, row: Mapping[str, Any]) -> None:
        """Use the generation of a row, and drop the connections to each Redis that was replaced.

        All connections are dropped, unless the generation is only for some slots of the same cluster.
        """
        if (self._run, self.number) == (row.get("run"), row.get("gen")):
            return
        is_same_cluster = self._run == row.get("run") == CLUSTER and row["gen"] > self.number
        if not is_same_cluster or SlotGenerations.from_row(row).by_slot(row["gen"]) is None:
            self.reconnect()
        else:
            replaced = {shard for shard, run in self._shards.items() if row["runs"].get(shard) != run}
            for shard in replaced:
                del self._shards[shard]
            self._cache.drop_shards(replaced)
        if row.get("run") == CLUSTER:
            self._enter(CLUSTER, row)

    async def _handle_unreachable(self) -> None:
        """Use the fallback if no server reaches Redis, and stop using it if another server does."""
        if self._fallback is None:
            return
        row = await self._read_row()
        if row.get("run") != AWAY:
            if not self._reach_times.is_away(row):
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

    async def _read_row(self, projection: Mapping[str, Any] = ROW_FIELDS) -> dict[str, Any]:
        asked_at = time.monotonic()
        rows = await self._mongo.find(DEPLOYMENT, {"_id": 1}, projection=projection)
        if not rows:
            raise Unreachable("the deployment was not opened yet")
        return rows[0] | {"asked_at": asked_at}

    async def _begin_after(self, row: dict[str, Any], run: str, admitted: RedisIdentity | None = None) -> bool:
        """Begin the generation after the row's. Returns false if another process was faster.

        admitted: the primary of a cluster whose admission begins the generation, if an admission does.
        """
        unchanged = {name: row.get(name, {"$exists": False}) for name in ("gen", "seen")}
        if run != AWAY:
            del unchanged["seen"]
        if admitted is not None:
            unchanged |= known_shards.run_id_condition(row, admitted)
        change = {
            "gen": row.get("gen", 0) + 1,
            "slots": "$$REMOVE",
            "run": run,
            "begun": MONGO_NOW,
            "since": MONGO_NOW,
            "seen": MONGO_NOW,
            "noted": MONGO_NOW,
            # Keeps the time when Redis was last seen through a generation without Redis.
            "was": {"$cond": [{"$eq": ["$run", AWAY]}, "$was", LAST_WHOLE]},
        }
        shards = await known_shards.fields_of_new_generation(row, run, admitted)
        change |= {name: {"$literal": value} for name, value in shards.items()}
        return bool(await self._mongo.update_one(DEPLOYMENT, {"_id": 1} | unchanged, [{"$set": change}]))

    async def _begin_for_slots(
        self, row: Mapping[str, Any], slots: Mapping[str, Any], replaced: RedisIdentity | None = None
    ) -> bool:
        """Begin the generation after the row's for some slots of the cluster. Returns false if another was faster.

        slots: the stored form of the new `SlotGenerations`. replaced: the shard with a new run id.
        """
        change = {"gen": slots["gen"], "slots": {"$literal": slots}, "begun": MONGO_NOW, "was": LAST_WHOLE}
        change["noted"] = MONGO_NOW
        unchanged = {"_id": 1, "gen": row["gen"], "run": CLUSTER}
        if replaced is not None:
            change |= {name: {"$literal": value} for name, value in known_shards.shard_fields(replaced).items()}
            unchanged |= known_shards.run_id_condition(row, replaced)
        return bool(await self._mongo.update_one(DEPLOYMENT, unchanged, [{"$set": change}]))

    def _enter(self, run: str, row: Mapping[str, Any]) -> None:
        self._run, self.number = run, row["gen"]
        self.begun_ms = row.get("begun", row.get("since", 0))
        self._slots = SlotGenerations.from_row(row)
        # Counted from before the question, so that a slow answer does not make this time too late. Stale caches that
        # were added since this time are still remembered.
        self.began_at = row["asked_at"] - (row["now"] - row.get("since", 0)) / 1000
        self._cache.keys.enter(self.number, self._slots.by_slot(self.number))

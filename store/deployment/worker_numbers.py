"""Leases of worker numbers, which make the ids of different servers unique.

Fields of a row of `leases` {_id worker number}:
    owner  the process that has the number
    until  ms by MongoDB's clock: when the lease ends
    from   ms of the deployment's time: the owner makes ids of later times only
    used   ms of the deployment's time: the owner makes ids of earlier times only
    ring   the owner, if it is in the ring of servers (servers of earlier versions leave the field as it is)
    notes  the owner, if it notes messages for the index (others leave the field as it is)
    format {by: the owner, n: its shared format}, see `shared_formats.py` (others leave the field as it is)
"""

from __future__ import annotations

from pymongo.errors import DuplicateKeyError

from store.base.clock import DeploymentClock
from store.base.errors import Unreachable
from store.base.snowflakes import WORKERS, Snowflakes
from store.deployment.deployment_time import DeploymentTime
from store.deployment.shared_formats import SHARED_FORMAT, format_field
from store.mongo.client import Mongo
from store.mongo.mongo_clock import MONGO_NOW

LEASES = "leases"

LEASE_MS = 60_000
"""Duration of the lease of a worker number, unless it is renewed."""

VALID_MS = LEASE_MS * 2 // 3
"""Duration for which a lease allows to make ids. It ends well before another process may take the number."""


class WorkerNumbers:
    """Leases worker numbers for one process."""

    def __init__(
        self,
        mongo: Mongo,
        clock: DeploymentClock,
        time: DeploymentTime,
        owner: str,
        *,
        notes_messages: bool = True,
        shared_format: int = SHARED_FORMAT,
    ) -> None:
        """Lease nothing yet.

        owner: names the process in its leases. notes_messages: the process notes messages for the index (ADR 85).
        shared_format: of the process (ADR 104).
        """
        self._shared_format = shared_format
        self._notes_messages = notes_messages
        self._mongo = mongo
        self._clock = clock
        self._time = time
        self._owner = owner

    async def lease(self, ids: Snowflakes, data_center: int) -> None:
        """Take or renew a worker number for creating ids, and compare clocks. Raises Unreachable if all are taken.

        A clock that is behind is advanced to the deployment's time as soon as the number is leased for that time.
        """
        latest: int = (await self._time.report())["time"]
        first = data_center * WORKERS
        mine = first + ids.worker if ids.valid_until_ms else None
        for number in [mine] if mine is not None else range(first, first + WORKERS):
            now = max(self._clock.now_ms(), latest)
            begin = await self._take(number, now + VALID_MS)
            if begin is not None and begin > now:
                # The process that had the number before may have created ids up to that time.
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

        Returns the time from which on ids may be created with it, or None if it is taken. MongoDB's own clock decides
        whether it is free: the clocks of servers differ, and a server that is far ahead would consider all numbers
        free.
        """
        mine = {"$eq": ["$owner", self._owner]}
        free = {"$or": [mine, {"$lt": ["$until", MONGO_NOW]}]}
        begin = {"$cond": [mine, "$from", {"$ifNull": ["$used", 0]}]}
        fields = {
            "owner": self._owner,
            "until": {"$add": [MONGO_NOW, LEASE_MS]},
            "from": begin,
            "used": valid_until_ms,
            "ring": self._owner,
            "format": format_field(self._owner, self._shared_format),
        }
        if self._notes_messages:
            fields["notes"] = self._owner
        change = {name: {"$cond": [free, value, f"${name}"]} for name, value in fields.items()}
        try:
            row = await self._mongo.find_one_and_update(
                LEASES, {"_id": number}, [{"$set": change}], upsert=True, after=True
            )
        except DuplicateKeyError:
            return None
        assert row is not None
        return int(row["from"]) if row["owner"] == self._owner else None

    async def list_ring(self) -> list[str]:
        """Return the processes with a lease that are in the ring of servers. Raises Unreachable."""
        held = {"$and": [{"$gt": ["$until", MONGO_NOW]}, {"$eq": ["$ring", "$owner"]}]}
        return [row["owner"] for row in await self._mongo.find(LEASES, {"$expr": held}, projection={"owner": 1})]

    async def find_unnoted_until_ms(self) -> int | None:
        """Return the time (ms) before which processes that note no messages for the index make ids; None: none do.

        It is in the past if they have ended. Raises Unreachable.
        """
        others = {"$expr": {"$ne": ["$notes", "$owner"]}}
        rows = await self._mongo.find(LEASES, others, projection={"used": 1})
        return max((row.get("used", 0) for row in rows), default=None)

    async def release(self, ids: Snowflakes, data_center: int) -> None:
        """Give the worker number back, and report the time for the last time."""
        if ids.valid_until_ms:
            number, used = data_center * WORKERS + ids.worker, ids.stop()
            await self._mongo.update_one(
                LEASES,
                {"_id": number, "owner": self._owner},
                [{"$set": {"until": 0, "used": {"$max": ["$from", used]}}}],
            )
        await self._time.report()

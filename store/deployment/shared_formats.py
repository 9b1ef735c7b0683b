"""The format of all that servers share while they run, and which formats the servers of a deployment have (ADR 104).

SHARED_FORMAT covers frames of the bus, keys and arguments of scripts, cached records and logs in Redis, and rows of
queues. Each server writes its format to the row of its worker number. Neighbouring formats work together.

Fields of the row `deployment` {_id 1}:
    formats  {format: ms by MongoDB's clock}: when a server of this format was last seen by one of a later format
    minfmt   the lowest format that servers may have, because the deployment uses it; absent: 1
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from store.base.errors import StoreError, Unreachable
from store.mongo.client import Document, Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW

_log = structlog.get_logger()

SHARED_FORMAT = 2
"""The format of this version of Confab. `tests/upgrade/shared_formats.txt` says what changed with each."""

FIRST_FORMAT = 1
"""The format of servers that write none."""

SETTLED_MS = 600_000
"""Time since the last sign of an older server after which its format counts as gone.

A server may come back after its lease has ended, and an operator may go back to the previous version.
"""


class IncompatibleServer(Exception):
    """This version of Confab cannot work together with servers that run, or with what the deployment uses."""


def format_field(owner: str, number: int) -> Document:
    """Return the value of the field `format` of a lease. A server of an earlier version leaves the field as it is."""
    return {"by": owner, "n": number}


def format_of(lease: Document) -> int:
    """Return the format of the server that has a lease."""
    field = lease.get("format") or {}
    return int(field["n"]) if field.get("by") == lease["owner"] else FIRST_FORMAT


class SharedFormats:
    """The formats of all servers, as one process has read them."""

    def __init__(self, mongo: Mongo, leases: str, owner: str, number: int = SHARED_FORMAT) -> None:
        """Know nothing until `check`.

        Args:
            mongo: The deployment's MongoDB.
            leases: The collection of the leases of worker numbers.
            owner: This process in its lease.
            number: The format of this process.
        """
        self._mongo = mongo
        self._leases = leases
        self._owner = owner
        self.number = number
        self.oldest: int | None = None
        """The oldest format of servers that live, or may still live; None until the first `check`."""
        self._minimum = FIRST_FORMAT
        self.on_incompatible: Callable[[], None] = lambda: None
        """Called if this process must end: the deployment has begun to use a later format. It must not block."""

    async def check(self) -> None:
        """Read the formats of all servers. Called before and after the first lease, and at each renewal.

        Raises:
            IncompatibleServer: This process must not serve.
            Unreachable: MongoDB does not answer; what was read before stays.
        """
        # Another server may raise the minimum at the same time. It reads the leases after that, and this process reads
        # the minimum after it wrote its lease: so one of the two sees the other.
        leases = await self._read_leases()
        fields: Document = {"formats": 1, "minfmt": 1, "now": MONGO_NOW}
        rows = await self._mongo.find(DEPLOYMENT, {"_id": 1}, projection=fields)
        if not rows:
            raise Unreachable("the deployment was not opened yet")
        (row,) = rows
        self._minimum = row.get("minfmt", FIRST_FORMAT)
        seen = await self._note_older(leases, row.get("formats", {}))
        alive = {lease["owner"]: format_of(lease) for lease in leases if lease["until"] > lease["now"]}
        recent = [number for number, ms in seen.items() if ms > row["now"] - SETTLED_MS]
        self.oldest = min([self.number, *alive.values(), *recent])
        if self._minimum > self.number:
            raise IncompatibleServer(
                f"The deployment uses shared format {self._minimum}, but this Confab has format {self.number}. Start "
                "the version of Confab that the other servers have, or a later one."
            )
        far = {number for number in alive.values() if abs(number - self.number) > 1}
        if far:
            raise IncompatibleServer(
                f"Servers with shared format {min(far)} are running, and this Confab has format {self.number}. Only "
                "neighbouring formats work together: upgrade all servers to each release between them first, one "
                "release after the other (docs/upgrading.md)."
            )

    @property
    def used(self) -> int:
        """The lowest format that servers may have, as far as this process has read it."""
        return self._minimum

    async def list_alive(self) -> dict[str, int]:
        """Return the formats of all processes with a lease, by their names. Raises Unreachable."""
        alive = {"$expr": {"$gt": ["$until", MONGO_NOW]}}
        leases = await self._mongo.find(self._leases, alive, projection={"owner": 1, "format": 1})
        return {lease["owner"]: format_of(lease) for lease in leases}

    async def check_running(self) -> None:
        """Read the formats while serving. Calls `on_incompatible` if this process is too old. Raises Unreachable.

        A server that is too far away does not end this process: it had to refuse to start.
        """
        try:
            await self.check()
        except IncompatibleServer as error:
            if self._minimum > self.number:
                _log.critical("shared_format_too_old", reason=str(error))
                self.on_incompatible()
            else:
                _log.error("shared_format_too_far", reason=str(error))

    async def all_servers_have(self, number: int) -> bool:
        """Return whether what a format introduced may be written: all servers have it, and none without it can start.

        No round trip, but for the first time that the answer is true: from then on the deployment uses the format, and
        servers of earlier formats (other than the first) refuse to start. The answer is false again if an older server
        appears nevertheless. A failure of MongoDB counts as false.
        """
        if self.oldest is None or number > self.oldest:
            return number <= FIRST_FORMAT
        if number <= self._minimum:
            return True
        try:
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$max": {"minfmt": number}})
            await self.check()
        except (StoreError, IncompatibleServer):
            return False
        _log.info("shared_format_used", format=number)
        return number <= min(self.oldest, self._minimum)

    async def _read_leases(self) -> list[Document]:
        """Return the leases of other processes. A dead one has `until` past.

        Of those that gave their numbers back (`until` 0), the ones with recent ids: they may have started and ended
        while nobody looked. Times of ids are not by MongoDB's clock: ids of a far future say nothing.
        """
        age = {"$subtract": [MONGO_NOW, "$used"]}
        recent = {"$and": [{"$lt": [age, SETTLED_MS]}, {"$gt": [age, -SETTLED_MS]}]}
        others = {"owner": {"$ne": self._owner}, "$or": [{"until": {"$gt": 0}}, {"$expr": recent}]}
        fields: Document = {"owner": 1, "until": 1, "used": 1, "format": 1, "now": MONGO_NOW}
        return await self._mongo.find(self._leases, others, projection=fields)

    async def _note_older(self, leases: list[Document], noted: dict[str, int]) -> dict[int, int]:
        """Note servers of earlier formats, also for processes that start later. Returns when each was last seen."""
        seen = {int(number): ms for number, ms in noted.items()}
        changed = {}
        for lease in leases:
            number, at_ms = format_of(lease), min(lease["until"] or lease["used"], lease["now"])
            if number < self.number and at_ms > seen.get(number, 0):
                seen[number] = changed[f"formats.{number}"] = at_ms
        if changed:
            await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$max": changed})
        return seen

"""The clock of commands that run without a server."""

from __future__ import annotations

import time

from server.errors import CommandError
from store.deployment.deployment_time import MONGO_NOW
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT


class MongoClock:
    """The time of MongoDB: that of this machine may be wrong."""

    def __init__(self, now_ms: int) -> None:
        self._offset_ms = now_ms - int(time.monotonic() * 1000)

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return int(time.monotonic() * 1000) + self._offset_ms


async def read_clock(mongo: Mongo, database: str) -> MongoClock:
    """Return a clock with the time of MongoDB, or with the deployment's if that is later. Raises CommandError."""
    rows = await mongo.find(DEPLOYMENT, {"_id": 1}, projection={"time": 1, "now": MONGO_NOW})
    if not rows:
        raise CommandError(f"The database {database} has no deployment of Confab: check CONFAB_MONGO_DATABASE.")
    return MongoClock(max(int(rows[0]["now"]), int(rows[0].get("time", 0))))

"""The clock of commands that run without a server."""

from __future__ import annotations

from server.errors import CommandError
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW, MongoClock


async def read_clock(mongo: Mongo, database: str) -> MongoClock:
    """Return a clock with the time of MongoDB, or with the deployment's if that is later. Raises CommandError."""
    rows = await mongo.find(DEPLOYMENT, {"_id": 1}, projection={"time": 1, "now": MONGO_NOW})
    if not rows:
        raise CommandError(f"The database {database} has no deployment of Confab: check CONFAB_MONGO_DATABASE.")
    return MongoClock(max(int(rows[0]["now"]), int(rows[0].get("time", 0))))

"""The time of the deployment: the latest time that any server has reported.

Field of the row `deployment` {_id 1}:
    time  ms since the Unix epoch
"""

from __future__ import annotations

import structlog

from store.base.clock import Clock
from store.base.errors import Unreachable
from store.mongo.client import Document, Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW

_log = structlog.get_logger()

FAR_AHEAD_MS = 24 * 3600 * 1000
"""The clock of a server that is further ahead of both the deployment's time and MongoDB's is ignored."""


class DeploymentTime:
    """Keeps the latest time in MongoDB."""

    def __init__(self, mongo: Mongo, clock: Clock) -> None:
        self._mongo = mongo
        self._clock = clock

    async def report(self) -> Document:
        """Report this server's time, and return the deployment's row with the latest time that any server has reported.

        A clock that is too far ahead is ignored and logged, because it would advance all others for ever. It must be
        ahead of two other clocks, because a deployment may have been stopped for long, and MongoDB's clock may be the
        wrong one. The first time that is ever reported is accepted without a comparison.
        """
        now = self._clock.now_ms()
        latest = {"$ifNull": ["$time", now]}
        is_far_ahead = {"$and": [{"$gt": [now, {"$add": [time, FAR_AHEAD_MS]}]} for time in (latest, MONGO_NOW)]}
        change = {"time": {"$cond": [is_far_ahead, "$time", {"$max": ["$time", now]}]}}
        row = await self._mongo.find_one_and_update(DEPLOYMENT, {"_id": 1}, [{"$set": change}], after=True)
        if row is None:
            raise Unreachable("the deployment was not opened yet")
        if row["time"] < now:
            _log.error("clock_far_ahead", ahead_ms=now - row["time"])
        return row

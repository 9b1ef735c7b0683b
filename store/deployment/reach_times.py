"""The times at which servers last reached Redis, and what has to be recovered when they reach all of it again.

Fields of the row `deployment` {_id 1}, in ms by MongoDB's clock:
    seen   when a server last reached the Redis of the generation, or a part of the cluster
    noted  the same, for servers that understand `slots`
    whole  when a server last reached all shards of the cluster
    apart  when all shards were last reached; absent unless a shard has been away for AWAY_AFTER_MS
    mend   messages stored since then may not be delivered completely; absent: there is nothing to recover
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import structlog

from store.deployment.lost_notes import LostNotes
from store.deployment.slot_generations import is_outdated
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW

_log = structlog.get_logger()

AWAY_AFTER_MS = 4_000
"""Time without any server reaching Redis after which the servers use their fallbacks."""

_SEEN_INTERVAL_MS = 1_000
MAX_DELIVERY_MS = 30_000
"""Longest time of a delivery. Messages stored earlier than this before a loss of Redis were delivered completely."""

_WHOLE_IF_KNOWN = {"$cond": [{"$gt": ["$whole", {"$subtract": ["$seen", 10_000]}]}, "$whole", "$seen"]}
"""Servers of earlier versions write `seen` only."""

LAST_WHOLE = {"$ifNull": ["$apart", _WHOLE_IF_KNOWN]}
"""When all of Redis was last reached, as an expression over the row."""


class ReachTimes:
    """Writes the times of all servers, and keeps those of this process."""

    def __init__(self, mongo: Mongo, lost_notes: LostNotes) -> None:
        """Begin as if Redis had been reached. lost_notes: Of this process; cleared when a recovery is due."""
        self._mongo = mongo
        self._lost_notes = lost_notes
        self._unreachable_since: float | None = None
        """When this process first failed to reach Redis, by `time.monotonic`. None: the last attempt succeeded."""
        self._partial_since: float | None = None
        """When it first reached only a part of the shards. None: it reached all of them."""

    def note_unreachable(self) -> None:
        """Note that this process does not reach Redis now."""
        if self._unreachable_since is None:
            self._unreachable_since = time.monotonic()

    def is_away(self, row: Mapping[str, Any]) -> bool:
        """Return whether no server reaches Redis: none has for AWAY_AFTER_MS, and this one has not for a quarter of it.

        row: The row, with `now`, and with `asked_at`: the time just before it was read, by `time.monotonic`.
        """
        if self._unreachable_since is None:
            return False
        unseen_ms = row["now"] - row.get("seen", row["now"])
        unreachable_ms = (row["asked_at"] - self._unreachable_since) * 1000
        return bool(unseen_ms >= AWAY_AFTER_MS and unreachable_ms >= AWAY_AFTER_MS / 4)

    async def note_reached(self, row: Mapping[str, Any], run: str | None, begun_ms: int, *, is_whole: bool) -> None:
        """Write when Redis, and all of its shards, were reached, if no server has done so in the last second.

        If a shard was away for all servers, the messages stored meanwhile have to be checked, even if the shard has
        kept its contents: their effects on it, and their notes in it, are missing. The same applies to messages that
        this process stored while it used the fallback and other servers used Redis again.

        Args:
            row: The row, with `now`, as it was before Redis was reached.
            run: The run id of the Redis that was reached. If the row has another one by now, nothing is written.
            begun_ms: When the newest generation began.
            is_whole: All shards were reached.
        """
        self._unreachable_since = None
        now, of_run = row["now"], {"_id": 1, "run": run}
        change: dict[str, Any] = {}
        reached_at = time.monotonic()
        partial_since = self._partial_since or reached_at
        self._partial_since = None if is_whole else partial_since
        if now - row.get("seen", 0) > _SEEN_INTERVAL_MS:
            change |= {"seen": MONGO_NOW, "noted": MONGO_NOW}
        if is_outdated(row):
            # This writes `noted`, after which the field `slots` would be valid again.
            change |= {"noted": MONGO_NOW, "slots": "$$REMOVE"}
        if is_whole:
            if now - row.get("whole", 0) > _SEEN_INTERVAL_MS:
                change["whole"] = MONGO_NOW
            since = [at for at in (row.get("apart"), self._lost_notes.find_first_ms(begun_ms)) if at is not None]
            if since:
                # A new value, so that a running recovery does not remove it. `$min` ignores missing fields.
                earlier = {"$subtract": ["$mend", 1]}
                change["mend"] = {"$min": [earlier, min(since) - MAX_DELIVERY_MS]}
                change["apart"] = "$$REMOVE"
        elif "apart" not in row and now - row.get("whole", 0) > AWAY_AFTER_MS < (reached_at - partial_since) * 1000:
            change["apart"] = {"$ifNull": ["$whole", MONGO_NOW]}
            # Unless another server has reached all shards meanwhile.
            of_run["whole"] = row.get("whole", {"$exists": False})
            _log.error("redis_shard_is_away")
        if change and await self._mongo.update_one(DEPLOYMENT, of_run, [{"$set": change}]) and "mend" in change:
            self._lost_notes.clear()
            _log.warning("messages_are_checked", since=min(since))

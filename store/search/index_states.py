"""Reads and changes the state of the index of messages (ADR 85)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from store.base.clock import Clock
from store.base.errors import Unreachable
from store.base.snowflakes import EPOCH_MS, first_id_at
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW
from store.search.index_state import IndexState, KnownState, StateField, new_state, state_from

INDEX_STATE = "search"
"""Field of the deployment's row that has the state of the index."""

SETTLING_MS = 20_000
"""Time after which no server writes rows of an earlier rebuild. A rebuild begins to read messages after this time."""

MAX_STORE_DELAY_MS = 60_000
"""Longest time from making the id of a message to storing it, including differences between the clocks of servers."""

CLOCKS_MS = 10_000
"""Largest difference between the clocks of two servers that leaves no gap in the index."""

LEASE_MS = 15_000
"""Duration of the lease of the process that indexes the past, unless it is renewed."""

_F = StateField
_ROW = {"_id": 1}
_PROJECTION = {INDEX_STATE: 1, "mend": 1, "time": 1, "now": MONGO_NOW}


def _path(field: str) -> str:
    return f"{INDEX_STATE}.{field}"


class IndexStates:
    """The state of the index as one process knows it.

    Whenever the process reads the row of the deployment, it passes the row to `note`.
    """

    def __init__(self, mongo: Mongo, clock: Clock, owner: str, find_epoch: Callable[[], str]) -> None:
        """Start without a known state.

        Args:
            mongo: The deployment's MongoDB.
            clock: Its time.
            owner: Random name of this process.
            find_epoch: Returns the epoch of Redis that this process knows.
        """
        self._mongo = mongo
        self._clock = clock
        self._owner = owner
        self._find_epoch = find_epoch
        self.known: KnownState | None = None

    def note(self, row: Mapping[str, Any], epoch: str) -> IndexState:
        """Remember the state of a row. epoch: of Redis, as this process knew it before it read the row."""
        state = state_from(row.get(INDEX_STATE), row["now"])
        self.known = KnownState(state, epoch, row.get("mend") is not None, time.monotonic())
        return state

    async def read(self) -> IndexState:
        """Read the state. Raises Unreachable."""
        epoch = self._find_epoch()
        rows = await self._mongo.find(DEPLOYMENT, _ROW, projection=_PROJECTION)
        if not rows:
            raise Unreachable("the deployment was not opened yet")
        return self.note(rows[0], epoch)

    async def find(self) -> IndexState:
        """Return the state of a few seconds ago. Reads it if this process does not know it. Raises Unreachable."""
        known = self.known
        return known.state if known is not None and known.is_fresh else await self.read()

    async def extend(self, since_ms: int, unnoted_until_ms: int = 0) -> None:
        """Make messages that were sent or edited since a time part of the past, so that they are indexed again.

        Args:
            since_ms: The time.
            unnoted_until_ms: Until then, servers may store further messages without notes.
        """
        now = self._clock.now_ms()
        position, last = first_id_at(since_ms), first_id_at(max(now, unnoted_until_ms))
        await self._ensure()
        await self._set(
            {
                _F.POSITION: {"$min": [f"${_path(_F.POSITION)}", position]},
                _F.LAST_ID: {"$max": [f"${_path(_F.LAST_ID)}", last]},
                _F.EDITED_SINCE: {"$min": [f"${_path(_F.EDITED_SINCE)}", since_ms]},
                _F.UNNOTED_UNTIL: {"$max": [f"${_path(_F.UNNOTED_UNTIL)}", unnoted_until_ms]},
            }
        )
        await self.read()

    async def watch(self, unnoted_until_ms: int | None, seen_at_ms: int) -> None:
        """Store the result of looking for servers that note no messages.

        Args:
            unnoted_until_ms: Until then, the servers that were found may make ids of messages; None: none was found.
            seen_at_ms: When they were looked for.
        """
        state = await self._ensure()
        # Clocks of servers differ: one that ended after the last look may have made ids of an earlier time.
        if unnoted_until_ms is not None and unnoted_until_ms > state.watched_until_ms - CLOCKS_MS:
            await self.extend(state.watched_until_ms - MAX_STORE_DELAY_MS, unnoted_until_ms + MAX_STORE_DELAY_MS)
        watched = {_F.WATCHED_UNTIL: {"$max": [f"${_path(_F.WATCHED_UNTIL)}", seen_at_ms]}}
        await self._set(watched)

    async def begin_rebuild(self) -> IndexState:
        """Begin the next rebuild, from the first message, or continue one that runs. Returns the state."""
        state = await self._ensure()
        if not state.is_full:
            # The clock of another server may be ahead of the latest reported time, but at most by the interval of
            # these reports.
            time_ms = {"$add": [{"$max": ["$time", self._clock.now_ms()]}, SETTLING_MS + LEASE_MS]}
            last = {"$multiply": [{"$subtract": [time_ms, EPOCH_MS]}, 1 << 22]}
            fields: dict[str, Any] = {
                _F.REBUILD: state.rebuild + 1,
                _F.BEGUN: MONGO_NOW,
                _F.IS_FULL: True,
                _F.POSITION: 0,
                _F.LAST_ID: {"$max": [f"${_path(_F.LAST_ID)}", last]},
            }
            await self._set(fields, {_path(_F.REBUILD): state.rebuild, _path(_F.IS_FULL): {"$exists": False}})
        return await self.read()

    async def take_lease(self) -> bool:
        """Take or renew the lease for indexing the past. Return whether this process has it. One round trip."""
        mine_or_free = {
            "$or": [
                {"$eq": [f"${_path(_F.OWNER)}", self._owner]},
                {"$lt": [{"$ifNull": [f"${_path(_F.OWNED_UNTIL)}", 0]}, MONGO_NOW]},
            ]
        }
        fields = {_F.OWNER: self._owner, _F.OWNED_UNTIL: {"$add": [MONGO_NOW, LEASE_MS]}}
        return await self._set(fields, {"$expr": mine_or_free, INDEX_STATE: {"$exists": True}})

    async def release_lease(self) -> None:
        """Let another process take the lease at once."""
        await self._set({_F.OWNED_UNTIL: 0}, {_path(_F.OWNER): self._owner})

    async def advance(self, state: IndexState, position: int) -> None:
        """Store that all messages of the past up to an id are indexed, unless the past was extended meanwhile."""
        await self._set({_F.POSITION: position}, _unchanged(state))

    async def advance_edits(self, state: IndexState, since_ms: int) -> None:
        """Store that messages of the past edited before a time are indexed, unless the past was extended meanwhile."""
        await self._set({_F.EDITED_SINCE: since_ms}, _unchanged(state))

    async def end(self, state: IndexState) -> bool:
        """Store that the whole past is indexed. Return False if it was extended meanwhile."""
        names = (_F.POSITION, _F.LAST_ID, _F.EDITED_SINCE, _F.UNNOTED_UNTIL, _F.IS_FULL)
        change = {"$unset": {_path(name): "" for name in names}}
        return bool(await self._mongo.update_one(DEPLOYMENT, _ROW | _unchanged(state), change))

    async def _ensure(self) -> IndexState:
        """Return the state. A deployment of an earlier version gets its first one: nothing is indexed."""
        now = self._clock.now_ms()
        nothing_indexed = new_state(now) | {_F.POSITION: 0, _F.LAST_ID: first_id_at(now)}
        without_state = _ROW | {INDEX_STATE: {"$exists": False}}
        await self._mongo.update_one(DEPLOYMENT, without_state, {"$set": {INDEX_STATE: nothing_indexed}})
        return await self.read()

    async def _set(self, fields: Mapping[str, Any], condition: Mapping[str, Any] | None = None) -> bool:
        change = [{"$set": {_path(name): value for name, value in fields.items()}}]
        return bool(await self._mongo.update_one(DEPLOYMENT, _ROW | dict(condition or {}), change))


def _unchanged(state: IndexState) -> dict[str, Any]:
    """Return the query for a row whose past is the same as in a state."""
    values = {
        _F.REBUILD: state.rebuild,
        _F.POSITION: state.position,
        _F.EDITED_SINCE: state.edited_since_ms,
        _F.IS_FULL: True if state.is_full else None,
    }
    # A missing field equals None.
    return {_path(name): value for name, value in values.items()} | {_path(_F.LAST_ID): {"$lte": state.last_id}}

"""Writes the log of outgoing webhooks: one process at a time, in the order of events (ADR 90)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.errors import Superseded
from store.mongo.client import Mongo
from store.mongo.collections import WEBHOOK_EVENTS, WEBHOOK_LINES, WEBHOOK_LOG
from store.mongo.mongo_clock import MONGO_NOW
from store.mongo.writes import Update, Write
from store.webhooks.event_rows import EventField, LineField, NotedEvent, line_id, row_of
from store.webhooks.webhook import WebhookId

LEASE_MS = 10_000
"""Duration of the lease of the process that writes, unless it is renewed."""

_ID = 1
_OWNER = "ow"
_UNTIL = "un"
_ORDER = "o"
"""`EventField.ORDER` of the newest event."""
_WRITTEN = "wr"
"""All events that were noted before this time are in the log (ms)."""


class EventLog:
    """Appends events. All methods raise Unreachable.

    Each append is a transaction that begins with the row of the lease. So a process whose lease was taken over writes
    nothing, and the order numbers have no gaps that are filled later.
    """

    def __init__(self, mongo: Mongo, owner: str) -> None:
        """Create it. owner: random name of this process."""
        self._mongo = mongo
        self._owner = owner

    async def take_lease(self) -> bool:
        """Take or renew the lease. Return whether this process has it."""
        first = Update({"_id": _ID}, {"$setOnInsert": {_ORDER: 0}}, upsert=True)
        await self._mongo.write([Write.updates(WEBHOOK_LOG, [first], may_collide=True)])
        free = {
            "$or": [
                {"$eq": [f"${_OWNER}", self._owner]},
                {"$lt": [{"$ifNull": [f"${_UNTIL}", 0]}, MONGO_NOW]},
            ]
        }
        lease = [{"$set": {_OWNER: self._owner, _UNTIL: {"$add": [MONGO_NOW, LEASE_MS]}}}]
        return await self._mongo.find_one_and_update(WEBHOOK_LOG, {"_id": _ID, "$expr": free}, lease) is not None

    async def release_lease(self) -> None:
        """Let another process take the lease at once."""
        await self._mongo.update_one(WEBHOOK_LOG, {"_id": _ID, _OWNER: self._owner}, {"$set": {_UNTIL: 0}})

    async def note_written(self, until_ms: int) -> None:
        """Store that all events noted before a time are in the log, unless another process has the lease."""
        mine = {"_id": _ID, _OWNER: self._owner}
        await self._mongo.update_one(WEBHOOK_LOG, mine, {"$max": {_WRITTEN: until_ms}})

    async def find_written_until(self) -> int:
        """Return a time before which all noted events are in the log (ms). 0: none was stored."""
        row = await self._mongo.find_one(WEBHOOK_LOG, {"_id": _ID})
        return int(row.get(_WRITTEN, 0)) if row is not None else 0

    async def append(self, events: Sequence[tuple[WebhookId, NotedEvent]]) -> set[WebhookId]:
        """Append events of webhooks, in order. Those that are in the log already are skipped.

        Returns the webhooks that have new events. One read and one transaction. Raises Superseded: another process has
        the lease, and nothing was written.
        """
        by_id = {f"{webhook} {event.id}": (webhook, event) for webhook, event in events}
        # Only the process with the lease inserts, so what is missing now is missing in the transaction too.
        known = await self._mongo.find(
            WEBHOOK_EVENTS, {EventField.ID: {"$in": list(by_id)}}, projection={EventField.ID: 1}
        )
        for row in known:
            del by_id[row[EventField.ID]]
        new = list(by_id.values())
        if not new:
            return set()

        async def work(session: Any) -> None:
            before = await self._mongo.find_one_and_update(
                WEBHOOK_LOG, {"_id": _ID, _OWNER: self._owner}, {"$inc": {_ORDER: len(new)}}, session=session
            )
            if before is None:
                raise Superseded("another process writes the log of webhooks")
            first = before[_ORDER] + 1
            rows = [row_of(webhook, event, first + place) for place, (webhook, event) in enumerate(new)]
            await self._mongo.insert_many(WEBHOOK_EVENTS, rows, session=session)
            await self._mongo.bulk_write(WEBHOOK_LINES, _line_updates(new, first), session=session)

        await self._mongo.transaction(work)
        return {webhook for webhook, _ in new}


async def next_order(mongo: Mongo, session: Any) -> int:
    """Return an order number that no event has. Within a transaction."""
    before = await mongo.find_one_and_update(WEBHOOK_LOG, {"_id": _ID}, {"$inc": {_ORDER: 1}}, session=session)
    assert before is not None
    return int(before[_ORDER]) + 1


def _line_updates(events: Sequence[tuple[WebhookId, NotedEvent]], version: int) -> list[UpdateOne]:
    lines: dict[str, tuple[WebhookId, int]] = {}
    for webhook, event in events:
        lines.setdefault(line_id(webhook, event.conversation), (webhook, event.at_ms))
    return [
        UpdateOne(
            {LineField.ID: id},
            {
                "$set": {LineField.VERSION: version},
                "$setOnInsert": {LineField.WEBHOOK: webhook, LineField.DUE: due_ms},
            },
            upsert=True,
        )
        for id, (webhook, due_ms) in lines.items()
    ]

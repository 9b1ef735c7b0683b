"""Deliveries of outgoing webhooks: leases, due events, and their outcomes (ADR 90)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pymongo import UpdateMany, UpdateOne

from store.mongo.client import Document, Mongo
from store.mongo.collections import WEBHOOK_EVENTS, WEBHOOK_LINES, WEBHOOKS
from store.mongo.index_fields import BY_DELIVERY, BY_LINE, BY_LINE_DUE
from store.mongo.mongo_clock import MONGO_NOW
from store.webhooks.event_log import next_order
from store.webhooks.event_rows import EventField, Line, LineField, WebhookEvent, line_from, line_id, webhook_event_from
from store.webhooks.webhook import Webhook, WebhookId, WebhookKind, WebhookState
from store.webhooks.webhook_store import WebhookField, webhook_from

LEASE_MS = 15_000
"""Duration of the lease of the process that delivers the events of a webhook, unless it is renewed."""

_W, _E, _L = WebhookField, EventField, LineField
_ROWS_PER_STEP = 1_000
_LONGEST_BREAK_MS = 48 * 3600 * 1000
"""Time without attempts after which a failure begins a new time of failures. Longer than any pause of the schedule."""


class DueWebhook(NamedTuple):
    """A webhook, and the state of its deliveries.

    Attributes:
        webhook: The webhook.
        failures: Failed attempts since the last success.
        held_until_ms: Nothing is sent until then.
        resumed_ms: Time from which all lines are due. None: there is none, or every line has it as its own time.
    """

    webhook: Webhook
    failures: int
    held_until_ms: int
    resumed_ms: int | None


class Waiting(NamedTuple):
    """The pending events: their number, and when the oldest happened (ms); None: there are none."""

    events: int
    oldest_ms: int | None


class DeliveryStore:
    """Reads and changes deliveries. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo, owner: str) -> None:
        """Create it. owner: random name of this process."""
        self._mongo = mongo
        self._owner = owner

    # Leases

    async def list_free(self, ids: Collection[WebhookId], now_ms: int) -> list[WebhookId]:
        """Return those webhooks that have events due, are not PAUSED or held, and that no process delivers."""
        free = {"$expr": {"$lt": [{"$ifNull": [f"${_W.LEASE_UNTIL}", 0]}, MONGO_NOW]}}
        query = {_W.ID: {"$in": list(ids)}} | _deliverable(now_ms) | free
        rows = await self._mongo.find(WEBHOOKS, query, projection={_W.ID: 1, _W.RESUMED: 1})
        if not rows:
            return []
        due = await self._mongo.find(
            WEBHOOK_LINES,
            {_L.WEBHOOK: {"$in": [row[_W.ID] for row in rows]}, _L.DUE: {"$lte": now_ms}},
            projection={_L.WEBHOOK: 1},
            limit=_ROWS_PER_STEP,
        )
        found = {row[_L.WEBHOOK] for row in due} | {row[_W.ID] for row in rows if _W.RESUMED in row}
        return [WebhookId(id) for id in found]

    async def take_lease(self, id: WebhookId) -> bool:
        """Take the lease of a webhook that no process delivers. Return whether this process has it."""
        free = {"$lt": [{"$ifNull": [f"${_W.LEASE_UNTIL}", 0]}, MONGO_NOW]}
        return await self._mongo.find_one_and_update(WEBHOOKS, {_W.ID: id, "$expr": free}, self._lease()) is not None

    async def renew_leases(self, ids: Collection[WebhookId]) -> set[WebhookId]:
        """Renew leases. Return the webhooks whose lease this process still has."""
        mine = {_W.ID: {"$in": list(ids)}, _W.LEASE_OWNER: self._owner}
        await self._mongo.bulk_write(WEBHOOKS, [UpdateMany(mine, self._lease())])
        return {WebhookId(row[_W.ID]) for row in await self._mongo.find(WEBHOOKS, mine, projection={_W.ID: 1})}

    async def release_lease(self, id: WebhookId) -> None:
        """Let another process deliver the events of a webhook at once."""
        await self._mongo.update_one(
            WEBHOOKS, {_W.ID: id, _W.LEASE_OWNER: self._owner}, {"$unset": {_W.LEASE_OWNER: "", _W.LEASE_UNTIL: ""}}
        )

    def _lease(self) -> list[Document]:
        return [{"$set": {_W.LEASE_OWNER: self._owner, _W.LEASE_UNTIL: {"$add": [MONGO_NOW, LEASE_MS]}}}]

    # Due events

    async def find_due(self, id: WebhookId, now_ms: int) -> DueWebhook | None:
        """Return a webhook that this process delivers; None: it is deleted, PAUSED or held, or has another owner."""
        row = await self._mongo.find_one(WEBHOOKS, {_W.ID: id, _W.LEASE_OWNER: self._owner} | _deliverable(now_ms))
        return _due_webhook_from(row) if row is not None else None

    async def find_state(self, id: WebhookId) -> DueWebhook | None:
        """Return a webhook with the state of its deliveries, however it is; None: there is none. One round trip."""
        row = await self._mongo.find_one(WEBHOOKS, {_W.ID: id, _W.DELETED: {"$exists": False}})
        return _due_webhook_from(row) if row is not None else None

    async def list_due_lines(self, id: WebhookId, now_ms: int, limit: int, without: Collection[str]) -> list[Line]:
        """Return lines of a webhook whose first event is due, the longest due first. without: ids to leave out."""
        query: Document = {_L.WEBHOOK: id, _L.DUE: {"$lte": now_ms}}
        rows = await self._mongo.find(WEBHOOK_LINES, query, sort=BY_LINE_DUE, limit=limit + len(without))
        return [line_from(row) for row in rows if row[_L.ID] not in without][:limit]

    async def list_pending(self, line: Line, limit: int) -> list[WebhookEvent]:
        """Return the first pending events of a line, in order."""
        query = {_E.LINE: line.id, _E.PENDING: 1}
        rows = await self._mongo.find(WEBHOOK_EVENTS, query, sort=BY_LINE, limit=limit)
        return [webhook_event_from(row) for row in rows]

    # Outcomes

    async def complete(
        self, delivered: Sequence[tuple[WebhookEvent, int]], dropped: Sequence[WebhookEvent], now_ms: int
    ) -> None:
        """Store that events were delivered, with the status, and remove dropped ones. At most two round trips."""
        writes: list[Any] = [
            UpdateOne(
                {_E.ID: event.row_id},
                {
                    "$set": {_E.DELIVERED: now_ms, _E.STATUS: status, _E.ATTEMPTS: event.attempts + 1},
                    "$unset": {_E.PENDING: "", _E.NEXT: ""},
                },
            )
            for event, status in delivered
        ]
        if writes:
            await self._mongo.bulk_write(WEBHOOK_EVENTS, writes)
        if dropped:
            await self._mongo.delete_ids(WEBHOOK_EVENTS, [event.row_id for event in dropped])

    async def continue_line(self, line: Line, now_ms: int) -> None:
        """Store that the first event of a line is due now: the events before it are delivered."""
        await self._mongo.update_one(
            WEBHOOK_LINES, {_L.ID: line.id}, {"$set": {_L.DUE: now_ms}, "$unset": {_L.FAILURES: ""}}
        )

    async def hold_line(self, line: Line, due_ms: int) -> None:
        """Postpone the first event of a line to a time, without counting a failed attempt."""
        await self._mongo.update_one(WEBHOOK_LINES, {_L.ID: line.id}, {"$set": {_L.DUE: due_ms}})

    async def end_line(self, line: Line, now_ms: int) -> None:
        """Remove a line whose pending events, listed after the line was read, are all delivered.

        If some were added meanwhile, the first of them is due now. Their transaction changes the line's version.
        """
        if not await self._mongo.delete_one(WEBHOOK_LINES, {_L.ID: line.id, _L.VERSION: line.version}):
            await self.continue_line(line, now_ms)

    async def fail(self, event: WebhookEvent, line: Line, status: int | None, next_ms: int) -> None:
        """Store a failed attempt to deliver the first event of a line, and when the next one is due."""
        failed: Document = {"$inc": {_E.ATTEMPTS: 1}, "$set": {_E.NEXT: next_ms}}
        failed.setdefault("$set" if status is not None else "$unset", {})[_E.STATUS] = status or ""
        await self._mongo.gather(
            self._mongo.update_one(WEBHOOK_EVENTS, {_E.ID: event.row_id, _E.PENDING: 1}, failed),
            self._mongo.update_one(
                WEBHOOK_LINES, {_L.ID: line.id}, {"$set": {_L.DUE: next_ms, _L.FAILURES: line.failures + 1}}
            ),
        )

    async def set_failing(
        self, id: WebhookId, now_ms: int, held_until_ms: int, paused_after_ms: int, *, is_gone: bool
    ) -> int | None:
        """Store that an attempt failed, and until when nothing is sent.

        The webhook is PAUSED if the endpoint is gone, or if there was no success for a time in which it was tried
        again and again. Returns when the failures began if it is PAUSED now, else None.
        """
        is_continued = {"$gt": [f"${_W.FAILED}", now_ms - _LONGEST_BREAK_MS]}
        since = {"$cond": [is_continued, {"$ifNull": [f"${_W.FAILING_SINCE}", now_ms]}, now_ms]}
        # Another attempt may have paused it at the same time.
        is_paused = {"$eq": [f"${_W.STATE}", WebhookState.PAUSED.value]}
        is_over: Any = True if is_gone else {"$or": [is_paused, {"$lte": [since, now_ms - paused_after_ms]}]}
        change = [
            {
                "$set": {
                    _W.STATE: {"$cond": [is_over, WebhookState.PAUSED.value, WebhookState.FAILING.value]},
                    _W.FAILING_SINCE: since,
                    _W.FAILED: now_ms,
                    _W.FAILURES: {"$add": [{"$ifNull": [f"${_W.FAILURES}", 0]}, 1]},
                    _W.HELD_UNTIL: {"$max": [{"$ifNull": [f"${_W.HELD_UNTIL}", 0]}, held_until_ms]},
                }
            }
        ]
        mine = {_W.ID: id, _W.LEASE_OWNER: self._owner}
        row = await self._mongo.find_one_and_update(WEBHOOKS, mine, change, after=True)
        if row is None or row[_W.STATE] != WebhookState.PAUSED.value:
            return None
        return int(row[_W.FAILING_SINCE])

    async def set_active(self, id: WebhookId, resumed_ms: int | None, held_until_ms: int) -> None:
        """Store that an attempt succeeded.

        Args:
            id: The webhook.
            resumed_ms: Now, if all lines are due again; else None.
            held_until_ms: Nothing is sent until then, because another attempt was answered so.
        """
        unset = dict.fromkeys((_W.STATE, _W.FAILING_SINCE, _W.FAILURES), "")
        change: Document = {"$unset": unset, "$set": {_W.HELD_UNTIL: held_until_ms}}
        if resumed_ms is not None:
            change["$set"][_W.RESUMED] = resumed_ms
        mine = {_W.ID: id, _W.LEASE_OWNER: self._owner, _W.STATE: {"$ne": WebhookState.PAUSED.value}}
        await self._mongo.update_one(WEBHOOKS, mine, change)

    async def resume_some(self, id: WebhookId, resumed_ms: int) -> bool:
        """Make some lines due that wait for a later time. Return false if there was none."""
        later = {_L.WEBHOOK: id, _L.DUE: {"$gt": resumed_ms}}
        rows = await self._mongo.find(WEBHOOK_LINES, later, projection={_L.ID: 1}, limit=_ROWS_PER_STEP)
        if rows:
            change = {"$set": {_L.DUE: resumed_ms}, "$unset": {_L.FAILURES: ""}}
            await self._mongo.bulk_write(
                WEBHOOK_LINES, [UpdateMany({_L.ID: {"$in": [row[_L.ID] for row in rows]}}, change)]
            )
            return True
        await self._mongo.update_one(WEBHOOKS, {_W.ID: id, _W.RESUMED: resumed_ms}, {"$unset": {_W.RESUMED: ""}})
        return False

    # Operations of the API, and metrics

    async def resume(self, id: WebhookId, resumed_ms: int | None) -> None:
        """Make a webhook ACTIVE. resumed_ms: the present time, if all lines become due; else None."""
        unset = dict.fromkeys((_W.STATE, _W.FAILING_SINCE, _W.FAILURES, _W.HELD_UNTIL), "")
        change: Document = {"$unset": unset}
        if resumed_ms is not None:
            change["$set"] = {_W.RESUMED: resumed_ms}
        await self._mongo.update_one(WEBHOOKS, {_W.ID: id}, change)

    async def repeat(self, event: WebhookEvent, now_ms: int) -> None:
        """Make an event pending again, in its place. One transaction."""
        line = line_id(event.webhook, event.conversation)

        async def work(session: Any) -> None:
            change = {"$set": {_E.PENDING: 1}, "$unset": {_E.DELIVERED: "", _E.NEXT: ""}}
            await self._mongo.bulk_write(WEBHOOK_EVENTS, [UpdateOne({_E.ID: event.row_id}, change)], session=session)
            due = {
                "$set": {
                    _L.VERSION: await next_order(self._mongo, session),
                    _L.DUE: now_ms,
                    _L.WEBHOOK: event.webhook,
                },
                "$unset": {_L.FAILURES: ""},
            }
            await self._mongo.bulk_write(WEBHOOK_LINES, [UpdateOne({_L.ID: line}, due, upsert=True)], session=session)

        await self._mongo.transaction(work)

    async def find(self, id: WebhookId, order: int) -> WebhookEvent | None:
        """Return an event of a webhook by its order number."""
        row = await self._mongo.find_one(WEBHOOK_EVENTS, {_E.WEBHOOK: id, _E.ORDER: order})
        return webhook_event_from(row) if row is not None else None

    async def list_newest(self, id: WebhookId, before: int | None, limit: int) -> list[WebhookEvent]:
        """Return events of a webhook, the newest first. before: order number; None: from the newest on."""
        query: Document = {_E.WEBHOOK: id} | ({_E.ORDER: {"$lt": before}} if before is not None else {})
        sort = [(field, -1) for field, _ in BY_DELIVERY]
        return [
            webhook_event_from(row) for row in await self._mongo.find(WEBHOOK_EVENTS, query, sort=sort, limit=limit)
        ]

    async def count_pending(self, id: WebhookId, since_ms: int) -> int:
        """Return the number of events of a webhook that happened since a time and are not delivered."""
        query = {_E.WEBHOOK: id, _E.PENDING: 1, _E.AT: {"$gte": since_ms}}
        rows = await self._mongo.aggregate(WEBHOOK_EVENTS, [{"$match": query}, {"$count": "n"}])
        return int(rows[0]["n"]) if rows else 0

    async def measure(self, ids: Collection[WebhookId], most: int) -> Waiting:
        """Return figures about the pending events of webhooks. At most `most` are counted."""
        query = {_E.WEBHOOK: {"$in": list(ids)}, _E.PENDING: 1}
        rows = await self._mongo.aggregate(
            WEBHOOK_EVENTS,
            [
                {"$match": query},
                {"$limit": most},
                {"$group": {"_id": None, "n": {"$sum": 1}, "at": {"$min": f"${_E.AT}"}}},
            ],
        )
        return Waiting(rows[0]["n"], rows[0]["at"]) if rows else Waiting(0, None)

    async def count_paused(self) -> int:
        """Return the number of PAUSED webhooks."""
        query = {_W.STATE: WebhookState.PAUSED.value, _W.DELETED: {"$exists": False}}
        return len(await self._mongo.find(WEBHOOKS, query, projection={_W.ID: 1}))

    async def remove_some(self, id: WebhookId) -> bool:
        """Remove some events and lines of a deleted webhook. Return whether there were any."""
        events = await self._mongo.find(WEBHOOK_EVENTS, {_E.WEBHOOK: id}, projection={_E.ID: 1}, limit=_ROWS_PER_STEP)
        lines = await self._mongo.find(WEBHOOK_LINES, {_L.WEBHOOK: id}, projection={_L.ID: 1}, limit=_ROWS_PER_STEP)
        await self._mongo.delete_each(WEBHOOK_EVENTS, [{_E.ID: {"$in": [row[_E.ID] for row in events]}}], many=True)
        await self._mongo.delete_each(WEBHOOK_LINES, [{_L.ID: {"$in": [row[_L.ID] for row in lines]}}], many=True)
        return bool(events or lines)


def _due_webhook_from(row: Document) -> DueWebhook:
    return DueWebhook(webhook_from(row), row.get(_W.FAILURES, 0), row.get(_W.HELD_UNTIL, 0), row.get(_W.RESUMED))


def _deliverable(now_ms: int) -> Document:
    return {
        _W.KIND: WebhookKind.OUTGOING.value,
        _W.STATE: {"$ne": WebhookState.PAUSED.value},
        _W.DELETED: {"$exists": False},
        _W.HELD_UNTIL: {"$not": {"$gt": now_ms}},
    }

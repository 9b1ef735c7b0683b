"""Reports in MongoDB: one row per reporter and thing reported (ADR 97)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pymongo.errors import DuplicateKeyError

from store.audit.audit_log import AuditLog
from store.audit.audit_note import AuditNote
from store.base.clock import Clock
from store.base.errors import Unreachable
from store.base.ids import MessageId, UserId
from store.base.snowflakes import first_id_at
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document, Mongo
from store.mongo.collections import REPORTS
from store.mongo.index_fields import BY_REPORT_PLACE, BY_REPORT_TIME, BY_REPORTER
from store.mongo.paced_reads import read_in_steps
from store.reports.report import (
    Report,
    ReportAction,
    ReportField,
    ReportId,
    ReportState,
    new_row,
    queue_of,
    report_from,
)

ABANDONED_MS = 10 * 60_000
"""Time after which a resolution that was begun and never completed no longer prevents another one."""

_NOTES_AT_ONCE = 100
_PER_STEP = 200

_F = ReportField


class ReportStore:
    """Stores, lists and resolves reports. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo, clock: Clock, audit: AuditLog, find_key: Callable[[], bytes | None]) -> None:
        """Create it. find_key: returns the secret of the deployment; None: it is not known yet."""
        self._mongo = mongo
        self._clock = clock
        self._audit = audit
        self._find_key = find_key

    def id_of(self, reporter: UserId, thing: str) -> ReportId:
        """Return the id of a user's report about a thing. thing: a text that no other thing has.

        Nobody else can compute it, so an id reveals neither the reporter nor that there is a report.
        """
        return self._id("user", reporter, thing)

    def id_of_flag(self, message: MessageId, rule: str) -> ReportId:
        """Return the id of the report that a content rule makes about a message."""
        return self._id("rule", rule, str(message))

    def _id(self, *parts: str) -> ReportId:
        key = self._find_key()
        if key is None:
            raise Unreachable("the secret of the deployment is not known yet")
        digest = hmac.digest(key, "\n".join(("report", *parts)).encode(), hashlib.sha256)
        return ReportId(f"x_{digest.hex()[:32]}")

    async def insert(self, report: Report, note_due_ms: int | None) -> tuple[Report, bool]:
        """Store a report, unless there is one with its id. Return the stored one, and whether it is new.

        One round trip. note_due_ms: see `ReportField.NOTE_DUE`; None: no webhook wants its event.
        """
        query, new = {_F.ID: report.id}, {"$setOnInsert": new_row(report, note_due_ms)}
        try:
            row = await self._mongo.find_one_and_update(REPORTS, query, new, upsert=True, after=True)
        except DuplicateKeyError:
            # Another call has stored it at the same time.
            row = await self._mongo.find_one(REPORTS, query)
        if row is None:
            raise Unreachable("the report was removed at the same time; try again")
        stored = report_from(row)
        return stored, stored.order == report.order

    async def find(self, id: ReportId) -> Report | None:
        """Return a report. One round trip."""
        row = await self._mongo.find_one(REPORTS, {_F.ID: id})
        return report_from(row) if row is not None else None

    async def list_page(
        self,
        workspace: WorkspaceId | None,
        states: Sequence[ReportState],
        after: tuple[ReportState, int] | None,
        limit: int,
    ) -> list[Report]:
        """Return reports of a workspace (None: of the deployment): open ones first, the newest of each state first.

        One round trip for each state. after: state and `Report.order` of the report before the page.
        """
        found: list[Report] = []
        for state in ReportState:
            if state not in states or (after is not None and state < after[0]) or len(found) >= limit:
                continue
            query: Document = {_F.QUEUE: queue_of(workspace), _F.STATE: state.value}
            if after is not None and state is after[0]:
                query[_F.ORDER] = {"$lt": after[1]}
            rows = await self._mongo.find(
                REPORTS, query, sort=BY_REPORT_PLACE, limit=limit - len(found), hint=BY_REPORT_PLACE
            )
            found += map(report_from, rows)
        return found

    async def list_open(self, queue: str | None, limit: int) -> list[Report]:
        """Return open reports, the oldest first. One round trip.

        queue: `queue_of` a workspace or of the deployment; None: all of them, for rare calls.
        """
        query: Document = {_F.STATE: ReportState.OPEN.value} | ({_F.QUEUE: queue} if queue is not None else {})
        hint = BY_REPORT_PLACE if queue is not None else BY_REPORT_TIME
        rows = await self._mongo.find(REPORTS, query, sort=((_F.ORDER, 1),), limit=limit, hint=hint)
        return [report_from(row) for row in rows]

    async def list_of_reporter(self, reporter: UserId) -> AsyncIterator[list[Report]]:
        """Yield the reports that a user made, in bounded steps with pauses."""
        query = {_F.REPORTER: reporter}
        async for rows in read_in_steps(self._mongo, REPORTS, query, projection={}, size=_PER_STEP, hint=BY_REPORTER):
            yield [report_from(row) for row in rows]

    async def begin(self, id: ReportId, action: ReportAction) -> tuple[Report, bool] | None:
        """Note that a resolution with an action begins. Return the open report, and whether this call begins it.

        False if an earlier call was interrupted, which this one continues. None: the report is resolved, or a
        resolution with another action was begun in the last ten minutes.
        """
        now_ms = self._clock.now_ms()
        free = [
            {_F.BEGUN_ACTION: {"$exists": False}},
            {_F.BEGUN_ACTION: action.value},
            {_F.BEGUN_AT: {"$lt": now_ms - ABANDONED_MS}},
        ]
        query: Document = {_F.ID: id, _F.STATE: ReportState.OPEN.value, "$or": free}
        begun = {"$set": {_F.BEGUN_ACTION: action.value, _F.BEGUN_AT: now_ms}}
        row = await self._mongo.find_one_and_update(REPORTS, query, begun)
        if row is None:
            return None
        report = report_from(row)
        return report, report.begun_action is not action

    async def cancel(self, id: ReportId, action: ReportAction) -> None:
        """Note that the action of a begun resolution was refused, and is not done."""
        query = {_F.ID: id, _F.STATE: ReportState.OPEN.value, _F.BEGUN_ACTION: action.value}
        await self._mongo.update_one(REPORTS, query, {"$unset": {_F.BEGUN_ACTION: "", _F.BEGUN_AT: ""}})

    async def complete(
        self, id: ReportId, action: ReportAction, by: UserId, note: str | None, audit_note: AuditNote
    ) -> bool:
        """Resolve a report whose action is done, with its entry in the audit log. One transaction.

        Returns false if another call has resolved it: then nothing is stored.
        """
        values = {
            _F.STATE: ReportState.RESOLVED.value,
            _F.ACTION: action.value,
            _F.RESOLVED_BY: by,
            _F.RESOLVED_AT: self._clock.now_ms(),
        } | ({_F.RESOLUTION_NOTE: note} if note is not None else {})
        change = {"$set": values, "$unset": {_F.BEGUN_ACTION: "", _F.BEGUN_AT: ""}}
        query = {_F.ID: id, _F.STATE: ReportState.OPEN.value, _F.BEGUN_ACTION: action.value}
        collection, entries = self._audit.entry_writes(audit_note)
        is_resolved = False

        async def work(session: Any) -> None:
            nonlocal is_resolved
            before = await self._mongo.find_one_and_update(REPORTS, query, change, session=session)
            is_resolved = before is not None
            if is_resolved:
                await self._mongo.bulk_write(collection, entries, session=session)

        await self._mongo.transaction(work)
        return is_resolved

    async def set_noted(self, id: ReportId) -> None:
        """Note that the event of a report is noted for webhooks."""
        await self._mongo.update_one(REPORTS, {_F.ID: id}, {"$unset": {_F.NOTE_DUE: ""}})

    async def list_note_due(self) -> list[Report]:
        """Return reports whose events no server has noted in time."""
        due = {_F.NOTE_DUE: {"$lte": self._clock.now_ms()}}
        return [report_from(row) for row in await self._mongo.find(REPORTS, due, limit=_NOTES_AT_ONCE)]

    async def list_since(self, since_ms: int, limit: int, after: int = 0) -> list[Report]:
        """Return reports from a time on, the oldest first. after: `Report.order` of the last one before the page."""
        first = max(first_id_at(since_ms), after + 1)
        rows = await self._mongo.find(REPORTS, {_F.ORDER: {"$gte": first}}, sort=((_F.ORDER, 1),), limit=limit)
        return [report_from(row) for row in rows]

    async def remove_some(self, workspace: WorkspaceId, limit: int) -> bool:
        """Remove some reports of a deleted workspace. Return whether there were any."""
        rows = await self._mongo.find(REPORTS, {_F.QUEUE: workspace}, projection={_F.ID: 1}, limit=limit)
        if rows:
            await self._mongo.delete_ids(REPORTS, [row[_F.ID] for row in rows])
        return bool(rows)

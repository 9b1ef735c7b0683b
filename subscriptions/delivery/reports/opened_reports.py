"""Opens the reports of users, and notes the events of all reports for webhooks (ADR 97).

The row of a report is stored with a time at which any server may note its event for webhooks. So an event is noted even
if the server that stored the row dies.
"""

from __future__ import annotations

import structlog

from store.base.errors import StoreError
from store.reports.report import Report
from store.store import Store
from subscriptions.delivery.webhooks.webhook_notes import WebhookNotes

_log = structlog.get_logger()

TAKEOVER_MS = 5_000
"""Time after which another server notes the event of a report."""


class OpenedReports:
    """Stores reports and notes their events."""

    def __init__(self, store: Store, webhook_notes: WebhookNotes) -> None:
        self._store = store
        self._webhook_notes = webhook_notes

    async def open(self, report: Report) -> Report:
        """Store a report, unless there is one with its id. Return the stored one. Raises StoreError; may be repeated.

        Its event reaches the webhooks that want it, even if this process dies now or Redis is unavailable.
        """
        store = self._store
        is_wanted = self._webhook_notes.wants_report(report)
        due_ms = store.clock.now_ms() + TAKEOVER_MS if is_wanted else None
        stored, is_new = await store.reports.insert(report, due_ms)
        if is_new and is_wanted:
            try:
                await self._note(stored)
            except StoreError as error:
                _log.warning("report_not_announced_yet", report=stored.id, reason=str(error))
        return stored

    async def note_abandoned(self) -> int:
        """Note events of reports that no server has noted in time. Return their number. Raises StoreError."""
        self._store.cache.require_shared()
        reports = await self._store.reports.list_note_due()
        for report in reports:
            await self._note(report)
        if reports:
            _log.warning("abandoned_reports_announced", reports=len(reports))
        return len(reports)

    async def _note(self, report: Report) -> None:
        await self._webhook_notes.note_report(report)
        await self._store.reports.set_noted(report.id)

"""Reports about messages that a content rule or the external hook has flagged, stored together with the message.

So each flagged message that is durable has a report, even if this process dies. Its event for webhooks is noted by
the next server that looks for such reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from store.content_rules.content_flag import HOOK
from store.messages.message import Message
from store.mongo.client import Document, Mongo
from store.mongo.collections import REPORTS
from store.mongo.writes import Write
from store.reports.report import Report, ReportedMessage, ReportField, ReportReason, new_row
from store.reports.report_store import ReportStore


class FlagReports:
    """Makes the rows of reports about flagged messages. Repeated writes store each report once."""

    def __init__(self, mongo: Mongo, reports: ReportStore) -> None:
        self._mongo = mongo
        self._reports = reports

    def prepare_writes(self, messages: Iterable[Message]) -> list[Write]:
        """Return the writes that store the reports, to be sent with the messages. May be repeated."""
        rows = self._rows_of(messages)
        return [Write.inserts(REPORTS, rows)] if rows else []

    async def insert(self, message: Message, session: Any) -> None:
        """Store the report about a message, if it is flagged, within its transaction."""
        rows = self._rows_of([message])
        if rows:
            await self._mongo.insert_many(REPORTS, rows, session)

    async def take_back(self, messages: Iterable[Message]) -> None:
        """Remove the reports about messages that could not be stored at their places."""
        rows = self._rows_of(messages)
        if rows:
            await self._mongo.delete_ids(REPORTS, [row[ReportField.ID] for row in rows])

    def _rows_of(self, messages: Iterable[Message]) -> list[Document]:
        return [self._row_of(message) for message in messages if message.flag is not None]

    def _row_of(self, message: Message) -> Document:
        flag = message.flag
        assert flag is not None
        is_channel = is_in_workspace(message.conversation)
        report = Report(
            # An edited message may be flagged once more.
            id=self._reports.id_of_flag(message.id, f"{flag.rule} {flag.order}"),
            order=flag.order,
            reporter=flag.reporter,
            user=message.sender,
            reason=ReportReason.OTHER,
            workspace=workspace_of_channel(message.conversation) if is_channel else None,
            message=ReportedMessage(message.id, message.conversation, message.seq),
            text=message.text,
            note="flagged by the external hook" if flag.rule == HOOK else f"flagged by the content rule {flag.rule}",
        )
        return {ReportField.ID: report.id} | new_row(report, note_due_ms=0)

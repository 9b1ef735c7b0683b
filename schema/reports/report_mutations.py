"""Mutations of reports."""

from __future__ import annotations

import strawberry

from resolvers.reports.reporting import Subject, report
from resolvers.reports.resolving import resolve_report
from schema.base.context import Info
from schema.reports.report_types import ReportType, report_from
from store.reports.report import ReportAction, ReportReason


@strawberry.type
class ReportMutations:
    @strawberry.mutation(
        description="Exactly one of a message (its text is kept with the report, whatever becomes of it), a user, or a "
        "file. Repeating by the same reporter answers the first report."
    )
    async def report(
        self,
        info: Info,
        reason: ReportReason,
        message_id: strawberry.ID | None = None,
        user_id: strawberry.ID | None = None,
        attachment_id: strawberry.ID | None = None,
        note: str | None = None,
    ) -> ReportType:
        context, subject = info.context, Subject(message_id, user_id, attachment_id)
        return report_from(await report(context.app, context.viewer, subject, reason, note))

    @strawberry.mutation(description="VIEW_REPORTS, and the permission that the action needs.")
    async def resolve_report(
        self, info: Info, report_id: strawberry.ID, action: ReportAction, note: str | None = None
    ) -> ReportType:
        context = info.context
        # Only callers with a token.
        _ = context.viewer
        assert context.caller is not None
        return report_from(await resolve_report(context.app, context.caller, report_id, action, note))

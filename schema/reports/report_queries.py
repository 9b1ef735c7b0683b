"""Queries for reports."""

from __future__ import annotations

import strawberry

from resolvers.reports import queue
from schema.base.context import Info
from schema.reports.report_types import ReportConnection, report_connection
from store.reports.report import ReportState


@strawberry.type
class ReportQueries:
    @strawberry.field(description="VIEW_REPORTS of the workspace; without one: role admin. Open ones first.")
    async def reports(
        self,
        info: Info,
        workspace_id: strawberry.ID | None = None,
        state: ReportState | None = None,
        first: int | None = 50,
        after: str | None = None,
    ) -> ReportConnection:
        context = info.context
        # Only callers with a token.
        _ = context.viewer
        assert context.caller is not None
        return report_connection(
            await queue.list_reports(context.app, context.caller, workspace_id, state, first, after)
        )

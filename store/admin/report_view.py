"""Open reports, the oldest first."""

from __future__ import annotations

from store.admin.source import AdminSource, NoSuchObject, View, seconds_of, time_text, without_empty
from store.base.ids import file_id, message_id
from store.base.workspace_ids import WorkspaceId, is_workspace_id
from store.reports.report import OF_DEPLOYMENT, Report, queue_of

MOST_REPORTS = 200


async def view_reports(source: AdminSource, workspace: str | None) -> View:
    """Return open reports. workspace: those of a workspace; "-": of the deployment; None: all.

    Raises NoSuchObject and StoreError.
    """
    queue = None
    if workspace == OF_DEPLOYMENT:
        queue = queue_of(None)
    elif workspace is not None:
        if not is_workspace_id(workspace):
            raise NoSuchObject(f"{workspace!r} has not the form of a workspace id (w_…).")
        if await source.store.workspaces.find(WorkspaceId(workspace)) is None:
            raise NoSuchObject(f"There is no workspace {workspace}.")
        queue = queue_of(WorkspaceId(workspace))
    found = await source.store.reports.list_open(queue, MOST_REPORTS + 1)
    return {
        "open_reports": [_view_report(source, report) for report in found[:MOST_REPORTS]],
        "there_are_more": len(found) > MOST_REPORTS,
    }


def _view_report(source: AdminSource, report: Report) -> View:
    message = report.message
    view = without_empty(
        report=report.id,
        workspace=report.workspace or "the deployment",
        created_at=time_text(report.created_at_ms),
        waits_seconds=seconds_of(max(0, source.store.clock.now_ms() - report.created_at_ms)),
        reason=report.reason.value,
        reporter=report.reporter,
        user=report.user,
        conversation=message.conversation if message is not None else None,
        message=message_id(message.id) if message is not None else None,
        seq=message.seq if message is not None else None,
        file=file_id(report.attachment.id) if report.attachment is not None else None,
        begun_action=report.begun_action.value if report.begun_action is not None else None,
    )
    return view | (without_empty(text=report.text, note=report.note) if source.shows_texts else {})

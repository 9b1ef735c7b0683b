"""Resolves reports: the action first, then the resolution (ADR 97).

A report notes that a resolution was begun before the action is done. So if this process dies in between, the report is
still open, and a repetition of the call does the action again, which changes nothing then, and completes it.
"""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import ConfabError, InvalidInput, Unavailable
from resolvers.base.rate_limits import check_rate
from resolvers.moderation.targets import accept_reason
from resolvers.reports.actions import check_action, do_action
from resolvers.reports.queue import access_report, no_report
from resolvers.users.callers import Caller
from store.audit.audit_note import AuditNote
from store.base.errors import Unreachable
from store.reports.report import Report, ReportAction, ReportState

_ATTEMPTS = 3


async def resolve_report(app: Confab, caller: Caller, id: str, action: ReportAction, note: str | None) -> Report:
    """Resolve a report with an action on the author of what was reported. A repeated call returns the first one.

    Raises NotFound, Forbidden, RateLimited, and InvalidInput if the action does not fit, or if the report was resolved
    with another one: then nothing was changed. After Unreachable the call may be repeated.
    """
    reason = accept_reason(note, "note")
    check_rate(app.store.rate_limits.workspace_changes, caller.user_id)
    is_done = False
    for _ in range(_ATTEMPTS):
        report = await access_report(app, caller, id)
        if report.state is ReportState.RESOLVED:
            return _first_resolution(report, action)
        if not is_done:
            await check_action(app, caller, report, action)
        begun = await app.store.reports.begin(report.id, action)
        if begun is None:
            report = await access_report(app, caller, id)
            if report.state is ReportState.RESOLVED:
                return _first_resolution(report, action)
            raise InvalidInput(
                "somebody has begun to resolve this report with another action; use that action, or try again later",
                field="action",
            )
        report, is_first = begun
        try:
            if not is_done:
                await do_action(app, caller, report, action, reason)
            is_done = True
        except ConfabError as error:
            if is_first and not isinstance(error, Unavailable):
                await app.store.reports.cancel(report.id, action)
            if error.field == "userId":
                error.field = "reportId"
            raise
        entry = _audit_note(caller, report, action, reason)
        await app.store.reports.complete(report.id, action, caller.user_id, reason, entry)
        resolved = await app.store.reports.find(report.id)
        if resolved is None:
            raise no_report()
        if resolved.state is ReportState.RESOLVED:
            return _first_resolution(resolved, action)
        # Another call with the same action was refused meanwhile, and has removed the note that it was begun.
    raise Unreachable("other calls resolve this report at the same time; try again")


def _first_resolution(report: Report, action: ReportAction) -> Report:
    if report.action is not action:
        done = report.action.name if report.action is not None else ReportAction.NONE.name
        raise InvalidInput(f"this report was already resolved with {done}; no other action is possible", field="action")
    return report


def _audit_note(caller: Caller, report: Report, action: ReportAction, reason: str | None) -> AuditNote:
    return AuditNote(
        user=caller.user_id,
        action="resolveReport",
        workspace=report.workspace,
        target=report.user,
        before={"state": ReportState.OPEN.name},
        after={"state": ReportState.RESOLVED.name, "action": action.name, "reportId": report.id},
        reason=reason,
    )

"""Lists and finds reports of a workspace or of the deployment, for users who may see them."""

from __future__ import annotations

import re

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page
from resolvers.base.errors import Forbidden, InvalidInput, NotFound
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.users.callers import Caller, CallerRole
from resolvers.workspaces.access import access_scope, find_access
from store.reports.report import Report, ReportId, ReportState, is_report_id
from store.workspaces.permissions import Permission

_CURSOR = "rp"
_ORDER = re.compile(r"[0-9]{1,19}\Z")
_ORDERS_END = 1 << 63
"""`Report.order` in cursors is below this."""


async def list_reports(
    app: Confab, caller: Caller, workspace: str | None, state: ReportState | None, first: int | None, after: str | None
) -> Page[Report]:
    """Return a page of the reports of a workspace; None: of the deployment. Open ones first, the newest of each first.

    Raises InvalidInput, Forbidden, and NotFound if the caller is not in the workspace.
    """
    size = check_page_size(first, "first")
    position = _decode_position(after) if after is not None else None
    queue = await access_scope(app, caller, workspace, Permission.VIEW_REPORTS)
    states = (state,) if state is not None else tuple(ReportState)
    found = await app.store.reports.list_page(queue, states, position, size + 1)
    edges = [Edge(report, (_CURSOR, report.state.value, report.order)) for report in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=position is not None)


async def find_report(app: Confab, caller: Caller, id: str) -> Report | None:
    """Return a report if the caller may see its queue or is the reporter, else None."""
    report = await app.store.reports.find(ReportId(id)) if is_report_id(id) else None
    if report is None or report.reporter == caller.user_id or await _may_see(app, caller, report):
        return report
    return None


async def access_report(app: Confab, caller: Caller, id: str) -> Report:
    """Return a report that the caller may resolve, apart from the permission that the action needs.

    Raises Forbidden for its reporter, and for members of its workspace without VIEW_REPORTS. Raises NotFound for all
    others.
    """
    report = await app.store.reports.find(ReportId(id)) if is_report_id(id) else None
    if report is None:
        raise no_report()
    try:
        await access_scope(app, caller, report.workspace, Permission.VIEW_REPORTS)
    except NotFound as error:
        if report.reporter != caller.user_id:
            raise no_report() from error
        raise Forbidden("only moderators resolve reports") from error
    except Forbidden as error:
        if report.workspace is None and report.reporter != caller.user_id:
            raise no_report() from error
        raise
    return report


def no_report() -> NotFound:
    """Return the error for a report that does not exist, or that the caller may not see."""
    return NotFound("there is no such report, or you can't see it", field="reportId")


async def _may_see(app: Confab, caller: Caller, report: Report) -> bool:
    if report.workspace is None:
        return caller.role is CallerRole.ADMIN
    access = await find_access(app, caller.user_id, report.workspace)
    return access is not None and Permission.VIEW_REPORTS in access.rights(app.store.clock.now_ms())


def _decode_position(after: str) -> tuple[ReportState, int]:
    parts = decode_page(_CURSOR, after, "after")
    states = {state.value: state for state in ReportState}
    if len(parts) != 2 or parts[0] not in states or not _ORDER.match(parts[1]) or int(parts[1]) >= _ORDERS_END:
        raise InvalidInput("after must be a cursor of this list", field="after")
    return states[parts[0]], int(parts[1])

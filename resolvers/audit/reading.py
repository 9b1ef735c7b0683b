"""Reads the audit log, for members with VIEW_AUDIT_LOG and for admins (ADR 92)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.base.checks import check_encodable
from resolvers.base.cursors import decode_page_text
from resolvers.base.errors import Forbidden, InvalidInput, NotFound
from resolvers.base.pages import Edge, Page, PageSizes
from resolvers.users.callers import Caller
from resolvers.workspaces.access import access_scope
from store.audit.audit_entry import AuditEntry, AuditEntryId
from store.audit.audit_reads import AuditFilter
from store.base.ids import UserId
from store.workspaces.permissions import Permission

MOST_ACTIONS = 100
"""Actions that a query may ask for."""

_CURSOR = "au"
_ENTRY = re.compile(r"[0-9]{1,19}\Z")


def accept_filter(actor: str | None, target: str | None, actions: Sequence[str] | None) -> AuditFilter:
    """Return the conditions of a query. With unknown names and ids, no entry is found. Raises InvalidInput."""
    if actions is not None and len(actions) > MOST_ACTIONS:
        raise InvalidInput(f"give at most {MOST_ACTIONS} actions", field="actions")
    for field, texts in (("actorId", [actor]), ("targetId", [target]), ("actions", actions or ())):
        for text in texts:
            check_encodable(text or "", field)
    return AuditFilter(UserId(actor) if actor is not None else None, target, actions)


async def list_entries(
    app: Confab,
    caller: Caller,
    workspace: str | None,
    wanted: AuditFilter,
    first: int | None,
    after: str | None,
    sizes: PageSizes,
) -> Page[AuditEntry]:
    """Return a page of the log of a workspace, or of the deployment (None), the newest first.

    With several conditions it may have fewer entries than asked for, though there are more: see `AuditReads`.

    Raises InvalidInput, Forbidden, and NotFound if the caller is not in the workspace.
    """
    log = await access_scope(app, caller, workspace, Permission.VIEW_AUDIT_LOG)
    size = sizes.check(first, "first")
    found = await app.store.audit_reads.list_newest(log, wanted, _decode(after), size)
    edges = [Edge(entry, (_CURSOR, entry.id.entry)) for entry in found.entries]
    end = (_CURSOR, found.resume) if found.resume is not None else None
    return Page(edges, has_next=end is not None, has_previous=after is not None, end_position=end)


async def find_entry(app: Confab, caller: Caller, id: str) -> AuditEntry | None:
    """Return an entry of a log that the caller may read, or None."""
    parsed = AuditEntryId.parse(id)
    if parsed is None:
        return None
    try:
        await access_scope(app, caller, parsed.workspace, Permission.VIEW_AUDIT_LOG)
    except (NotFound, Forbidden):
        return None
    return await app.store.audit_reads.find(parsed)


def _decode(after: str | None) -> int | None:
    text = decode_page_text(_CURSOR, after, "after")
    if text is not None and not _ENTRY.match(text):
        raise InvalidInput("after must be a cursor of this list", field="after")
    return int(text) if text is not None else None

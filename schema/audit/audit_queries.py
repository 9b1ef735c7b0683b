"""The query of the audit log."""

from __future__ import annotations

import strawberry

from resolvers.audit import reading
from schema.audit.audit_types import AuditConnection, audit_connection
from schema.base.context import Info


@strawberry.type
class AuditQueries:
    @strawberry.field(
        description="VIEW_AUDIT_LOG; without a workspace: role admin. Newest first. action: the mutation's name; "
        "targetId: the person concerned, else the object; actor: the caller."
    )
    async def audit_log(
        self,
        info: Info,
        workspace_id: strawberry.ID | None = None,
        actor_id: strawberry.ID | None = None,
        target_id: strawberry.ID | None = None,
        actions: list[str] | None = None,
        first: int | None = 50,
        after: str | None = None,
    ) -> AuditConnection:
        context = info.context
        caller = context.caller
        assert caller is not None
        wanted = reading.accept_filter(actor_id, target_id, actions)
        return audit_connection(
            await reading.list_entries(context.app, caller, workspace_id, wanted, first, after, context.page_sizes)
        )

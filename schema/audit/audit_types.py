"""The GraphQL types of the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import strawberry

from resolvers.audit import reading
from resolvers.base.pages import Edge, Page
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import JSON, DateTime
from schema.compiler import prefetched_by, reads
from schema.users.user_types import UserType, load_user
from store.audit.audit_entry import AuditEntry


def _prefetch_users(context: Context, entries: Sequence[AuditEntryType]) -> Any:
    users = [user for entry in entries for user in (entry.record.actor, entry.record.on_behalf_of) if user is not None]
    return context.loaders.prefetch_users(users)


@strawberry.type(name="AuditEntry")
class AuditEntryType(Node):
    record: strawberry.Private[AuditEntry]
    id: strawberry.ID = reads("record.id")
    action: str = reads("record.action")
    target_id: strawberry.ID | None = reads("record.target")
    reason: str | None = reads("record.reason")
    created_at: DateTime = reads("record.created_at_ms")

    @strawberry.field(metadata=prefetched_by(_prefetch_users))
    def actor(self, info: Info) -> UserType:
        user: UserType = load_user(info.context, self.record.actor)
        return user

    @strawberry.field(metadata=prefetched_by(_prefetch_users))
    def on_behalf_of(self, info: Info) -> UserType | None:
        user = self.record.on_behalf_of
        return load_user(info.context, user) if user is not None else None

    @strawberry.field
    def before(self) -> JSON | None:
        return _json(self.record.before)

    @strawberry.field
    def after(self) -> JSON | None:
        return _json(self.record.after)


def _json(values: Any) -> JSON | None:
    return JSON(orjson.dumps(values)) if values is not None else None


@strawberry.type
class AuditEdge:
    edge: strawberry.Private[Edge[AuditEntry]]
    node: AuditEntryType
    cursor: str = reads("edge.cursor")


@strawberry.type
class AuditConnection:
    edges: list[AuditEdge]
    page_info: PageInfo


def audit_connection(page: Page[AuditEntry]) -> AuditConnection:
    """Return a page of entries as a Relay connection."""
    return AuditConnection(
        edges=[AuditEdge(edge=edge, node=AuditEntryType(record=edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )


async def find_audit_entry(context: Context, id: str) -> AuditEntryType | None:
    """Return an entry, or None if the caller may not read the log that it is in."""
    if context.caller is None:
        return None
    found = await reading.find_entry(context.app, context.caller, id)
    return AuditEntryType(record=found) if found is not None else None

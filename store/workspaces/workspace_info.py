"""The profile of a workspace: what its document has besides the policy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document
from store.users.search_text import name_keys, normalize
from store.workspaces.workspace_fields import WorkspaceField


class Plan(StrEnum):
    """Plan of a workspace, with stored values. The application decides what it means."""

    FREE = "FREE"
    PRO = "PRO"
    BUSINESS = "BUSINESS"
    ENTERPRISE = "ENTERPRISE"


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """A workspace without its policy, as of one read. `metadata`: JSON text."""

    id: WorkspaceId
    name: str
    owner: UserId
    created_at_ms: int
    member_count: int
    version: int
    """The policy version of the document."""
    domain: str | None = None
    icon_url: str | None = None
    plan: Plan = Plan.FREE
    metadata: str | None = None
    is_open: bool = False
    retention_days: int | None = None
    """Messages expire after this time; None: never."""


def info_from(row: Document) -> WorkspaceInfo:
    """Return the profile that a document has."""
    return WorkspaceInfo(
        id=WorkspaceId(row["_id"]),
        name=row[WorkspaceField.NAME],
        owner=UserId(row[WorkspaceField.OWNER]),
        created_at_ms=int(row[WorkspaceField.CREATED_AT]),
        member_count=int(row[WorkspaceField.MEMBER_COUNT]),
        version=int(row[WorkspaceField.POLICY_VERSION]),
        domain=row.get(WorkspaceField.DOMAIN),
        icon_url=row.get(WorkspaceField.ICON),
        plan=Plan(row.get(WorkspaceField.PLAN, Plan.FREE)),
        metadata=row.get(WorkspaceField.METADATA),
        is_open=row.get(WorkspaceField.IS_OPEN, False),
        retention_days=row.get(WorkspaceField.RETENTION_DAYS),
    )


def info_fields(info: WorkspaceInfo) -> Document:
    """Return the fields of a new workspace's document that are not part of its policy. Absent ones are left out."""
    fields: Document = {
        WorkspaceField.NAME: info.name,
        WorkspaceField.DOMAIN: info.domain,
        WorkspaceField.ICON: info.icon_url,
        WorkspaceField.PLAN: info.plan.value if info.plan is not Plan.FREE else None,
        WorkspaceField.METADATA: info.metadata,
        WorkspaceField.RETENTION_DAYS: info.retention_days,
        WorkspaceField.MEMBER_COUNT: info.member_count,
        WorkspaceField.CREATED_BY: info.owner,
        WorkspaceField.CREATED_AT: info.created_at_ms,
    }
    fields |= open_fields(info.name) if info.is_open else {}
    return {name: value for name, value in fields.items() if value is not None}


OPEN_FIELDS = (WorkspaceField.IS_OPEN, WorkspaceField.SEARCH_NAME, WorkspaceField.SEARCH_KEYS)
"""All fields that `open_fields` returns. A workspace that is not open has none of them, and is in no index of names."""


def open_fields(name: str) -> Document:
    """Return the fields by which an open workspace with a name is listed and found."""
    normalized = normalize(name)
    return {
        WorkspaceField.IS_OPEN: True,
        WorkspaceField.SEARCH_NAME: normalized,
        WorkspaceField.SEARCH_KEYS: sorted(set(name_keys(normalized))),
    }


def update_of_info(before: WorkspaceInfo, after: WorkspaceInfo) -> dict[str, Document]:
    """Return the update operators for the fields of the document that differ. Empty: nothing changes.

    Not for the owner and the member count, which change in other ways.
    """
    old, new = info_fields(before), info_fields(after)
    update: dict[str, Document] = {}
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    if changed:
        update["$set"] = changed
    removed = {name: "" for name in old if name not in new}
    return update | {"$unset": removed} if removed else update


def with_due_time(update: dict[str, Document], after: WorkspaceInfo) -> dict[str, Document]:
    """Return the update of a document, extended by when messages expire: from now on, or never any more."""
    due = WorkspaceField.RETENTION_DUE
    if after.retention_days is None:
        return update | {"$unset": update.get("$unset", {}) | {due: ""}}
    return update | {"$set": update.get("$set", {}) | {due: 0}}

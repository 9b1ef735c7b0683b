"""Entries of the audit log, as they are read, and their stored form (ADR 92)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

import orjson

from store.base.ids import UserId
from store.base.snowflakes import created_at_ms
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document
from store.mongo.collections import audit_row_id

_ID = re.compile(r"a_(?:(?P<workspace>0|[1-9][0-9]{0,18})\.)?(?P<entry>0|[1-9][0-9]{0,18})\Z")


class AuditField:
    """Stored names of the fields of `audit`. Empty fields are left out."""

    USER = "u"
    """The user in whose name the change was made."""
    ACTED_BY = "ab"
    """The service or admin who acted for the user."""
    ACTION = "a"
    TARGET = "t"
    BEFORE = "b"
    AFTER = "f"
    REASON = "r"
    UNTIL = "x"
    """When MongoDB removes the entry (a date). Absent: it is kept."""


class AuditEntryId(NamedTuple):
    """The parts of an id: `a_<workspace>.<snowflake>`, in the log of the deployment `a_<snowflake>`."""

    workspace: WorkspaceId | None
    entry: int

    def __str__(self) -> str:
        """Return the id as the API has it."""
        inside = f"{self.workspace[2:]}." if self.workspace is not None else ""
        return f"a_{inside}{self.entry}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the parts of a well-formed id."""
        found = _ID.match(text)
        if found is None:
            return None
        workspace = found["workspace"]
        return cls(WorkspaceId(f"w_{workspace}") if workspace is not None else None, int(found["entry"]))

    @classmethod
    def of_row(cls, row_id: str) -> Self:
        """Return the id of a row."""
        workspace, _, entry = row_id.partition(" ")
        return cls(WorkspaceId(workspace) if workspace != "-" else None, int(entry))

    @property
    def row_id(self) -> str:
        """The `_id` of the row."""
        return audit_row_id(self.workspace, self.entry)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry.

    Attributes:
        id: Its id.
        actor: The user of the token with which the change was made.
        on_behalf_of: The user that the actor acted for; None: for nobody else.
        action: The mutation's name.
        target: The id of the person concerned, else of the object.
        before: Values that the change has replaced, by the names of the API.
        after: The values after it.
        reason: The reason that was given.
    """

    id: AuditEntryId
    actor: UserId
    on_behalf_of: UserId | None
    action: str
    target: str | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    reason: str | None = None

    @property
    def created_at_ms(self) -> int:
        """The time of the change, a moment before it was stored."""
        return created_at_ms(self.id.entry)


def to_json(row: Document) -> bytes:
    """Return a new row as JSON, for a change that is stored later."""
    until = row.get(AuditField.UNTIL)
    return orjson.dumps(row | ({AuditField.UNTIL: until.timestamp()} if until is not None else {}))


def from_json(text: str) -> Document:
    """Return the row that `to_json` has encoded."""
    row: Document = orjson.loads(text)
    if AuditField.UNTIL in row:
        row[AuditField.UNTIL] = datetime.fromtimestamp(row[AuditField.UNTIL], UTC)
    return row


def entry_from(row: Document) -> AuditEntry:
    """Return the entry of a row."""
    user, acted_by = UserId(row[AuditField.USER]), row.get(AuditField.ACTED_BY)
    return AuditEntry(
        AuditEntryId.of_row(row["_id"]),
        UserId(acted_by) if acted_by is not None else user,
        user if acted_by is not None else None,
        row[AuditField.ACTION],
        row.get(AuditField.TARGET),
        row.get(AuditField.BEFORE),
        row.get(AuditField.AFTER),
        row.get(AuditField.REASON),
    )

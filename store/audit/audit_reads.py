"""Reads of the audit log: single entries, and pages with filters (ADR 92)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from store.audit.audit_entry import AuditEntry, AuditEntryId, AuditField, entry_from
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document, Mongo, Sort
from store.mongo.collections import AUDIT
from store.mongo.index_fields import BY_AUDIT_ACTED_BY, BY_AUDIT_ACTION, BY_AUDIT_TARGET, BY_AUDIT_USER

ROWS_PER_STEP = 250
MOST_ROWS = 1_000
"""Entries that one page reads at most, if filters leave out many of them."""

_F = AuditField
_NEWEST_FIRST: Sort = [("_id", -1)]
_BY_ID: Sort = [("_id", 1)]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions on entries; None: no condition. An entry has to meet all of them."""

    actor: UserId | None = None
    target: str | None = None
    actions: Sequence[str] | None = None

    def accepts(self, entry: AuditEntry) -> bool:
        """Return whether an entry meets the conditions."""
        return (
            (self.actor is None or entry.actor == self.actor)
            and (self.target is None or entry.target == self.target)
            and (self.actions is None or entry.action in self.actions)
        )

    @property
    def is_single(self) -> bool:
        """True if at most one condition is given: then an index finds exactly the entries that meet it."""
        return sum(each is not None for each in (self.actor, self.target, self.actions)) <= 1

    def queries(self) -> list[tuple[Document, Sort]]:
        """Return queries that find all entries, each with the index that has them in the order of time.

        With several conditions the queries find more entries: those with the target, which are the fewest, or else the
        actor.
        """
        if self.target is not None:
            return [({_F.TARGET: self.target}, BY_AUDIT_TARGET)]
        if self.actor is not None:
            return [
                ({_F.USER: self.actor, _F.ACTED_BY: None}, BY_AUDIT_USER),
                ({_F.ACTED_BY: self.actor}, BY_AUDIT_ACTED_BY),
            ]
        if self.actions is not None:
            return [({_F.ACTION: {"$in": list(dict.fromkeys(self.actions))}}, BY_AUDIT_ACTION)]
        return [({}, _BY_ID)]


class AuditPage(NamedTuple):
    """Entries, the newest first. resume: the entry after which the next search begins; None: there are no more."""

    entries: list[AuditEntry]
    resume: int | None


class AuditReads:
    """Reads entries. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find(self, id: AuditEntryId) -> AuditEntry | None:
        """Return an entry. One round trip."""
        row = await self._mongo.find_one(AUDIT, {"_id": id.row_id})
        return entry_from(row) if row is not None else None

    async def list_newest(
        self, workspace: WorkspaceId | None, wanted: AuditFilter, before: int | None, size: int
    ) -> AuditPage:
        """Return entries that were added before another one (its snowflake; None: all), the newest first.

        One round trip with one condition; with several, one for each ROWS_PER_STEP entries that are read. After
        MOST_ROWS entries were read, fewer than `size` may be returned; continue after `resume`.
        """
        found: list[AuditEntry] = []
        limit = size + 1 if wanted.is_single else ROWS_PER_STEP
        for _ in range(1 if wanted.is_single else MOST_ROWS // ROWS_PER_STEP):
            rows = await self._read(workspace, wanted, before, limit)
            for entry in map(entry_from, rows):
                if wanted.accepts(entry):
                    if len(found) == size:
                        return AuditPage(found, found[-1].id.entry)
                    found.append(entry)
                before = entry.id.entry
            if len(rows) < limit:
                return AuditPage(found, None)
        return AuditPage(found, before)

    async def _read(
        self, workspace: WorkspaceId | None, wanted: AuditFilter, before: int | None, limit: int
    ) -> list[Document]:
        place = workspace or "-"
        end = AuditEntryId(workspace, before).row_id if before is not None else f"{place}!"
        inside: dict[str, Any] = {"_id": {"$gt": f"{place} ", "$lt": end}}
        parts: list[list[Document]] = await self._mongo.gather(
            *(
                self._mongo.find(AUDIT, inside | query, sort=_NEWEST_FIRST, limit=limit, hint=index)
                for query, index in wanted.queries()
            )
        )
        return sorted((row for part in parts for row in part), key=lambda row: str(row["_id"]), reverse=True)[:limit]

"""The audit log in MongoDB: new entries (ADR 92).

`audit` {_id: "<workspace or -> <snowflake, 19 digits>", …}: the entries of a workspace are together, in the order of
time. Entries are only added, and removed with their workspace or when they are older than a setting allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pymongo import InsertOne

from store.audit.audit_entry import AuditField
from store.audit.audit_note import AuditNote
from store.audit.bounded_values import LONGEST_REASON, bounded, shortened
from store.base.errors import StoreError, Unreachable
from store.base.group_commit import GroupCommit
from store.base.request_user import request_actor
from store.base.snowflakes import Snowflakes, created_at_ms
from store.mongo.client import Document, Mongo
from store.mongo.collections import AUDIT, audit_row_id

DAY_MS = 86_400_000

_BATCH = 500
"""Largest number of requests whose entries share a write."""


@dataclass(slots=True, eq=False)
class _WaitingRows:
    """Rows of one request, and the outcome of their write."""

    rows: Sequence[Document]
    done: asyncio.Future[None]


class AuditLog:
    """Adds entries."""

    def __init__(self, mongo: Mongo, ids: Snowflakes, kept_days: int = 0) -> None:
        """Create it. kept_days: days after which MongoDB removes new entries; 0: never."""
        self._mongo = mongo
        self._ids = ids
        self._kept_ms = kept_days * DAY_MS
        self._queue = GroupCommit(self._write, _BATCH)

    def entry_rows(self, *notes: AuditNote) -> list[Document]:
        """Return the rows of new entries, for a transaction that inserts them into `audit` itself.

        Who acts for the user is read from the current request.
        """
        return [self._row(note) for note in notes]

    def entry_writes(self, *notes: AuditNote) -> tuple[str, list[InsertOne[Document]]]:
        """Return the writes of new entries, for the transaction of the change that they are about."""
        return AUDIT, [InsertOne(row) for row in self.entry_rows(*notes)]

    async def record(self, *notes: AuditNote) -> list[str]:
        """Store entries before the change that they are about, if that has no transaction. Return the rows' `_id`s.

        Entries of requests that run at the same time share a write. Raises Unreachable: do not make the change then.
        """
        waiting = _WaitingRows(self.entry_rows(*notes), asyncio.get_running_loop().create_future())
        self._queue.push([waiting])
        await waiting.done
        return [row["_id"] for row in waiting.rows]

    async def withdraw(self, rows: Sequence[str]) -> None:
        """Remove entries of a change that was refused after they had been stored."""
        await self._mongo.delete_ids(AUDIT, rows)

    async def _write(self, batch: Sequence[_WaitingRows]) -> None:
        error: Exception | None = Unreachable("the write of the audit log was interrupted")
        try:
            await self._mongo.insert_each(AUDIT, [row for waiting in batch for row in waiting.rows])
            error = None
        except StoreError as raised:
            error = raised
        finally:
            for waiting in batch:
                if waiting.done.done():
                    continue
                if error is None:
                    waiting.done.set_result(None)
                else:
                    waiting.done.set_exception(error)

    def _row(self, note: AuditNote) -> Document:
        entry = self._ids.next()
        until = datetime.fromtimestamp((created_at_ms(entry) + self._kept_ms) / 1000, UTC) if self._kept_ms else None
        fields = {
            AuditField.USER: note.user,
            AuditField.ACTED_BY: request_actor.get(),
            AuditField.ACTION: note.action,
            AuditField.TARGET: note.target,
            AuditField.BEFORE: bounded(note.before) if note.before is not None else None,
            AuditField.AFTER: bounded(note.after) if note.after is not None else None,
            AuditField.REASON: shortened(note.reason, LONGEST_REASON) if note.reason is not None else None,
            AuditField.UNTIL: until,
        }
        present = {name: value for name, value in fields.items() if value is not None}
        return {"_id": audit_row_id(note.workspace, entry)} | present

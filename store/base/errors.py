"""Errors of the store. Drivers' own errors never leave this layer: `store.base.driver_errors` is the one boundary.

StoreError
├── Unreachable        MongoDB or Redis did not answer in time; the outcome of a write is unknown
│   ├── NotAttempted   nothing was sent, because MongoDB has had no primary for some time
│   └── TimeLimit      MongoDB stopped a read, because it took longer than its caller allowed
├── LockTimeout        a user's lock could not be acquired before the deadline
├── Fenced             the lock was lost before the change was applied
└── Superseded         a group or workspace changed since the change was decided

Refused: a transaction's own conditions were not met, so nothing was stored. Superseded is one of these errors.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

Database = Literal["mongodb", "redis"]

failures: Counter[str] = Counter()
"""Failed calls of this process, by database."""


class StoreError(Exception):
    """A failure of the store."""


class Unreachable(StoreError):
    """A database did not answer in time. Whether a write took place is unknown."""

    database: Database | None = None
    """The database that failed. None: not known."""

    def __init__(self, reason: str = "", database: Database | None = None) -> None:
        super().__init__(reason)
        if database is not None:
            self.database = database


class NotAttempted(Unreachable):
    """Nothing was sent to MongoDB: it has no primary, or its data needs a later version of Confab."""

    database = "mongodb"


class TimeLimit(Unreachable):
    """MongoDB stopped a read, because it took longer than its caller allowed."""

    database = "mongodb"


class LockTimeout(StoreError):
    """A user's lock could not be acquired before the deadline."""


class Fenced(StoreError):
    """The lock was lost before the change was applied. A retry is safe: the values that were written only grow."""


class Refused(Exception):
    """A condition within a transaction was not met, so the transaction was aborted: nothing was stored."""


class Superseded(StoreError, Refused):
    """The group or workspace changed after this change was decided. Nothing was stored; decide the change again."""

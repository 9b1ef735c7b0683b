"""Errors of the store. Drivers' own errors never leave this layer: `translate_errors` is the one boundary.

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
from collections.abc import Mapping
from typing import Any

from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError
from redis.exceptions import RedisError

_DUPLICATE_KEY = 11000
_TIME_LIMIT = 50

_DRIVER_LOCK_MESSAGE = "Lock is not acquired"
"""Message of a RuntimeError that PyMongo raises instead of its own error.

It happens when some requests stop waiting for a primary just as others begin to wait.
"""

failures: Counter[str] = Counter()
"""Failed calls of this process, by database."""


class StoreError(Exception):
    """A failure of the store."""


class Unreachable(StoreError):
    """A database did not answer in time. Whether a write took place is unknown."""


class NotAttempted(Unreachable):
    """Nothing was sent to MongoDB: it has no primary, or its data needs a later version of Confab."""


class TimeLimit(Unreachable):
    """MongoDB stopped a read, because it took longer than its caller allowed."""


class LockTimeout(StoreError):
    """A user's lock could not be acquired before the deadline."""


class Fenced(StoreError):
    """The lock was lost before the change was applied. A retry is safe: the values that were written only grow."""


class Refused(Exception):
    """A condition within a transaction was not met, so the transaction was aborted: nothing was stored."""


class Superseded(StoreError, Refused):
    """The group or workspace changed after this change was decided. Nothing was stored; decide the change again."""


class translate_errors:  # a class, because a generator costs ten times as much
    """Turn drivers' errors within the block into Unreachable.

    DuplicateKeyError passes, because its meaning depends on the caller. A BulkWriteError passes if it reports nothing
    but duplicate keys.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        match error:
            case None | DuplicateKeyError():
                return
            case BulkWriteError(details=details):
                if details["writeConcernErrors"] or any(e["code"] != _DUPLICATE_KEY for e in details["writeErrors"]):
                    raise Unreachable(f"a batch of writes was not confirmed: {_codes(details)}") from None
            case OperationFailure(code=code) if code == _TIME_LIMIT:
                raise TimeLimit("a read took too long") from None
            case OperationFailure(code=code):
                # Its text may quote the document, and would end up in the log.
                failures["mongodb"] += 1
                raise Unreachable(f"{type(error).__name__}: code {code}") from None
            case PyMongoError() | RedisError() | OSError():
                failures["mongodb" if isinstance(error, PyMongoError) else "redis"] += 1
                raise Unreachable(f"{type(error).__name__}: {error}") from error
            case RuntimeError() if str(error) == _DRIVER_LOCK_MESSAGE:
                raise Unreachable(f"the driver failed with its own lock: {error}") from error


def _codes(details: Mapping[str, Any]) -> str:
    failures = [*details["writeErrors"], *details["writeConcernErrors"]]
    return "codes " + ", ".join(str(code) for code in sorted({failure.get("code", 0) for failure in failures}))

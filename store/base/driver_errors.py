"""Translation of errors of the drivers of MongoDB and Redis.

A module of its own: the drivers take 30 MB of memory, and programs that only name errors do not need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError
from redis.exceptions import RedisError

from store.base.errors import TimeLimit, Unreachable, failures

_DUPLICATE_KEY = 11000
_TIME_LIMIT = 50

_DRIVER_LOCK_MESSAGE = "Lock is not acquired"
"""Message of a RuntimeError that PyMongo raises instead of its own error.

It happens when some requests stop waiting for a primary just as others begin to wait.
"""


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

"""Translation of errors of the drivers of MongoDB and Redis.

A module of its own: the drivers take 30 MB of memory, and programs that only name errors do not need them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pymongo.errors import (
    BulkWriteError,
    DuplicateKeyError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from redis.exceptions import RedisError

from store.base.errors import Database, TimeLimit, Unreachable, failures

_DUPLICATE_KEY = 11000
_TIME_LIMIT = 50

_DRIVER_LOCK_MESSAGE = "Lock is not acquired"
"""Message of a RuntimeError that PyMongo raises instead of its own error.

It happens when some requests stop waiting for a primary just as others begin to wait.
"""

_DRIVER_STATE = re.compile(r" \(configured timeouts: [^()]*\)|, Timeout: \S+, Topology Description: .*", re.DOTALL)
"""Parts of PyMongo's messages with its timeouts, and with its state of every server."""


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
                    raise Unreachable(f"a batch of writes was not confirmed: {_codes(details)}", "mongodb") from None
            case OperationFailure(code=code) if code == _TIME_LIMIT:
                raise TimeLimit("a read took too long") from None
            case OperationFailure(code=code):
                # Its text may quote the document, and would end up in the log.
                failures["mongodb"] += 1
                raise Unreachable(f"{type(error).__name__}: code {code}", "mongodb") from None
            case PyMongoError() | RedisError() | OSError():
                database: Database = "mongodb" if isinstance(error, PyMongoError) else "redis"
                failures[database] += 1
                raise Unreachable(_reason(error), database) from error
            case RuntimeError() if str(error) == _DRIVER_LOCK_MESSAGE:
                raise Unreachable(f"the driver failed with its own lock: {error}", "mongodb") from error


def _reason(error: Exception) -> str:
    """Return the message of an error in one line, for logs and for people who run commands."""
    message = _DRIVER_STATE.sub("", str(error))
    if isinstance(error, ServerSelectionTimeoutError):
        # "No primary available for writes": other servers may answer.
        return message if message.startswith("No ") else f"no server of MongoDB can be reached: {message}"
    return f"{type(error).__name__}: {message}"


def _codes(details: Mapping[str, Any]) -> str:
    failures = [*details["writeErrors"], *details["writeConcernErrors"]]
    return "codes " + ", ".join(str(code) for code in sorted({failure.get("code", 0) for failure in failures}))

"""What the store raises. Drivers' own errors never leave this layer: `translated` is the one boundary.

StoreError
├── Unreachable      MongoDB or Redis did not answer in time; the outcome of a write is unknown
│   └── Away         nothing was asked: there has been nobody to ask for some time
├── LockTimeout      the user's lock was not to be had within the deadline
├── Fenced           the lock was lost before the change was applied
└── Superseded       the group is not the one that a change was decided on
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError
from redis.exceptions import RedisError

_DUPLICATE_KEY = 11000

_LOCK_OF_A_DRIVER = "Lock is not acquired"
"""What PyMongo says instead of its own error where requests that wait for a primary end just as others begin to."""

failures: Counter[str] = Counter()
"""By database, how often a call to it failed in this process."""


class StoreError(Exception):
    """A failure of the store."""


class Unreachable(StoreError):
    """A database did not answer in time. Whether a write took place is unknown."""


class Away(Unreachable):
    """Nothing was asked: MongoDB has had no primary for some time."""


class LockTimeout(StoreError):
    """The user's lock was not to be had within the deadline."""


class Fenced(StoreError):
    """The lock ended before the change was applied. What was written is monotonic, so trying again is safe."""


class Superseded(StoreError):
    """A change of a group was decided on what is not so any more: nothing was stored. To be decided anew."""


class translated:  # read as a verb, and a class because a generator costs ten times as much
    """Turns drivers' failures into Unreachable, within the block. What a duplicate key means is for the caller to say: it passes.

    A BulkWriteError passes only if duplicate keys are all that it tells of.
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
            case OperationFailure(code=code):
                # Its text may quote what was to be stored, and ends up in the log.
                failures["mongodb"] += 1
                raise Unreachable(f"{type(error).__name__}: code {code}") from None
            case PyMongoError() | RedisError() | OSError():
                failures["mongodb" if isinstance(error, PyMongoError) else "redis"] += 1
                raise Unreachable(f"{type(error).__name__}: {error}") from error
            case RuntimeError() if str(error) == _LOCK_OF_A_DRIVER:
                raise Unreachable(f"the driver tripped over its own lock: {error}") from error


def _codes(details: Mapping[str, Any]) -> str:
    failures = [*details["writeErrors"], *details["writeConcernErrors"]]
    return "codes " + ", ".join(str(code) for code in sorted({failure.get("code", 0) for failure in failures}))

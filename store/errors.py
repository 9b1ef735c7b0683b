"""What the store raises. Drivers' own errors never leave this layer: `translated` is the one boundary.

StoreError
├── Unreachable      MongoDB or Redis did not answer in time; the outcome of a write is unknown
├── LockTimeout      the user's lock was not to be had within the deadline
├── Fenced           the lock was lost before the change was applied
└── Superseded       the group is not the one that a change was decided on
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError
from redis.exceptions import RedisError

_DUPLICATE_KEY = 11000


class StoreError(Exception):
    """A failure of the store."""


class Unreachable(StoreError):
    """A database did not answer in time. Whether a write took place is unknown."""


class LockTimeout(StoreError):
    """The user's lock was not to be had within the deadline."""


class Fenced(StoreError):
    """The lock ended before the change was applied. What was written is monotonic, so trying again is safe."""


class Superseded(StoreError):
    """A change of a group was decided on what is not so any more: nothing was stored. To be decided anew."""


@contextmanager
def translated() -> Iterator[None]:
    """Turns drivers' failures into Unreachable. What a duplicate key means is for the caller to say: it passes.

    A BulkWriteError passes only if duplicate keys are all that it tells of.
    """
    try:
        yield
    except DuplicateKeyError:
        raise
    except BulkWriteError as error:
        details = error.details
        if details["writeConcernErrors"] or any(e["code"] != _DUPLICATE_KEY for e in details["writeErrors"]):
            raise Unreachable(f"a batch of writes was not confirmed: {details['writeErrors'][:1]}") from error
        raise
    except (PyMongoError, RedisError, OSError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error

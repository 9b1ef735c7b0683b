"""Databases that refuse every change, for commands that only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from store.mongo.client import Mongo
from store.redis.cache import Cache, Call

_READS = frozenset(
    (
        *("EXISTS", "GET", "HGET", "HGETALL", "HLEN", "HMGET", "TIME", "XLEN", "XRANGE"),
        *("ZCARD", "ZCOUNT", "ZRANGE", "ZSCORE"),
    )
)
"""Commands of Redis that change nothing, not even a time to live."""


class ReadOnlyViolation(Exception):
    """Raised when a command that only reads is about to change something. Nothing was sent."""


def _refuse(*args: Any, **fields: Any) -> Any:
    raise ReadOnlyViolation("this command must not change anything")


class ReadOnlyMongo(Mongo):
    """A database of which all methods that change something raise ReadOnlyViolation."""

    ensure_indexes = _refuse
    drop_index = _refuse
    insert_many = _refuse
    insert_one = _refuse
    bulk_write = _refuse
    write = _refuse
    insert_each = _refuse
    update_one = _refuse
    delete_one = _refuse
    delete_ids = _refuse
    delete_each = _refuse
    find_one_and_update = _refuse
    transaction = _refuse
    run_admin = _refuse


class ReadOnlyCache(Cache):
    """A Redis to which only commands that read are sent. It has no scripts, so it loads none either."""

    def __init__(self, url: str, *, prefix: str = "") -> None:
        """Create the client; the first call connects. url: of a Redis or a cluster. prefix: of all key names."""
        super().__init__(url, lambda is_cluster: {}, prefix=prefix)

    async def attempt(self, calls: Sequence[Call]) -> list[Any]:
        """Run calls as `Cache.attempt` does. Raises ReadOnlyViolation for one that may change something."""
        if any(call.name not in _READS for call in calls):
            _refuse()
        return await super().attempt(calls)

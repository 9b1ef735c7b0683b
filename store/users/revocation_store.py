"""Revocations: tokens of a user that were issued before a time are refused. `revocations` {_id: user, at: ms}.

Rows are never deleted: only the issuer knows when the last old token expires.
"""

from __future__ import annotations

from collections.abc import Mapping

from pymongo import UpdateOne

from store.base.ids import UserId
from store.mongo.client import Mongo
from store.mongo.collections import REVOCATIONS

Revoked = Mapping[UserId, int]
"""Earliest time of issue (ms since the epoch) of tokens that are accepted, by user."""


class RevocationStore:
    """Revocations in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def revoke(self, user: UserId, at_ms: int) -> None:
        """Refuse tokens of a user that were issued before a time. An earlier time does not undo a later one."""
        await self._mongo.bulk_write(REVOCATIONS, [revocation_write(user, at_ms)])

    async def find(self, user: UserId) -> int | None:
        """Return the time (ms) before which issued tokens of a user are refused; None: none are. One round trip."""
        row = await self._mongo.find_one(REVOCATIONS, {"_id": user})
        return int(row["at"]) if row is not None else None

    async def list_since(self, at_ms: int) -> Revoked:
        """Return the revocations whose time is `at_ms` or later."""
        rows = await self._mongo.find(REVOCATIONS, {"at": {"$gte": at_ms}})
        return {UserId(row["_id"]): row["at"] for row in rows}


def revocation_write(user: UserId, at_ms: int) -> UpdateOne:
    """Return the write of a revocation. An earlier time does not undo a later one."""
    return UpdateOne({"_id": user}, {"$max": {"at": at_ms}}, upsert=True)

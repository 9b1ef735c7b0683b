"""Revocations: from when on a user's tokens must be issued to be good. `revocations` {_id user, at (ms)}.

A row stays: nobody but its issuer knows how long a token may still be good by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from store.base.ids import UserId
from store.mongo.client import Mongo
from store.mongo.collections import REVOCATIONS

Revoked = Mapping[UserId, int]
"""Since when (ms since the epoch) users' tokens must be issued."""


class RevocationStore:
    """Revocations as they last."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def revoke(self, user: UserId, at_ms: int) -> None:
        """Tokens of the user that were issued before a time are not good any more. Never turned back by an earlier time."""
        await self._mongo.update_one(REVOCATIONS, {"_id": user}, {"$max": {"at": at_ms}}, upsert=True)

    async def list_since(self, at_ms: int) -> Revoked:
        """Revocations from a time on."""
        rows = await self._mongo.find(REVOCATIONS, {"at": {"$gte": at_ms}})
        return {UserId(row["_id"]): row["at"] for row in rows}

"""Idempotency of sending: a sender's key stands for one message for 24 hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson
from pymongo.errors import DuplicateKeyError

from store.base.ids import ConversationId, MessageId, UserId
from store.mongo.client import Mongo
from store.mongo.collections import CLAIMS
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

CLAIM_MS = 24 * 3600 * 1000
"""How long a key stands for its message."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The message that a key stands for. `seq` is 0 until that message is durable."""

    message: MessageId
    conversation: ConversationId
    digest: str
    seq: int = 0

    def to_json(self) -> bytes:
        """Return the stored form."""
        return orjson.dumps([str(self.message), self.conversation, self.digest, self.seq])


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """Result of claiming a key. `existing`: the claim that the key had already; None: the key is the caller's now.

    `epoch`: lifetime of the state of Redis that answered. If the process knows another one, Redis has lost older
    claims. None: Redis is away.
    """

    existing: Claim | None
    epoch: str | None


def _claim_from(text: bytes) -> Claim:
    message, conversation, digest, seq = orjson.loads(text)
    return Claim(MessageId(int(message)), ConversationId(conversation), digest, seq)


def _row_id(sender: UserId, key: str) -> str:
    return f"message {sender} {key}"


class ClaimStore:
    """Claims in Redis; in MongoDB while Redis is away.

    The key is stored with the message too, for when Redis lost the claims. `claims` {_id: "message <user> <key>",
    v: the claim, until: its end}.
    """

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys

    async def claim(self, sender: UserId, key: str, claim: Claim) -> ClaimResult:
        """Claim a key, unless it has a claim already. One round trip."""
        if self._cache.spare is not None:
            return ClaimResult(await self._claim_in_mongo(sender, key, claim), None)
        existing, epoch = await self._cache.run(
            [
                Call("claim_key", (self._keys.claim(sender, key),), (claim.to_json(), CLAIM_MS)),
                Call("GET", (self._keys.epoch,)),
            ]
        )
        return ClaimResult(_claim_from(existing) if existing else None, epoch.decode() if epoch else "")

    async def _claim_in_mongo(self, sender: UserId, key: str, claim: Claim) -> Claim | None:
        until = datetime.now(UTC) + timedelta(milliseconds=CLAIM_MS)
        row = {"_id": _row_id(sender, key), "v": claim.to_json(), "until": until}
        try:
            await self._mongo.insert_one(CLAIMS, row)
        except DuplicateKeyError:
            return await self.find_in_mongo(sender, key) or claim
        return None

    async def find_in_mongo(self, sender: UserId, key: str) -> Claim | None:
        """Return the claim that MongoDB has, from a time when Redis was away."""
        row = await self._mongo.find_one(CLAIMS, {"_id": _row_id(sender, key)})
        return _claim_from(row["v"]) if row else None

    async def release(self, sender: UserId, key: str, claim: Claim) -> None:
        """Remove the claim of a message that was refused."""
        if self._cache.spare is not None:
            await self._mongo.delete_one(CLAIMS, {"_id": _row_id(sender, key), "v": claim.to_json()})
            return
        await self._cache.one(Call("release_key", (self._keys.claim(sender, key),), (claim.to_json(),)))

    async def replace(self, sender: UserId, key: str, claim: Claim) -> None:
        """Replace the caller's claim by that of the message that MongoDB already has under the key."""
        if self._cache.spare is not None:
            await self._mongo.update_one(CLAIMS, {"_id": _row_id(sender, key)}, {"$set": {"v": claim.to_json()}})
            return
        await self._cache.one(self.settle_call(sender, key, claim))

    def settle_call(self, sender: UserId, key: str, claim: Claim) -> Call:
        """Return the call that stores the claim of a message that is durable, with its place."""
        return Call("SET", (self._keys.claim(sender, key),), (claim.to_json(), "PX", CLAIM_MS))

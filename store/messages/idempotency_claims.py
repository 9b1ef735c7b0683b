"""Idempotency of sending: a sender's key stands for one message for 24 hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson
from pymongo.errors import DuplicateKeyError

from store.base.errors import Unreachable
from store.base.ids import ConversationId, MessageId, UserId
from store.mongo.client import Mongo
from store.mongo.collections import CLAIMS
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

CLAIM_MS = 24 * 3600 * 1000
"""Time for which a key stands for its message."""

UNKNOWN_EPOCH = "?"
"""The epoch of a claim while the shard with the key `epoch` is away."""


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

    `epoch`: the epoch of the Redis that answered, or UNKNOWN_EPOCH. If the process knows another epoch, Redis has lost
    older claims. None: Redis is unavailable.
    """

    existing: Claim | None
    epoch: str | None


def _claim_from(text: bytes) -> Claim:
    message, conversation, digest, seq = orjson.loads(text)
    return Claim(MessageId(int(message)), ConversationId(conversation), digest, seq)


def _row_id(sender: UserId, key: str) -> str:
    return f"message {sender} {key}"


class ClaimStore:
    """Claims of idempotency keys: in Redis, or in MongoDB while the Redis fallback is used.

    All servers must see them. The message contains its key too, for the time after a loss of Redis.
    """

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._cache = cache
        self._in_redis = _RedisClaims(cache, keys)
        self._in_mongo = _MongoClaims(mongo)

    @property
    def _claims(self) -> _RedisClaims | _MongoClaims:
        return self._in_redis if self._cache.is_shared else self._in_mongo

    async def claim(self, sender: UserId, key: str, claim: Claim) -> ClaimResult:
        """Claim a key, unless it has a claim already. One round trip."""
        return await self._claims.claim(sender, key, claim)

    async def find_in_mongo(self, sender: UserId, key: str) -> Claim | None:
        """Return the claim that was stored in MongoDB while Redis was unavailable, if there is one."""
        return await self._in_mongo.find(sender, key)

    async def release(self, sender: UserId, key: str, claim: Claim) -> None:
        """Remove the claim of a message that was refused."""
        await self._claims.release(sender, key, claim)

    async def replace(self, sender: UserId, key: str, claim: Claim) -> None:
        """Replace the caller's claim by that of the message that MongoDB already has under the key."""
        await self._claims.replace(sender, key, claim)

    def settle_call(self, sender: UserId, key: str, claim: Claim) -> Call:
        """Return the call that stores the claim of a message that is durable, with its place."""
        return self._in_redis.settle_call(sender, key, claim)


class _RedisClaims:
    def __init__(self, cache: Cache, keys: Keys) -> None:
        self._cache = cache
        self._keys = keys

    async def claim(self, sender: UserId, key: str, claim: Claim) -> ClaimResult:
        existing, epoch = await self._cache.attempt(
            [
                Call("claim_key", (self._keys.claim(sender, key),), (claim.to_json(), CLAIM_MS)),
                Call("GET", (self._keys.epoch,)),
            ]
        )
        if isinstance(existing, Exception):
            raise Unreachable(str(existing), "redis") from existing
        if isinstance(epoch, Exception):
            epoch = UNKNOWN_EPOCH.encode()
        return ClaimResult(_claim_from(existing) if existing else None, epoch.decode() if epoch else "")

    async def release(self, sender: UserId, key: str, claim: Claim) -> None:
        await self._cache.one(Call("release_key", (self._keys.claim(sender, key),), (claim.to_json(),)))

    async def replace(self, sender: UserId, key: str, claim: Claim) -> None:
        await self._cache.one(self.settle_call(sender, key, claim))

    def settle_call(self, sender: UserId, key: str, claim: Claim) -> Call:
        return Call("SET", (self._keys.claim(sender, key),), (claim.to_json(), "PX", CLAIM_MS))


class _MongoClaims:
    """Rows of `claims`: {_id: "message <user> <key>", v: the claim, until: its end}."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def claim(self, sender: UserId, key: str, claim: Claim) -> ClaimResult:
        until = datetime.now(UTC) + timedelta(milliseconds=CLAIM_MS)
        row = {"_id": _row_id(sender, key), "v": claim.to_json(), "until": until}
        try:
            await self._mongo.insert_one(CLAIMS, row)
        except DuplicateKeyError:
            return ClaimResult(await self.find(sender, key) or claim, None)
        return ClaimResult(None, None)

    async def find(self, sender: UserId, key: str) -> Claim | None:
        row = await self._mongo.find_one(CLAIMS, {"_id": _row_id(sender, key)})
        return _claim_from(row["v"]) if row else None

    async def release(self, sender: UserId, key: str, claim: Claim) -> None:
        await self._mongo.delete_one(CLAIMS, {"_id": _row_id(sender, key), "v": claim.to_json()})

    async def replace(self, sender: UserId, key: str, claim: Claim) -> None:
        await self._mongo.update_one(CLAIMS, {"_id": _row_id(sender, key)}, {"$set": {"v": claim.to_json()}})

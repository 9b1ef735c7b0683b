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
    """Which message a key stands for. `seq` is 0 until that message is durable."""

    message: MessageId
    conversation: ConversationId
    digest: str
    seq: int = 0

    def to_json(self) -> bytes:
        """As kept in Redis."""
        return orjson.dumps([str(self.message), self.conversation, self.digest, self.seq])


@dataclass(frozen=True, slots=True)
class Taken:
    """What taking a key found: None where it is the taker's now, else the claim it stands for.

    `epoch` is the state of Redis that says so: another one than the process knows has forgotten older claims. None: Redis is
    away.
    """

    held: Claim | None
    epoch: str | None


def _claim_from(text: bytes) -> Claim:
    message, conversation, digest, seq = orjson.loads(text)
    return Claim(MessageId(int(message)), ConversationId(conversation), digest, seq)


def _row_id(sender: UserId, key: str) -> str:
    return f"message {sender} {key}"


class ClaimStore:
    """Claims in Redis. The key is in the message too, for when Redis lost them. While Redis is away they are in MongoDB: `claims`
    {_id "message user key", v: the claim, until: its end}."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys

    async def take(self, sender: UserId, key: str, claim: Claim) -> Taken:
        """Claims a key, unless it stands for something already. One round trip."""
        if self._cache.spare is not None:
            return Taken(await self._take_around(sender, key, claim), None)
        held, epoch = await self._cache.run(
            [
                Call("claim", (self._keys.claim(sender, key),), (claim.to_json(), CLAIM_MS)),
                Call("GET", (self._keys.epoch,)),
            ]
        )
        return Taken(_claim_from(held) if held else None, epoch.decode() if epoch else "")

    async def _take_around(self, sender: UserId, key: str, claim: Claim) -> Claim | None:
        until = datetime.now(UTC) + timedelta(milliseconds=CLAIM_MS)
        row = {"_id": _row_id(sender, key), "v": claim.to_json(), "until": until}
        try:
            await self._mongo.insert_one(CLAIMS, row)
        except DuplicateKeyError:
            return await self.find_kept(sender, key) or claim
        return None

    async def find_kept(self, sender: UserId, key: str) -> Claim | None:
        """The claim that MongoDB holds, of a time when Redis was away."""
        row = await self._mongo.find_one(CLAIMS, {"_id": _row_id(sender, key)})
        return _claim_from(row["v"]) if row else None

    async def release(self, sender: UserId, key: str, claim: Claim) -> None:
        """Gives a key back whose message was refused."""
        if self._cache.spare is not None:
            await self._mongo.delete_one(CLAIMS, {"_id": _row_id(sender, key), "v": claim.to_json()})
            return
        await self._cache.one(Call("claim_release", (self._keys.claim(sender, key),), (claim.to_json(),)))

    async def keep(self, sender: UserId, key: str, claim: Claim) -> None:
        """Notes which message a key stands for that was taken in vain: the one that MongoDB holds under it."""
        if self._cache.spare is not None:
            await self._mongo.update_one(CLAIMS, {"_id": _row_id(sender, key)}, {"$set": {"v": claim.to_json()}})
            return
        await self._cache.one(self.settle(sender, key, claim))

    def settle(self, sender: UserId, key: str, claim: Claim) -> Call:
        """The call that notes where the message is to be found, now that it is durable."""
        return Call("SET", (self._keys.claim(sender, key),), (claim.to_json(), "PX", CLAIM_MS))

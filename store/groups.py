"""Making groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import BulkWriteError, DuplicateKeyError

from store.ids import ConversationId, UserId
from store.mongo import Mongo
from store.records import GroupInfo, Member
from store.rows import CLAIMS, CONVERSATIONS, MEMBERS, SESSIONS, member_row_id, session_row_id

CLAIM_SECONDS = 24 * 3600
"""How long the same idempotency key of the same creator answers the first group."""


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """A creator's idempotency key, and a digest of the input it stands for."""

    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a key was used for before."""

    conversation: ConversationId
    digest: str


class GroupStore:
    """Groups in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find_claim(self, creator: UserId, key: str) -> Claimed | None:
        """The group that a creator's key stands for."""
        row = await self._mongo.find_one(CLAIMS, {"_id": _claim_id(creator, key)})
        return Claimed(ConversationId(row["c"]), row["h"]) if row else None

    async def insert(
        self,
        conversation: ConversationId,
        info: GroupInfo,
        members: Sequence[Member],
        claim: GroupClaim | None,
    ) -> bool:
        """Makes a group with its members and everybody's session, all or nothing.

        False where the key is taken: then nothing was stored.
        """
        at = info.created_at_ms
        head: dict[str, Any] = {
            "_id": conversation, "k": "G", "s": 0, "n": 0, "at": at, "w": at, "name": info.name, "own": info.owner,
            "by": info.owner, "ct": at, "mc": len(members),
        }  # fmt: skip
        if info.avatar_url:
            head["av"] = info.avatar_url
        if info.full_history:
            head["hv"] = True
        if info.sub_biz:
            head["sb"] = info.sub_biz
        rows = [
            {
                "_id": member_row_id(conversation, m.user),
                "r": m.role,
                "i": [[first, -1 if last is None else last] for first, last in m.intervals],
                "j": m.joined_at_ms,
                "v": 0,
            }
            for m in members
        ]
        sessions = [
            {"_id": session_row_id(m.user, conversation), "r": 0, "rn": 0, "d": 0, "a": at, "w": at} for m in members
        ]

        async def work(session: Any) -> None:
            if claim is not None:
                until = datetime.fromtimestamp(at / 1000 + CLAIM_SECONDS, UTC)
                row = {"_id": _claim_id(info.owner, claim.key), "c": conversation, "h": claim.digest, "until": until}
                await self._mongo.insert_one(CLAIMS, row, session=session)
            await self._mongo.insert_one(CONVERSATIONS, head, session=session)
            await self._mongo.insert_many(MEMBERS, rows, session=session)
            await self._mongo.insert_many(SESSIONS, sessions, session=session)

        try:
            await self._mongo.transaction(work)
        except (DuplicateKeyError, BulkWriteError):
            return False
        return True


def _claim_id(creator: UserId, key: str) -> str:
    return f"group {creator} {key}"

"""Blocks in MongoDB: a row for each user who has ever blocked somebody (ADR 95)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from pymongo.errors import DuplicateKeyError

from store.base.ids import UserId
from store.mongo.client import Document, Mongo
from store.mongo.collections import BLOCK_PENDING_SINCE, BLOCKED_USER, BLOCKS
from store.mongo.joined_reads import JoinedReads

MAX_BLOCKS = 1_000
"""Users that one user may block."""


class BlockField:
    """Stored names of the fields of `blocks` (`_id`: the user who blocks), sharded by `_id`."""

    BLOCKS = "b"
    """Blocked users, the latest last: documents with the fields below."""
    BLOCKED = "u"
    """The blocked user."""
    AT = "a"
    """(ms)"""
    SEEN = "s"
    """When the blocker was last there for the blocked user (ms); absent: never."""
    REVISION = "r"
    """Number of changes."""
    PENDING = "p"
    """Blocked or unblocked users whose change is not complete: Redis may have heads from before the change."""
    PENDING_SINCE = BLOCK_PENDING_SINCE
    """Time of the newest change that is not complete (ms). Absent with PENDING."""


_F = BlockField
_BLOCKED_USER = BLOCKED_USER


@dataclass(frozen=True, slots=True)
class Block:
    """A user who is blocked. seen_ms: when the blocker was last there for them; None: never."""

    user: UserId
    at_ms: int
    seen_ms: int | None


class BlockRow(NamedTuple):
    """The users that a user has blocked. revision: number of changes so far; 0: there is no row."""

    users: frozenset[UserId]
    revision: int

    @property
    def value(self) -> BlockRow:
        """The row itself: the copies in Redis have the revision too."""
        return self

    def to_form(self) -> list[Any]:
        """Return the JSON value that Redis has."""
        return [self.revision, *sorted(self.users)]


def block_row_from(form: Any) -> BlockRow:
    """Return a row by its JSON value in Redis."""
    revision, *users = form
    return BlockRow(frozenset(map(UserId, users)), revision)


class BlockRefusal(Enum):
    """Reasons why a block was not stored."""

    EXISTS = auto()
    LIMIT = auto()


class BlockRows:
    """Reads and changes the rows. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._shared_reads = JoinedReads(mongo, BLOCKS)

    async def find(self, users: Collection[UserId]) -> dict[UserId, BlockRow]:
        """Return the row of each of some users. One round trip, which concurrent calls share."""
        rows = await self._shared_reads.find(BLOCKS, users)
        return {user: _row_from(rows[user]) if user in rows else BlockRow(frozenset(), 0) for user in users}

    async def list_blocks(self, blocker: UserId) -> list[Block]:
        """Return the blocks of a user. One round trip."""
        rows = await self._mongo.find(BLOCKS, {"_id": blocker}, projection={_F.BLOCKS: 1})
        return [_block_from(fields) for row in rows for fields in row.get(_F.BLOCKS, ())]

    async def find_blockers(self, user: UserId, among: Collection[UserId]) -> dict[UserId, Block]:
        """Return those of some users who have blocked a user, with the block. One round trip.

        It takes as long if nobody has.
        """
        query = {"_id": {"$in": list(among)}, _BLOCKED_USER: user}
        projection = {_F.BLOCKS: {"$elemMatch": {_F.BLOCKED: user}}}
        rows = await self._mongo.find(BLOCKS, query, projection=projection)
        return {UserId(row["_id"]): _block_from(row[_F.BLOCKS][0]) for row in rows}

    async def list_blockers(self, user: UserId, limit: int) -> dict[UserId, Block]:
        """Return the users who have blocked a user, at most `limit`, with the blocks. One round trip to each shard."""
        projection = {_F.BLOCKS: {"$elemMatch": {_F.BLOCKED: user}}}
        rows = await self._mongo.find(BLOCKS, {_BLOCKED_USER: user}, projection=projection, limit=limit)
        return {UserId(row["_id"]): _block_from(row[_F.BLOCKS][0]) for row in rows}

    async def find_within(self, users: Iterable[UserId]) -> dict[UserId, frozenset[UserId]]:
        """Return of each of some users the others of them that they have blocked. One round trip."""
        people = list(dict.fromkeys(users))
        # Literal: an id may begin with a dollar sign, as the name of a field does in an expression.
        within = {"$setIntersection": [f"${_BLOCKED_USER}", {"$literal": people}]}
        rows = await self._mongo.aggregate(
            BLOCKS,
            [
                {"$match": {"_id": {"$in": people}, _BLOCKED_USER: {"$in": people}}},
                {"$project": {_F.BLOCKS: within}},
            ],
        )
        return {UserId(row["_id"]): frozenset(map(UserId, row[_F.BLOCKS])) for row in rows}

    async def add(self, blocker: UserId, block: Block) -> BlockRow | BlockRefusal:
        """Store a block, which is pending then. Return the row after it. One round trip, two if it is refused."""
        fields = {_F.BLOCKED: block.user, _F.AT: block.at_ms}
        if block.seen_ms is not None:
            fields[_F.SEEN] = block.seen_ms
        has_place = {"_id": blocker, _BLOCKED_USER: {"$ne": block.user}}
        has_place[f"{_F.BLOCKS}.{MAX_BLOCKS - 1}"] = {"$exists": False}
        update = _pending(block.user, block.at_ms) | {"$push": {_F.BLOCKS: fields}}
        try:
            row = await self._mongo.find_one_and_update(BLOCKS, has_place, update, upsert=True, after=True)
        except DuplicateKeyError:
            # There is a row, which does not match. Two first blocks of a user at once collide too.
            row = await self._mongo.find_one_and_update(BLOCKS, has_place, update, after=True)
        if row is not None:
            return _row_from(row)
        exists = block.user in (await self.find((blocker,)))[blocker].users
        return BlockRefusal.EXISTS if exists else BlockRefusal.LIMIT

    async def remove(self, blocker: UserId, user: UserId, now_ms: int) -> BlockRow | None:
        """Remove a block, which is pending then. Return the row after it; None: there was none. One round trip."""
        update = _pending(user, now_ms) | {"$pull": {_F.BLOCKS: {_F.BLOCKED: user}}}
        row = await self._mongo.find_one_and_update(BLOCKS, {"_id": blocker, _BLOCKED_USER: user}, update, after=True)
        return _row_from(row) if row is not None else None

    async def end_pending(self, blocker: UserId, users: Collection[UserId], revision: int) -> None:
        """Note that the changes about some users are complete. One round trip.

        If there is a later change, or one about others, all of them are completed by a server later.
        """
        all_complete = {_F.PENDING: {"$not": {"$elemMatch": {"$nin": list(users)}}}}
        unset = {"$unset": {_F.PENDING: "", _F.PENDING_SINCE: ""}}
        await self._mongo.update_one(BLOCKS, {"_id": blocker, _F.REVISION: revision} | all_complete, unset)

    async def list_abandoned(self, before_ms: int, limit: int) -> list[tuple[UserId, BlockRow, list[UserId]]]:
        """Return rows with changes from before a time that are not complete, and the users concerned."""
        found = await self._mongo.find(BLOCKS, {_F.PENDING_SINCE: {"$lt": before_ms}}, limit=limit)
        return [(UserId(row["_id"]), _row_from(row), list(map(UserId, row[_F.PENDING]))) for row in found]


def _pending(user: UserId, now_ms: int) -> dict[str, Any]:
    return {"$inc": {_F.REVISION: 1}, "$addToSet": {_F.PENDING: user}, "$set": {_F.PENDING_SINCE: now_ms}}


def _row_from(row: Document) -> BlockRow:
    blocked = frozenset(UserId(fields[_F.BLOCKED]) for fields in row.get(_F.BLOCKS, ()))
    return BlockRow(blocked, row.get(_F.REVISION, 0))


def _block_from(fields: Document) -> Block:
    return Block(UserId(fields[_F.BLOCKED]), fields[_F.AT], fields.get(_F.SEEN))

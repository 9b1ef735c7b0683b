"""Changes of blocks, in MongoDB and in what Redis has of them (ADR 95).

A change is stored first. Then the heads of the private conversations of the two people are dropped. A head that is
loaded after that has the change, so a message of a blocked user gets no place once the change is complete. A change
whose server died is completed by another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import NamedTuple

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId, private_id
from store.blocks.block_rows import Block, BlockRefusal, BlockRow, BlockRows
from store.conversations.conversation_store import ConversationStore
from store.mongo.client import Mongo
from store.mongo.collections import SESSIONS, parse_session_row_id, session_row_id
from store.mongo.index_fields import BY_ID
from store.redis.cache import Cache
from store.redis.request_scope import discard_request_cache
from store.redis.revised_records import RevisedRecords

_TAKEOVER_MS = 10_000
_TAKEOVERS = 100
_DROPS_AT_ONCE = 100


class ChangedBlock(NamedTuple):
    """A change of a block. revision: of the blocker's list after it. block: None: there is none any more."""

    blocker: UserId
    user: UserId
    revision: int
    block: Block | None


async def _announce_nothing(_changed: ChangedBlock) -> None:
    return


class BlockStore:
    """Reads and changes blocks. All methods raise StoreError."""

    def __init__(
        self,
        mongo: Mongo,
        cache: Cache,
        clock: Clock,
        rows: BlockRows,
        records: RevisedRecords[BlockRow],
        conversations: ConversationStore,
        note_stored: Callable[[UserId, bool], None],
        note_dropped: Callable[[ConversationId], None],
    ) -> None:
        """Connect the parts.

        Args:
            mongo: The deployment's MongoDB.
            cache: Its Redis.
            clock: Its time.
            rows: The rows in MongoDB.
            records: The copies in Redis.
            conversations: Heads of private conversations.
            note_stored: Called with a user whose row may have changed, and whether Redis has the change.
            note_dropped: Called with each conversation whose head was dropped.
        """
        self.rows = rows
        self._mongo = mongo
        self._cache = cache
        self._clock = clock
        self._records = records
        self._conversations = conversations
        self._note_stored = note_stored
        self._note_dropped = note_dropped
        self.announce: Callable[[ChangedBlock], Awaitable[None]] = _announce_nothing
        """Notifies all servers of a change. To be set before the first call."""

    async def read(self, user: UserId) -> BlockRow:
        """Return the users that a user has blocked: one round trip to Redis if it has them. Else one more to each."""
        return await self._records.read(user)

    async def add(self, blocker: UserId, block: Block) -> bool:
        """Block a user. When this returns, no message of theirs gets a place in a private conversation of the two.

        A user who is blocked stays so, and the first call is completed if needed. False: the list is full.
        """
        change = await self._records.begin_change(blocker)
        try:
            stored = await self.rows.add(blocker, block)
            if stored is BlockRefusal.LIMIT:
                await self._records.put(blocker, await self._read_row(blocker), [change])
                return False
            row = stored if isinstance(stored, BlockRow) else await self._read_row(blocker)
            await self._complete(blocker, [block.user], row, [change])
        except StoreError:
            self._note_stored(blocker, False)
            raise
        return True

    async def remove(self, blocker: UserId, user: UserId) -> None:
        """Remove a block. A user who is not blocked stays so, and the first call is completed if needed."""
        change = await self._records.begin_change(blocker)
        try:
            stored = await self.rows.remove(blocker, user, self._clock.now_ms())
            row = stored if stored is not None else await self._read_row(blocker)
            await self._complete(blocker, [user], row, [change])
        except StoreError:
            self._note_stored(blocker, False)
            raise

    async def complete_abandoned(self) -> int:
        """Complete changes of servers that have died meanwhile. Return the number of users who made them."""
        self._cache.require_shared()
        abandoned = await self.rows.list_abandoned(self._clock.now_ms() - _TAKEOVER_MS, _TAKEOVERS)
        for blocker, row, users in abandoned:
            await self._complete(blocker, users, row)
        return len(abandoned)

    async def _complete(
        self, blocker: UserId, users: Collection[UserId], row: BlockRow, changes: Sequence[str] = ()
    ) -> None:
        """Let Redis and all servers have stored changes about some users."""
        # In the Redis fallback, this request has to read what it has changed.
        discard_request_cache()
        for user in users:
            conversations = await self._list_conversations(blocker, user)
            # Either of the two may have made thousands, in as many subBizs.
            for start in range(0, len(conversations), _DROPS_AT_ONCE):
                dropped = conversations[start : start + _DROPS_AT_ONCE]
                await self._cache.gather(*map(self._conversations.drop, dropped))
                for conversation in dropped:
                    self._note_dropped(conversation)
        await self._records.put(blocker, row, changes)
        self._note_stored(blocker, True)
        for user in users:
            block = (await self.rows.find_blockers(user, [blocker])).get(blocker) if user in row.users else None
            await self.announce(ChangedBlock(blocker, user, row.revision, block))
        await self.rows.end_pending(blocker, users, row.revision)

    async def _read_row(self, blocker: UserId) -> BlockRow:
        return (await self.rows.find((blocker,)))[blocker]

    async def _list_conversations(self, one: UserId, other: UserId) -> list[ConversationId]:
        """Return the private conversations of two people, in all subBizs, by the sessions of one of them.

        Sessions are stored before the conversation. A conversation whose session is stored later loads its head after
        the change was stored.
        """
        first = private_id(one, other)
        row = session_row_id(one, first)
        in_sub_bizs = {"_id": {"$gte": f"{row}~", "$lt": f"{row}~~"}}
        rows = await self._mongo.find(SESSIONS, in_sub_bizs, projection={"_id": 1}, hint=BY_ID)
        return [first, *(parse_session_row_id(row["_id"])[1] for row in rows)]

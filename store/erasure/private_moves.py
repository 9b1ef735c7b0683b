"""Moves private conversations of an erased user to the id with the pseudonym, in small steps with pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from store.base.ids import ConversationId, parse_private, without_thread
from store.conversations.conversation_fields import ConversationField
from store.conversations.conversation_store import ConversationStore
from store.erasure.renaming import Renaming
from store.erasure.row_rewriting import RowRewriting
from store.mongo.client import Document, Mongo, Sort
from store.mongo.collections import (
    CONVERSATIONS,
    HELD_RECEIPTS,
    MEMBERS,
    MESSAGES,
    REACTIONS,
    RECEIPTS,
    SEARCH,
    SESSIONS,
    held_receipt_row_id,
    members_of,
    session_row_id,
)
from store.mongo.index_fields import BY_ID, BY_NEWEST, PLACE
from store.mongo.paced_reads import PAUSE_RATIO
from store.redis.cache import Cache
from store.retention.expired_rows import ExpiredRows
from store.sessions.changes import INVALIDATE
from store.sessions.session_store import SessionStore

_ROWS_PER_STEP = 200

BeforeRewrite = Callable[[Sequence[Document]], Awaitable[Sequence[Document]]]
"""Called with rows of messages before they are rewritten. Returns the rows as they are afterwards."""


class PrivateMoves:
    """Moves conversations. Methods may be repeated, and continue an interrupted move. All raise Unreachable."""

    def __init__(
        self,
        mongo: Mongo,
        rewriting: RowRewriting,
        conversations: ConversationStore,
        sessions: SessionStore,
        cache: Cache,
        expired: ExpiredRows,
    ) -> None:
        self._mongo = mongo
        self._rewriting = rewriting
        self._conversations = conversations
        self._sessions = sessions
        self._cache = cache
        self._expired = expired

    async def move(
        self,
        conversation: ConversationId,
        renaming: Renaming,
        before_messages: BeforeRewrite,
        on_step: Callable[[], Awaitable[None]],
    ) -> None:
        """Give a conversation, or a thread in it, its new id. Messages keep their ids, seqs and numbers.

        The other person's session keeps its position. Their devices resynchronise. The row of the conversation moves
        last: as long as it has its old id, the move is not complete.
        """
        people = (parse_private(without_thread(conversation)) or ())[:2]
        users = [user for user in people if isinstance(user, str)]
        named = members_of(conversation)
        sessions = {"_id": {"$in": [session_row_id(user, conversation) for user in users]}}
        held = {"_id": {"$in": [held_receipt_row_id(user, conversation) for user in users]}}
        await self._move_all(MESSAGES, {"c": conversation}, PLACE, renaming, on_step, before_messages)
        for collection, query, order in (
            (REACTIONS, named, BY_ID),
            (RECEIPTS, named, BY_ID),
            (MEMBERS, named, BY_ID),
            (SEARCH, {"c": conversation}, BY_NEWEST),
            (HELD_RECEIPTS, held, BY_ID),
            (SESSIONS, sessions, BY_ID),
        ):
            await self._move_all(collection, query, order, renaming, on_step)
        row = await self._mongo.find_one(CONVERSATIONS, {"_id": conversation})
        new = ConversationId(renaming.rename_conversation(conversation))
        if row is not None and ConversationField.FLOOR_SEQ in row:
            # Expired messages may be left. The removal finds none under the old id.
            await self._expired.add([new])
        if row is not None:
            await self._rewriting.rewrite(CONVERSATIONS, renaming, [row])
        for id in (conversation, new):
            await self._conversations.drop(id)
        others = [user for user in users if user != renaming.user]
        await self._cache.run([self._sessions.apply_call(user, INVALIDATE) for user in others])

    async def _move_all(
        self,
        collection: str,
        query: Document,
        order: Sort,
        renaming: Renaming,
        on_step: Callable[[], Awaitable[None]],
        before: BeforeRewrite | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            rows: Sequence[Document] = await self._mongo.find(
                collection, query, sort=order, limit=_ROWS_PER_STEP, hint=order
            )
            if before is not None and rows:
                rows = await before(rows)
            if not await self._rewriting.rewrite(collection, renaming, rows):
                return
            await on_step()
            await asyncio.sleep(PAUSE_RATIO * (loop.time() - began))

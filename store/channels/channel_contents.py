"""The rows of a deleted channel: sessions, reactions, messages, memberships, head, index of messages, and webhooks.

They are removed in small steps. The files of its messages are left to the sweeper.
"""

from __future__ import annotations

from pymongo import UpdateOne

from store.base.clock import Clock
from store.base.ids import ConversationId
from store.conversations.conversation_fields import ConversationField
from store.files.file_claims import FileClaims
from store.messages.message import message_from
from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.collections import (
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    REACTIONS,
    SESSIONS,
    at_place,
    members_of,
    parse_session_row_id,
    reactions_of,
)
from store.mongo.index_fields import BY_CHANNEL, BY_PARENT, PLACE
from store.redis.cache import Cache, Call
from store.search.search_index import SearchIndex
from store.sessions.changes import INVALIDATE, ForgetChannel, LoggedChange, logged_change
from store.sessions.fields import CHANNEL, GONE, threads_mark
from store.sessions.session_store import SessionStore
from store.webhooks.webhook_store import WebhookStore

ROWS_PER_STEP = 500
ANY_SEQ = 1 << 53
"""Greater than every seq."""


class ChannelContents:
    """Removes the rows of channels that nobody can see any more. Every step may be repeated."""

    def __init__(
        self,
        mongo: Mongo,
        origins: OriginStore,
        cache: Cache,
        sessions: SessionStore,
        file_claims: FileClaims,
        clock: Clock,
        index: SearchIndex,
        webhooks: WebhookStore,
    ) -> None:
        self._mongo = mongo
        self._index = index
        self._webhooks = webhooks
        self._origins = origins
        self._cache = cache
        self._sessions = sessions
        self._file_claims = file_claims
        self._clock = clock

    async def remove_some(self, channel: ConversationId) -> bool:
        """Remove some rows. Return false if nothing is left."""
        if await self._remove_sessions(channel) or await self._remove_thread_sessions(channel):
            return True
        thread = await self._first_thread(channel)
        if await self._remove_rows(thread or channel):
            return True
        await self._index.forget(thread or channel)
        if thread is None:
            await self._webhooks.delete_of_channel(channel, self._clock.now_ms())
        await self._mongo.delete_one(CONVERSATIONS, {"_id": thread or channel})
        if thread is not None:
            await self._cache.one(Call("head_drop", self._cache.keys.conversation(thread), (ANY_SEQ,)))
        return thread is not None

    async def _remove_rows(self, conversation: ConversationId) -> bool:
        """Remove some reactions, messages or members of a channel or thread. Return whether there were any."""
        for remove in (self._remove_reactions, self._remove_messages, self._remove_members):
            if await remove(conversation):
                return True
        return False

    async def _first_thread(self, channel: ConversationId) -> ConversationId | None:
        query = {ConversationField.PARENT: channel}
        rows = await self._mongo.find(CONVERSATIONS, query, projection={"_id": 1}, limit=1, hint=BY_PARENT)
        return ConversationId(rows[0]["_id"]) if rows else None

    async def _remove_messages(self, channel: ConversationId) -> bool:
        """Remove some messages."""
        order = [(name, 1) for name, _ in PLACE]
        rows = await self._mongo.find(MESSAGES, {"c": channel}, sort=order, limit=ROWS_PER_STEP)
        if rows:
            messages = [message_from(row) for row in rows]
            # A server of the previous version that recalls a message leaves its files.
            files = {message.id: (*message.own_files, *message.recalled_files) for message in messages}
            await self._file_claims.remove_many(files, self._clock.now_ms())
            await self._origins.remove(message.id for message in messages)
            await self._mongo.delete_each(MESSAGES, [at_place(channel, message.seq) for message in messages])
        return bool(rows)

    async def _remove_reactions(self, channel: ConversationId) -> bool:
        """Remove some reactions."""
        rows = await self._mongo.find(REACTIONS, reactions_of(channel), projection={"_id": 1}, limit=ROWS_PER_STEP)
        if rows:
            await self._mongo.delete_ids(REACTIONS, [row["_id"] for row in rows])
        return bool(rows)

    async def _remove_members(self, channel: ConversationId) -> bool:
        """Remove some members or followers."""
        rows = await self._mongo.find(MEMBERS, members_of(channel), projection={"_id": 1}, limit=ROWS_PER_STEP)
        if rows:
            await self._mongo.delete_ids(MEMBERS, [row["_id"] for row in rows])
        return bool(rows)

    async def _remove_sessions(self, channel: ConversationId) -> bool:
        """Remove some sessions in the channel, also from the users' cached states."""
        return await self._remove_marked(channel, logged_change(ForgetChannel(channel), 0, ""))

    async def _remove_thread_sessions(self, channel: ConversationId) -> bool:
        """Remove some sessions of the channel's threads. The cached states of their users are loaded again."""
        return await self._remove_marked(threads_mark(channel), INVALIDATE)

    async def _remove_marked(self, mark: str, change: LoggedChange) -> bool:
        """Remove some sessions that have a mark, after a change of the users' cached states.

        Rows are marked first, so that a state that is loaded meanwhile does not have them, and are removed last, so
        that a server that continues after another one finds them.
        """
        rows = await self._mongo.find(
            SESSIONS, {CHANNEL: mark}, projection={"_id": 1}, limit=ROWS_PER_STEP, hint=BY_CHANNEL, sort=BY_CHANNEL
        )
        if rows:
            marks = [UpdateOne({"_id": row["_id"]}, {"$set": {GONE: 1}}) for row in rows]
            await self._mongo.bulk_write(SESSIONS, marks)
            users = dict.fromkeys(parse_session_row_id(row["_id"])[0] for row in rows)
            await self._cache.run([self._sessions.apply_call(user, change) for user in users])
            await self._mongo.delete_ids(SESSIONS, [row["_id"] for row in rows])
        return bool(rows)

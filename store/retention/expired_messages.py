"""Removes expired messages with everything that belongs to them, in small steps that may be repeated (ADR 99)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pymongo import UpdateOne

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId, bucket_of, parse_private, parse_thread, thread_id
from store.channels.channel_contents import ANY_SEQ, ROWS_PER_STEP
from store.conversations.conversation_fields import ConversationField
from store.files.file_claims import FileClaims
from store.messages.copy_store import CopyStore
from store.messages.message import Message, message_from
from store.messages.message_origins import OriginStore
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    REACTIONS,
    RECEIPTS,
    SESSIONS,
    at_place,
    marks_between,
    members_of,
    parse_session_row_id,
    reactions_of,
    session_row_id,
)
from store.mongo.index_fields import BY_CHANNEL, PLACE
from store.receipts.receipt_marks import ReceiptKind
from store.redis.cache import Cache, Call
from store.retention.session_floors import SessionFloors
from store.search.search_index import SearchIndex
from store.sessions.changes import INVALIDATE
from store.sessions.fields import CHANNEL, GONE, threads_mark
from store.sessions.session import Session
from store.sessions.session_lists import is_channel
from store.sessions.session_store import SessionStore

_MENTIONS = Session.mentions.stored


class ExpiredMessages:
    """Removes messages up to a floor, the oldest first."""

    def __init__(
        self,
        mongo: Mongo,
        cache: Cache,
        clock: Clock,
        sessions: SessionStore,
        session_floors: SessionFloors,
        file_claims: FileClaims,
        copies: CopyStore,
        index: SearchIndex,
    ) -> None:
        self._mongo = mongo
        self._cache = cache
        self._clock = clock
        self._sessions = sessions
        self._session_floors = session_floors
        self._file_claims = file_claims
        self._copies = copies
        self._index = index
        self._origins = OriginStore(mongo)

    async def remove_some(self, head: Document) -> bool:
        """Remove some messages of a conversation, the threads under them first. Return false if none is left.

        head: The document of the conversation.
        """
        name, floor = ConversationId(head["_id"]), head[ConversationField.FLOOR_SEQ]
        messages = await self._read(name, floor)
        if not messages:
            return False
        threads = [thread_id(name, message.seq) for message in messages if message.has_thread]
        rows = await self._mongo.find(CONVERSATIONS, {"_id": {"$in": threads}}, projection={"_id": 1}, limit=1)
        if rows:
            await self._remove_some_of_thread(ConversationId(rows[0]["_id"]))
            return True
        await self._forget_other_sessions(name, threads)
        if is_channel(name):
            await self._forget_mentions(head, messages)
        await self._remove(name, messages)
        return True

    async def remove_receipts(self, conversation: ConversationId, floor_seq: int) -> None:
        """Remove the receipts of expired messages. A mark is about the messages before it."""
        users = await self._list_users(conversation)
        marks = [marks_between(conversation, user, kind.value, 0, floor_seq) for user in users for kind in ReceiptKind]
        for start in range(0, len(marks), ROWS_PER_STEP):
            await self._mongo.delete_each(RECEIPTS, marks[start : start + ROWS_PER_STEP], many=True)

    async def _list_users(self, conversation: ConversationId) -> list[UserId]:
        """Return the people of a private conversation, or the current and former members of a group."""
        people = parse_private(conversation)
        if people is not None:
            return list(people[:2])
        rows = await self._mongo.find(MEMBERS, members_of(conversation), projection={"_id": 1})
        return [UserId(row["_id"].partition(" ")[2]) for row in rows]

    async def _read(self, conversation: ConversationId, last: int) -> list[Message]:
        query = {"c": conversation, "b": {"$lte": bucket_of(last)}, "s": {"$lte": last}}
        rows = await self._mongo.find(MESSAGES, query, sort=PLACE, limit=ROWS_PER_STEP)
        return [message_from(row) for row in rows]

    async def _remove(self, conversation: ConversationId, messages: Sequence[Message]) -> None:
        """Remove messages. Their rows come last, so that a server that continues finds what is left."""
        ids = [message.id for message in messages]
        reacted = [reactions_of(conversation, m.id) for m in messages if m.reactions_version]
        if reacted:
            await self._mongo.delete_each(REACTIONS, reacted, many=True)
        files = {message.id: (*message.own_files, *message.recalled_files) for message in messages}
        await self._file_claims.remove_many(files, self._clock.now_ms())
        await self._index.forget_messages(conversation, set(ids))
        await self._origins.remove(ids)
        await self._mongo.delete_each(MESSAGES, [at_place(conversation, message.seq) for message in messages])

    async def _remove_some_of_thread(self, thread: ConversationId) -> None:
        """Remove some rows of a thread whose parent message is expired: followers with their sessions, then replies."""
        rows = await self._mongo.find(MEMBERS, members_of(thread), projection={"_id": 1}, limit=ROWS_PER_STEP)
        if rows:
            await self._forget_sessions(thread, {UserId(row["_id"].partition(" ")[2]) for row in rows})
            await self._mongo.delete_ids(MEMBERS, [row["_id"] for row in rows])
            return
        replies = await self._read(thread, ANY_SEQ)
        if replies:
            await self._forget_sessions(thread, {user for reply in replies for user in reply.mentions})
            await self._recall_copies(thread, replies)
            await self._remove(thread, replies)
            return
        await self._index.forget(thread)
        await self._mongo.delete_one(CONVERSATIONS, {"_id": thread})
        await self._drop_head(thread)

    async def _recall_copies(self, thread: ConversationId, replies: Sequence[Message]) -> None:
        """Recall the copies that replies have in the parent conversation, where they keep their places."""
        place = parse_thread(thread)
        assert place is not None
        now_ms = self._clock.now_ms()
        recalled = [
            await self._copies.update(reply._replace(recalled_at_ms=now_ms, recalled_by=reply.sender))
            for reply in replies
            if reply.is_broadcast
        ]
        if any(recalled):
            # It may have a copy, and servers may keep some.
            await self._drop_head(place.parent)

    async def _forget_sessions(self, thread: ConversationId, users: Collection[UserId]) -> None:
        """Remove sessions of a thread. The cached states of their users are loaded again.

        Rows are marked first, so that a state that is loaded meanwhile does not have them.
        """
        found = await self._find_sessions([session_row_id(user, thread) for user in users])
        await self._remove_sessions(found, users)

    async def _forget_other_sessions(self, conversation: ConversationId, threads: Sequence[ConversationId]) -> None:
        """Remove what is left of the sessions in removed threads: users who do not follow a thread have some too.

        They have read it, or were notified by a role. Nobody begins one any more.
        """
        if not threads:
            return
        if is_channel(conversation):
            query = {CHANNEL: threads_mark(conversation)}
            rows = await self._mongo.find(SESSIONS, query, projection={"_id": 1}, hint=BY_CHANNEL)
            removed = set(threads)
            found = [row["_id"] for row in rows if parse_session_row_id(row["_id"])[1] in removed]
        else:
            users = await self._list_users(conversation)
            found = [
                row
                for thread in threads
                for row in await self._find_sessions([session_row_id(user, thread) for user in users])
            ]
        for start in range(0, len(found), ROWS_PER_STEP):
            part = found[start : start + ROWS_PER_STEP]
            await self._remove_sessions(part, {parse_session_row_id(row)[0] for row in part})

    async def _find_sessions(self, ids: Sequence[str]) -> list[str]:
        found = []
        for start in range(0, len(ids), ROWS_PER_STEP):
            query = {"_id": {"$in": ids[start : start + ROWS_PER_STEP]}}
            found += [row["_id"] for row in await self._mongo.find(SESSIONS, query, projection={"_id": 1})]
        return found

    async def _remove_sessions(self, rows: Sequence[str], users: Collection[UserId]) -> None:
        if rows:
            await self._mongo.bulk_write(SESSIONS, [UpdateOne({"_id": id}, {"$set": {GONE: 1}}) for id in rows])
        if users:
            await self._cache.run_in_background([self._sessions.apply_call(user, INVALIDATE) for user in users])
        if rows:
            await self._mongo.delete_ids(SESSIONS, list(rows))

    async def _forget_mentions(self, head: Document, messages: Sequence[Message]) -> None:
        """Remove the mentions of expired messages from the sessions of a channel, which count them."""
        channel, floor = ConversationId(head["_id"]), head[ConversationField.FLOOR_SEQ]
        users = {user for message in messages for user in message.shown_mentions}
        if any(message.shown_roles for message in messages):
            # It is not stored which members had the roles.
            query = {CHANNEL: channel, _MENTIONS: {"$lte": floor}}
            rows = await self._mongo.find(SESSIONS, query, projection={"_id": 1}, hint=BY_CHANNEL)
            users |= {UserId(row["_id"].partition(" ")[0]) for row in rows}
        if not users:
            return
        pulled = {"$pull": {_MENTIONS: {"$lte": floor}}}
        updates = [UpdateOne({"_id": session_row_id(user, channel)}, pulled) for user in users]
        await self._mongo.bulk_write(SESSIONS, updates)
        await self._session_floors.apply_to(list(users), self._session_floors.change_of(head))

    async def _drop_head(self, conversation: ConversationId) -> None:
        await self._cache.one(Call("head_drop", self._cache.keys.conversation(conversation), (ANY_SEQ,)))

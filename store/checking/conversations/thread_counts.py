"""Checks of what a thread has of its replies and followers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from pymongo import UpdateOne

from store.base.ids import ConversationId, UserId, parse_thread
from store.channels.follow_rows import FOLLOWS
from store.checking.check import Difference, Objects, Scope
from store.checking.conversations.member_counts import is_current, member_rows
from store.checking.conversations.stored_messages import message_pages
from store.conversations.conversation_fields import ConversationField, MemberField
from store.messages.message import MessageKind
from store.messages.message_fields import MessageField
from store.mongo.client import Document
from store.mongo.collections import CONVERSATIONS, MEMBERS, SESSIONS, member_row_id, session_row_id
from store.sessions.changes import INVALIDATE
from store.store import Store

_F, _M = ConversationField, MessageField
_COUNTS = {_F.RECALLED: "number of recalled replies", _F.REPLIERS: "number of people who replied"}
_NEWEST, _MARK, _FOLLOW = "newest reply of ", "mark of the parent message", "follow mark of "
_USERS = 2_000


class _Replies(NamedTuple):
    """Numbers that the messages of a thread give: counts by stored name, and the seq of each user's newest reply."""

    counts: dict[str, int]
    newest: dict[UserId, int]


class ThreadCounts:
    """A thread has the numbers of its recalled replies and of those who replied, and its parent message has a mark.

    The membership of each user has the seq of their newest reply. The reply count is the number of messages without
    those recalled.
    """

    name: ClassVar[str] = "threads"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION, ("t_",))

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some threads."""
        query = {"_id": {"$in": list(ids)}}
        found = list[Difference]()
        for row in await self._store.mongo.find(CONVERSATIONS, query, projection=dict.fromkeys(_COUNTS, 1)):
            thread = ConversationId(row["_id"])
            stored = dict(await self._read_newest(thread))
            replies = await self._read_replies(thread)
            pairs: list[tuple[str, Any, Any]] = [
                (text, row.get(field, 0), replies.counts[field]) for field, text in _COUNTS.items()
            ]
            pairs += [
                (f"{_NEWEST}{user}", stored.get(user, 0), replies.newest.get(user, 0))
                for user in sorted(stored.keys() | replies.newest.keys())
            ]
            if replies.newest:
                pairs.append((_MARK, await self._has_mark(thread), True))
            found += [
                Difference(self.name, thread, field, value, expected)
                for field, value, expected in pairs
                if value != expected
            ]
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Count again, in a transaction that conflicts with changes of the thread, and drop the cached heads."""
        thread = ConversationId(object_id)
        place = parse_thread(thread)
        assert place is not None
        if any(difference.field == _MARK for difference in differences):
            parents = await self._store.messages.find_many([(place.parent, place.seq)])
            for parent in parents.values():
                await self._store.threads.open(parent, parent.sender, self._store.clock.now_ms())
            await self._store.conversations.drop(place.parent)

        async def work(session: Any) -> None:
            replies = await self._read_replies(thread, session)
            rows = [
                UpdateOne({"_id": member_row_id(thread, user)}, {"$set": {MemberField.LAST_REPLY: seq}})
                for user, seq in replies.newest.items()
            ]
            rows += [
                UpdateOne({"_id": member_row_id(thread, user)}, {"$unset": {MemberField.LAST_REPLY: ""}})
                for user, _ in await self._read_newest(thread, session)
                if user not in replies.newest
            ]
            if rows:
                await self._store.mongo.bulk_write(MEMBERS, rows, session=session)
            counts = {"$set": replies.counts}
            await self._store.mongo.find_one_and_update(CONVERSATIONS, {"_id": thread}, counts, session=session)

        await self._store.mongo.transaction(work)
        await self._store.conversations.drop(thread)

    async def _read_replies(self, thread: ConversationId, session: Any = None) -> _Replies:
        recalled, newest = 0, dict[UserId, int]()
        fields = (_M.KIND, _M.SENDER, _M.RECALLED_AT)
        async for page in message_pages(self._store.mongo, thread, fields, session=session):
            for message in page:
                if MessageKind(message[_M.KIND]).countable:
                    newest[UserId(message[_M.SENDER])] = message[_M.SEQ]
                    recalled += _M.RECALLED_AT in message
        return _Replies({_F.RECALLED: recalled, _F.REPLIERS: len(newest)}, newest)

    async def _read_newest(self, thread: ConversationId, session: Any = None) -> list[tuple[UserId, int]]:
        rows = member_rows(self._store.mongo, thread, session)
        return [(user, row[MemberField.LAST_REPLY]) async for user, row in rows if MemberField.LAST_REPLY in row]

    async def _has_mark(self, thread: ConversationId) -> bool:
        place = parse_thread(thread)
        assert place is not None
        parents = await self._store.messages.find_many([(place.parent, place.seq)])
        return any(parent.has_thread for parent in parents.values())


class ThreadFollowMarks:
    """Exactly the followers of a thread have a session that is marked as followed."""

    name: ClassVar[str] = "thread-follows"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION, ("t_",))

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some threads."""
        found = []
        for thread in map(ConversationId, ids):
            follows = {user: is_current(row) async for user, row in member_rows(self._store.mongo, thread)}
            users = list(follows)
            for start in range(0, len(users), _USERS):
                some = users[start : start + _USERS]
                marked = await self._list_marked(thread, some)
                found += [
                    Difference(self.name, thread, f"{_FOLLOW}{user}", user in marked, follows[user])
                    for user in some
                    if (user in marked) != follows[user]
                ]
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Set each mark to what the membership gives, under the user's lock, and drop the user's cached sessions."""
        thread = ConversationId(object_id)
        for difference in differences:
            user = UserId(difference.field.removeprefix(_FOLLOW))
            async with self._store.locks.hold_all((user,)):
                rows = await self._store.mongo.find(MEMBERS, {"_id": member_row_id(thread, user)})
                mark = {FOLLOWS: 1}
                change: Document = {"$set": mark} if any(map(is_current, rows)) else {"$unset": mark}
                await self._store.mongo.update_one(SESSIONS, {"_id": session_row_id(user, thread)}, change)
                await self._store.cache.one(self._store.sessions.apply_call(user, INVALIDATE))

    async def _list_marked(self, thread: ConversationId, users: Sequence[UserId]) -> set[UserId]:
        ids = {session_row_id(user, thread): user for user in users}
        query = {"_id": {"$in": list(ids)}, FOLLOWS: {"$exists": True}}
        rows = await self._store.mongo.find(SESSIONS, query, projection={"_id": 1})
        return {ids[row["_id"]] for row in rows}

"""Brings the floors of private conversations and groups into the cached states of their people."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId, parse_private
from store.conversations.conversation_fields import ConversationField
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS, MEMBERS, members_of
from store.redis.cache import Cache
from store.retention.session_expiry import Expire
from store.sessions.changes import LoggedChange, logged_change
from store.sessions.fields import SyncReason
from store.sessions.session_store import SessionStore

_USERS_AT_ONCE = 200


class SessionFloors:
    """Changes cached states. One that is not cached takes the floor from MongoDB when it is loaded."""

    def __init__(self, mongo: Mongo, cache: Cache, sessions: SessionStore, clock: Clock) -> None:
        self._mongo = mongo
        self._cache = cache
        self._sessions = sessions
        self._clock = clock

    async def apply(self, conversations: Sequence[ConversationId]) -> None:
        """Let current and former members of conversations see the floors that these have. May be repeated.

        Raises StoreError.
        """
        fields = (ConversationField.FLOOR_SEQ, ConversationField.FLOOR_N)
        query = {"_id": {"$in": list(conversations)}, ConversationField.FLOOR_SEQ: {"$exists": True}}
        for row in await self._mongo.find(CONVERSATIONS, query, projection=dict.fromkeys(fields, 1)):
            users = await self._list_users(ConversationId(row["_id"]))
            await self.apply_to(users, self.change_of(row))

    def change_of(self, head: Document) -> LoggedChange:
        """Return the change of the sessions of a conversation. head: its document, with the floor."""
        name = ConversationId(head["_id"])
        change = Expire(name, head[ConversationField.FLOOR_SEQ], head[ConversationField.FLOOR_N])
        entry = orjson.dumps({"k": "s", "r": SyncReason.READ.value, "c": [name]}).decode()
        return logged_change(change, self._clock.now_ms(), entry)

    async def apply_to(self, users: Sequence[UserId], change: LoggedChange) -> None:
        """Apply a change to the cached states of users."""
        for start in range(0, len(users), _USERS_AT_ONCE):
            part = users[start : start + _USERS_AT_ONCE]
            await self._cache.run_in_background([self._sessions.apply_call(user, change) for user in part])

    async def _list_users(self, conversation: ConversationId) -> list[UserId]:
        people = parse_private(conversation)
        if people is not None:
            return list(people[:2])
        rows = await self._mongo.find(MEMBERS, members_of(conversation), projection={"_id": 1})
        return [UserId(row["_id"].partition(" ")[2]) for row in rows]

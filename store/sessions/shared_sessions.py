"""Finds the conversations that users share by the `_id`s of their session rows, without loading their states."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from store.base.ids import ConversationId, UserId, parse_private, private_id
from store.mongo.client import Mongo
from store.mongo.collections import BY_ID, SESSIONS, group_sessions_of, parse_session_row_id, session_row_id
from store.sessions.fields import LAST_READABLE_SEQ

_ONLY_ID = {"_id": 1}

Place = tuple[UserId, ConversationId]
"""A user, and a group that the user is or was in."""


class SharedSessions:
    """Reads session rows of several users. The reads take as long for users that do not exist."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_partners(self, user: UserId, others: Iterable[UserId]) -> set[UserId]:
        """Return those of some other users with whom a user has a private conversation, in any subBiz.

        One round trip, which reads only an index. Its cost does not depend on the number of the user's conversations.
        """
        rows = [session_row_id(user, private_id(user, other)) for other in others]
        in_sub_bizs = [{"_id": {"$gte": f"{row}~", "$lt": f"{row}~~"}} for row in rows]
        query = {"$or": [{"_id": {"$in": rows}}, *in_sub_bizs]}
        found = await self._mongo.find(SESSIONS, query, projection=_ONLY_ID, hint=BY_ID)
        people = (parse_private(parse_session_row_id(row["_id"])[1]) for row in found)
        return {each for pair in people if pair is not None for each in pair[:2]} - {user}

    async def list_groups(self, user: UserId) -> list[ConversationId]:
        """Return the groups that a user has not left. They may have ended. One round trip."""
        query = group_sessions_of(user) | {LAST_READABLE_SEQ: {"$exists": False}}
        rows = await self._mongo.find(SESSIONS, query, projection=_ONLY_ID, hint=BY_ID)
        return [parse_session_row_id(row["_id"])[1] for row in rows]

    async def list_groups_of(self, users: Collection[UserId], after: Place | None, limit: int) -> list[Place]:
        """Return groups that users are or were in, in the order of rows, after a place.

        One round trip, which reads only an index.
        """
        ranges = [group_sessions_of(user) for user in users]
        if after is not None:
            last = session_row_id(*after)
            ranges = [{"_id": bounds["_id"] | {"$gt": last}} for bounds in ranges if bounds["_id"]["$lt"] > last]
        if not ranges:
            return []
        found = await self._mongo.find(
            SESSIONS, {"$or": ranges}, projection=_ONLY_ID, sort=BY_ID, limit=limit, hint=BY_ID
        )
        return [parse_session_row_id(row["_id"]) for row in found]

"""The conversations that users share: found in MongoDB by the `_id`s of rows, without loading states or memberships.

The reads take as long for users that do not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from store.base.ids import ConversationId, UserId, parse_private, private_id
from store.conversations.conversation import member_from
from store.conversations.conversation_fields import ConversationField, MemberField
from store.mongo.client import Mongo
from store.mongo.collections import (
    CONVERSATIONS,
    MEMBERS,
    SESSIONS,
    group_sessions_of,
    member_row_id,
    parse_session_row_id,
    session_row_id,
)
from store.mongo.index_fields import BY_ID
from store.sessions.fields import LAST_READABLE_SEQ

_ONLY_ID = {"_id": 1}

Place = tuple[UserId, ConversationId]
"""A user, and a group that the user is or was in."""


class SharedConversations:
    """Reads rows of sessions, groups and memberships."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_partners(self, user: UserId, others: Iterable[UserId]) -> set[UserId]:
        """Return those of some other users who have a private conversation with a user, in any subBiz.

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

    async def list_ended(self, groups: Sequence[ConversationId]) -> set[ConversationId]:
        """Return those of some groups that have ended. Their memberships have not. One round trip."""
        if not groups:
            return set()
        query = {"_id": {"$in": groups}, ConversationField.ENDED_AT: {"$exists": True}}
        rows = await self._mongo.find(CONVERSATIONS, query, projection=_ONLY_ID)
        return {ConversationId(row["_id"]) for row in rows}

    async def find_members(self, places: Iterable[Place]) -> set[UserId]:
        """Return the users of those pairs of a user and a group in which the user has not left the group.

        One round trip.
        """
        ids = [member_row_id(group, user) for user, group in places]
        rows = await self._mongo.find(MEMBERS, {"_id": {"$in": ids}}, projection={MemberField.INTERVALS: 1})
        members = (member_from(UserId(row["_id"].partition(" ")[2]), row) for row in rows)
        return {member.user for member in members if member.is_current}

"""Finds present members of groups in MongoDB, without loading whole memberships."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from store.base.ids import ConversationId, UserId
from store.conversations.conversation import member_from
from store.conversations.conversation_fields import ConversationField, MemberField
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, MEMBERS, member_row_id


class PresentMembers:
    """Reads rows of memberships by their `_id`s."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_ended(self, groups: Sequence[ConversationId]) -> set[ConversationId]:
        """Return those of some groups that have ended. Their memberships have not. One round trip."""
        if not groups:
            return set()
        query = {"_id": {"$in": groups}, ConversationField.ENDED_AT: {"$exists": True}}
        rows = await self._mongo.find(CONVERSATIONS, query, projection={"_id": 1})
        return {ConversationId(row["_id"]) for row in rows}

    async def find_members(self, places: Iterable[tuple[UserId, ConversationId]]) -> set[UserId]:
        """Return the users of those pairs of a user and a group in which the user has not left the group.

        One round trip.
        """
        ids = [member_row_id(group, user) for user, group in places]
        rows = await self._mongo.find(MEMBERS, {"_id": {"$in": ids}}, projection={MemberField.INTERVALS: 1})
        members = (member_from(UserId(row["_id"].partition(" ")[2]), row) for row in rows)
        return {member.user for member in members if member.is_current}

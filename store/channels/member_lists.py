"""The members of PRIVATE channels and the followers of others. Their names: `store.workspaces.member_search`."""

from __future__ import annotations

from collections.abc import Iterable

from store.base.ids import ConversationId, UserId
from store.conversations.conversation_fields import NO_END, MemberField
from store.mongo.client import Document, Mongo
from store.mongo.collections import MEMBERS, member_row_id, members_of

_IS_CURRENT: Document = {MemberField.INTERVALS: {"$elemMatch": {"$elemMatch": {"$eq": NO_END}}}}


class ChannelMemberLists:
    """Reads who is in a channel at present. Each method is one round trip to MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_all(self, channel: ConversationId) -> list[UserId]:
        """Return all members or followers of a channel. For channels that do not have many."""
        return await self._list(members_of(channel))

    async def list_page(self, channel: ConversationId, after: UserId | None, limit: int) -> list[UserId]:
        """Return members or followers of a channel in the order of their ids, after one of them."""
        wanted: Document = members_of(channel)
        if after is not None:
            wanted["_id"]["$gt"] = member_row_id(channel, after)
        rows = await self._mongo.find(
            MEMBERS, wanted | _IS_CURRENT, projection={"_id": 1}, sort=[("_id", 1)], limit=limit
        )
        return [UserId(row["_id"].partition(" ")[2]) for row in rows]

    async def select(self, channel: ConversationId, users: Iterable[UserId]) -> set[UserId]:
        """Return those of some users who are members or followers of a channel."""
        ids = [member_row_id(channel, user) for user in users]
        return set(await self._list({"_id": {"$in": ids}})) if ids else set()

    async def _list(self, wanted: Document) -> list[UserId]:
        rows = await self._mongo.find(MEMBERS, wanted | _IS_CURRENT, projection={"_id": 1})
        return [UserId(row["_id"].partition(" ")[2]) for row in rows]

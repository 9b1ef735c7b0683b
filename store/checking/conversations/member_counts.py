"""Check of the numbers of members of groups, channels and threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.base.workspace_ids import workspace_of_channel
from store.checking.check import Difference, Objects, Scope
from store.conversations.conversation_fields import NO_END, ConversationField, MemberField
from store.mongo.client import Document, Mongo
from store.mongo.collections import CHANNELS, CONVERSATIONS, MEMBERS, members_of, workspace_row_id
from store.mongo.index_fields import BY_ID
from store.store import Store
from store.workspaces.workspace_fields import ChannelField

_FIELD = "number of members"
_ROWS = 2_000


class MemberCounts:
    """The number of members that a group, channel or thread shows is the number of its current members.

    Members of a PUBLIC channel or a thread are its followers. A group that has ended keeps its members, and shows none.
    """

    name: ClassVar[str] = "members"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION, ("c_", "g_", "t_"))

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some conversations."""
        counted = await self._read_counts(ids)
        found = []
        for conversation, (_, row) in counted.items():
            expected = sum([1 async for _ in current_members(self._store.mongo, conversation)])
            stored = row.get(ConversationField.MEMBER_COUNT, 0)
            if stored != expected:
                found.append(Difference(self.name, conversation, _FIELD, stored, expected))
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Count again, in a transaction that conflicts with those that change memberships."""
        conversation = ConversationId(object_id)

        async def work(session: Any) -> None:
            for collection, row in (await self._read_counts([object_id], session)).values():
                number = sum([1 async for _ in current_members(self._store.mongo, conversation, session)])
                count = {"$set": {ConversationField.MEMBER_COUNT: number}}
                await self._store.mongo.find_one_and_update(collection, {"_id": row["_id"]}, count, session=session)

        await self._store.mongo.transaction(work)
        if kind_of(object_id) is not ConversationKind.CHANNEL:
            await self._store.conversations.drop(conversation)

    async def _read_counts(self, ids: Sequence[str], session: Any = None) -> dict[ConversationId, tuple[str, Document]]:
        """Return the rows that have the number of members, with their collections, by conversation."""
        mongo, field = self._store.mongo, ConversationField.MEMBER_COUNT
        channels = {
            workspace_row_id(workspace_of_channel(ConversationId(id_)), id_): ConversationId(id_)
            for id_ in ids
            if kind_of(id_) is ConversationKind.CHANNEL
        }
        groups = [id_ for id_ in ids if kind_of(id_) is not ConversationKind.CHANNEL]
        existing = {"_id": {"$in": groups}, ConversationField.END: {"$exists": False}}
        rows = await mongo.find(CONVERSATIONS, existing, projection={field: 1}, session=session) if groups else []
        found = {ConversationId(row["_id"]): (CONVERSATIONS, row) for row in rows}
        if channels:
            query, counts = {"_id": {"$in": list(channels)}}, {ChannelField.MEMBER_COUNT: 1}
            rows = await mongo.find(CHANNELS, query, projection=counts, session=session)
            found |= {channels[row["_id"]]: (CHANNELS, row) for row in rows}
        return found


async def current_members(mongo: Mongo, conversation: ConversationId, session: Any = None) -> AsyncIterator[str]:
    """Yield the users who are members now, by id."""
    async for user, row in member_rows(mongo, conversation, session):
        if is_current(row):
            yield user


def is_current(row: Document) -> bool:
    """Return whether the last interval of a membership has not ended."""
    intervals = row.get(MemberField.INTERVALS, ())
    return bool(intervals) and intervals[-1][1] == NO_END


async def member_rows(
    mongo: Mongo, conversation: ConversationId, session: Any = None
) -> AsyncIterator[tuple[UserId, Document]]:
    """Yield the users with memberships, present and former, and their rows, by id. One round trip for each 2,000."""
    query, start = members_of(conversation), len(conversation) + 1
    fields = {MemberField.INTERVALS: 1, MemberField.LAST_REPLY: 1}
    while True:
        rows = await mongo.find(MEMBERS, query, projection=fields, sort=BY_ID, limit=_ROWS, session=session)
        for row in rows:
            yield UserId(row["_id"][start:]), row
        if len(rows) < _ROWS:
            return
        query = {"_id": {"$gt": rows[-1]["_id"], "$lt": f"{conversation}!"}}

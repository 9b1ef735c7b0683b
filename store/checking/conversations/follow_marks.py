"""Check of the marks by which users find the channels that they follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from store.base.ids import ConversationId, UserId
from store.channels.follow_rows import FOLLOWS
from store.checking.check import Difference, Objects, Scope
from store.checking.conversations.member_counts import current_members
from store.mongo.collections import SESSIONS, session_row_id
from store.mongo.index_fields import BY_CHANNEL, BY_ID
from store.mongo.writes import Document
from store.sessions.changes import INVALIDATE
from store.sessions.fields import CHANNEL, GONE
from store.store import Store

_FIELD = "follow mark of "
_ROWS = 2_000


class FollowMarks:
    """Exactly the current members and followers of a channel have a session that is marked as followed."""

    name: ClassVar[str] = "follows"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION, ("c_",))

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some channels."""
        found = []
        for channel in map(ConversationId, ids):
            marked = await self._list_marked(channel)
            following = {UserId(user) async for user in current_members(self._store.mongo, channel)}
            found += [
                Difference(self.name, channel, f"{_FIELD}{user}", user in marked, user in following)
                for user in sorted(marked ^ following)
            ]
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Set each mark to what the membership gives, under the user's lock, and drop the user's cached sessions."""
        channel = ConversationId(object_id)
        for difference in differences:
            user = UserId(difference.field.removeprefix(_FIELD))
            async with self._store.locks.hold_all((user,)):
                follows = user in {each async for each in current_members(self._store.mongo, channel)}
                mark = {FOLLOWS: 1}
                change: Document = {"$set": mark} if follows else {"$unset": mark}
                await self._store.mongo.update_one(SESSIONS, {"_id": session_row_id(user, channel)}, change)
                await self._store.cache.one(self._store.sessions.apply_call(user, INVALIDATE))

    async def _list_marked(self, channel: ConversationId) -> set[UserId]:
        """Return the users whose session is marked. One round trip for each 2,000."""
        marked, last, end = set[UserId](), "", f" {channel}"
        while True:
            query: Document = {CHANNEL: channel, FOLLOWS: 1, GONE: {"$exists": False}, "_id": {"$gt": last}}
            rows = await self._store.mongo.find(
                SESSIONS, query, projection={"_id": 1}, sort=BY_ID, limit=_ROWS, hint=BY_CHANNEL
            )
            # Sessions of threads in the channel have the field too.
            marked |= {UserId(row["_id"].removesuffix(end)) for row in rows if row["_id"].endswith(end)}
            if len(rows) < _ROWS:
                return marked
            last = rows[-1]["_id"]

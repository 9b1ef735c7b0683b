"""How far imports of chat logs have come. `imports`, where `_id` says what a row is about:

`group <name>` {c conversation}: the group that logs imported under a name go to.
`file <conversation> <digest>` {from, done}: a log: newest seq of the conversation before it, lines that are durable.
`user <id>`: somebody whom an import made, so that imports may rename them; who came by themselves keep their name.
`demo` {done}: the demo, while it is being filled in and for ever after.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from store.base.ids import ConversationId, UserId
from store.mongo.client import Document, Mongo
from store.users.user_store import USERS

IMPORTS = "imports"
_DEMO = "demo"


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """A log's. All that its first `done` lines make happen is durable, and of seqs past `from_seq`."""

    from_seq: int
    done: int


class ImportStore:
    """Progress of imports in MongoDB. Everything here may be repeated, and goes forward only."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find_group(self, name: str) -> ConversationId | None:
        """The group that logs imported under a name go to."""
        row = await self._mongo.find_one(IMPORTS, {"_id": _group_row(name)})
        return ConversationId(row["c"]) if row else None

    async def insert_group(self, name: str, conversation: ConversationId) -> ConversationId:
        """Makes it this group, unless there is one already. Answers which it is."""
        before = await self._insert(_group_row(name), {"c": conversation})
        return ConversationId(before["c"]) if before else conversation

    async def find_progress(self, conversation: ConversationId, digest: str) -> ImportProgress | None:
        """How far a log has come, None where it was never begun."""
        row = await self._mongo.find_one(IMPORTS, {"_id": _file_row(conversation, digest)})
        return ImportProgress(row["from"], row["done"]) if row else None

    async def insert_progress(self, conversation: ConversationId, digest: str, from_seq: int) -> ImportProgress:
        """Begins a log, unless it has been. Answers how far it is."""
        before = await self._insert(_file_row(conversation, digest), {"from": from_seq, "done": 0})
        return ImportProgress(before["from"], before["done"]) if before else ImportProgress(from_seq, 0)

    async def update_progress(self, conversation: ConversationId, digest: str, done: int) -> None:
        """Notes that a log's first lines are durable. Never goes back."""
        await self._mongo.update_one(IMPORTS, {"_id": _file_row(conversation, digest)}, {"$max": {"done": done}})

    async def insert_users(self, users: Iterable[UserId]) -> None:
        """Notes that an import makes these users. To be called before it does."""
        rows = [UpdateOne({"_id": _user_row(u)}, {"$setOnInsert": {"made": True}}, upsert=True) for u in users]
        if rows:
            await self._mongo.bulk_write(IMPORTS, rows)

    async def list_users(self, users: Iterable[UserId]) -> set[UserId]:
        """Those of the users whom an import made."""
        wanted = {_user_row(user): user for user in users}
        rows = await self._mongo.find(IMPORTS, {"_id": {"$in": list(wanted)}})
        return {wanted[row["_id"]] for row in rows}

    async def begin_demo(self) -> bool:
        """Whether the demo is to be filled in: there are no users at all, or it was begun and did not come to its end."""
        row = await self._mongo.find_one(IMPORTS, {"_id": _DEMO})
        if row is None and await self._mongo.find_one(USERS, {}) is None:
            row = {"done": False}
            await self._mongo.update_one(IMPORTS, {"_id": _DEMO}, {"$setOnInsert": row}, upsert=True)
        return row is not None and not row["done"]

    async def end_demo(self) -> None:
        """Notes that the demo is all there."""
        await self._mongo.update_one(IMPORTS, {"_id": _DEMO}, {"$set": {"done": True}})

    async def _insert(self, row: str, fields: Document) -> Document | None:
        """Inserts a row, unless it is there. Answers the one that was."""
        try:
            return await self._mongo.find_one_and_update(IMPORTS, {"_id": row}, {"$setOnInsert": fields}, upsert=True)
        except DuplicateKeyError:
            # Two upserts of one row met, and the other one's made it.
            return await self._mongo.find_one(IMPORTS, {"_id": row})


def _group_row(name: str) -> str:
    return f"group {name}"


def _file_row(conversation: ConversationId, digest: str) -> str:
    return f"file {conversation} {digest}"


def _user_row(user: UserId) -> str:
    return f"user {user}"

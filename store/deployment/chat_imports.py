"""Progress of imports of chat logs.

Rows of `imports`, by the form of their `_id`:
    group <name>                  {c: conversation} The group that receives the logs imported under a name.
    workspace <name>              {w: workspace} The workspace that receives the logs imported under a name.
    file <conversation> <digest>  {from: newest seq of the conversation before the log, done: lines that are durable}
    user <id>                     {made} A user created by an import. Imports may rename these users only.
    demo                          {done} The import of the demo, from its begin on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document, Mongo
from store.mongo.collections import USERS

IMPORTS = "imports"
_DEMO = "demo"


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """Progress of one log: the effects of its first `done` lines are durable, at seqs after `from_seq`."""

    from_seq: int
    done: int


class ImportStore:
    """Progress of imports in MongoDB. Every method may be repeated, and progress never goes back."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find_group(self, name: str) -> ConversationId | None:
        """Return the group that receives the logs imported under a name."""
        row = await self._mongo.find_one(IMPORTS, {"_id": _group_row(name)})
        return ConversationId(row["c"]) if row else None

    async def insert_group(self, name: str, conversation: ConversationId) -> ConversationId:
        """Assign a group to a name, unless the name has one already. Returns the group of the name."""
        before = await self._insert(_group_row(name), {"c": conversation})
        return ConversationId(before["c"]) if before else conversation

    async def find_workspace(self, name: str) -> WorkspaceId | None:
        """Return the workspace that receives the logs imported under a name."""
        row = await self._mongo.find_one(IMPORTS, {"_id": f"workspace {name}"})
        return WorkspaceId(row["w"]) if row else None

    async def insert_workspace(self, name: str, workspace: WorkspaceId) -> WorkspaceId:
        """Assign a workspace to a name, unless the name has one already. Returns the workspace of the name."""
        before = await self._insert(f"workspace {name}", {"w": workspace})
        return WorkspaceId(before["w"]) if before else workspace

    async def find_progress(self, conversation: ConversationId, digest: str) -> ImportProgress | None:
        """Return the progress of a log. None: its import has not begun."""
        row = await self._mongo.find_one(IMPORTS, {"_id": _file_row(conversation, digest)})
        return ImportProgress(row["from"], row["done"]) if row else None

    async def insert_progress(self, conversation: ConversationId, digest: str, from_seq: int) -> ImportProgress:
        """Begin the import of a log, unless it began already. Returns its progress."""
        before = await self._insert(_file_row(conversation, digest), {"from": from_seq, "done": 0})
        return ImportProgress(before["from"], before["done"]) if before else ImportProgress(from_seq, 0)

    async def update_progress(self, conversation: ConversationId, digest: str, done: int) -> None:
        """Note that the first `done` lines of a log are durable."""
        await self._mongo.update_one(IMPORTS, {"_id": _file_row(conversation, digest)}, {"$max": {"done": done}})

    async def insert_users(self, users: Iterable[UserId]) -> None:
        """Note that an import creates these users. Call it before they are created."""
        rows = [UpdateOne({"_id": _user_row(u)}, {"$setOnInsert": {"made": True}}, upsert=True) for u in users]
        if rows:
            await self._mongo.bulk_write(IMPORTS, rows)

    async def list_users(self, users: Iterable[UserId]) -> set[UserId]:
        """Return the users among these that an import created."""
        wanted = {_user_row(user): user for user in users}
        rows = await self._mongo.find(IMPORTS, {"_id": {"$in": list(wanted)}})
        return {wanted[row["_id"]] for row in rows}

    async def begin_demo(self) -> bool:
        """Return whether the demo has to be imported, and note that its import begins.

        This is so if there are no users at all, or if its import has begun and was not finished.
        """
        row = await self._mongo.find_one(IMPORTS, {"_id": _DEMO})
        if row is None and await self._mongo.find_one(USERS, {}) is None:
            row = {"done": False}
            await self._mongo.update_one(IMPORTS, {"_id": _DEMO}, {"$setOnInsert": row}, upsert=True)
        return row is not None and not row["done"]

    async def end_demo(self) -> None:
        """Note that the demo is imported completely."""
        await self._mongo.update_one(IMPORTS, {"_id": _DEMO}, {"$set": {"done": True}})

    async def _insert(self, row: str, fields: Document) -> Document | None:
        """Insert a row, unless it exists. Returns the row that existed."""
        try:
            return await self._mongo.find_one_and_update(IMPORTS, {"_id": row}, {"$setOnInsert": fields}, upsert=True)
        except DuplicateKeyError:
            # Two upserts of one row collided, and the other one inserted it.
            return await self._mongo.find_one(IMPORTS, {"_id": row})


def _group_row(name: str) -> str:
    return f"group {name}"


def _file_row(conversation: ConversationId, digest: str) -> str:
    return f"file {conversation} {digest}"


def _user_row(user: UserId) -> str:
    return f"user {user}"

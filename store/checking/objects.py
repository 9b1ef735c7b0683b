"""The objects that checks go through, in parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from store.base.ids import ConversationId, ConversationKind, kind_of, without_thread
from store.base.workspace_ids import workspace_of_channel
from store.checking.check import Objects, Scope
from store.mongo.client import Mongo
from store.mongo.collections import CHANNELS, WORKSPACES, workspace_row_id
from store.mongo.index_fields import BY_ID
from store.workspaces.workspace_fields import WorkspaceField

_NAMES_PER_QUERY = 1_000


async def object_parts(mongo: Mongo, scope: Scope, size: int) -> AsyncIterator[list[str]]:
    """Yield the ids of all objects of a scope, up to `size` at once. Deleted channels and workspaces are left out."""
    for prefix in scope.prefixes:
        last, end = prefix, {"$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)} if prefix else {}
        while True:
            query = {"_id": {"$gt": last} | end}
            rows = await mongo.find(
                scope.objects.value, query, projection={"_id": 1}, sort=BY_ID, limit=_NAMES_PER_QUERY
            )
            ids = [str(row["_id"]) for row in rows]
            present = await _without_deleted(mongo, scope.objects, ids)
            for start in range(0, len(present), size):
                yield present[start : start + size]
            if len(rows) < _NAMES_PER_QUERY:
                break
            last = ids[-1]


async def named_objects(mongo: Mongo, objects: Objects, id: str) -> list[str]:
    """Return an object if it exists."""
    rows = await mongo.find(objects.value, {"_id": id}, projection={"_id": 1})
    return await _without_deleted(mongo, objects, [str(row["_id"]) for row in rows])


async def _without_deleted(mongo: Mongo, objects: Objects, ids: Sequence[str]) -> list[str]:
    """Leave out deleted channels and workspaces, whose rows are removed in the background."""
    if objects is Objects.WORKSPACE:
        return await _existing_workspaces(mongo, ids)
    if objects is Objects.USER:
        return list(ids)
    # A thread is deleted with its channel.
    parents = {id: without_thread(ConversationId(id)) for id in ids}
    channels = [parent for parent in set(parents.values()) if kind_of(parent) is ConversationKind.CHANNEL]
    if not channels:
        return list(ids)
    rows_of = {workspace_row_id(workspace_of_channel(channel), channel): channel for channel in channels}
    workspaces = set(await _existing_workspaces(mongo, sorted({workspace_of_channel(channel) for channel in channels})))
    found = await mongo.find(CHANNELS, {"_id": {"$in": list(rows_of)}}, projection={"_id": 1})
    present = {rows_of[row["_id"]] for row in found if row["_id"].partition(" ")[0] in workspaces}
    gone = set(channels) - present
    return [id for id in ids if parents[id] not in gone]


async def _existing_workspaces(mongo: Mongo, ids: Sequence[str]) -> list[str]:
    query = {"_id": {"$in": list(ids)}, WorkspaceField.DELETED_AT: None}
    return sorted(str(row["_id"]) for row in await mongo.find(WORKSPACES, query, projection={"_id": 1}))

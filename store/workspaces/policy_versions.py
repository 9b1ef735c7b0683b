"""The policy version of each workspace in Redis, read from MongoDB on a miss. It only grows."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from weakref import WeakValueDictionary

from store.base.group_commit import GroupCommit
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Mongo
from store.mongo.collections import WORKSPACES
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.request_scope import RequestScope
from store.redis.single_flight import CLAIM_MS
from store.workspaces.workspace_fields import WorkspaceField, WorkspaceMetaField

_MOST_CALLS = 100_000
"""Calls that share one read."""

_Answer = asyncio.Future[int | None]


class PolicyVersions:
    """Reads and raises policy versions."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._joined: WeakValueDictionary[WorkspaceId, GroupCommit[_Answer]] = WeakValueDictionary()

    async def find_joined(self, workspace: WorkspaceId) -> int | None:
        """Like `find`. Calls of one turn of the event loop share a read, and calls that come while it runs the next.

        So a read begins after the calls that it answers.
        """
        queue = self._joined.get(workspace)
        if queue is None:
            queue = self._joined[workspace] = GroupCommit(partial(self._answer, workspace), _MOST_CALLS)
        answer: _Answer = asyncio.get_running_loop().create_future()
        queue.push([answer])
        return await answer

    async def _answer(self, workspace: WorkspaceId, calls: list[_Answer]) -> None:
        waiting = [call for call in calls if not call.done()]
        try:
            with RequestScope():
                version = await self.find(workspace)
        except Exception as error:
            for call in waiting:
                if not call.done():
                    call.set_exception(error)
            return
        for call in waiting:
            if not call.done():
                call.set_result(version)

    async def find(self, workspace: WorkspaceId) -> int | None:
        """Return the policy version; None if there is no such workspace. One round trip to Redis if it is cached."""
        meta = self._keys.of_clock(workspace, "meta")
        cached = await self._cache.one(Call("HGET", (meta,), (WorkspaceMetaField.POLICY_VERSION,)))
        if cached is not None:
            return int(cached)
        token = secrets.token_hex(8)
        loading = self._keys.of_clock(workspace, "pv_loading")
        claimed = await self._cache.one(Call("SET", (loading,), (token, "NX", "PX", CLAIM_MS)))
        row = await self._mongo.find_one(WORKSPACES, {"_id": workspace})
        version = None if row is None or WorkspaceField.DELETED_AT in row else int(row[WorkspaceField.POLICY_VERSION])
        if claimed and version is not None:
            await self._cache.one(Call("load_policy_version", (meta, loading), (token, version)))
        return version

    def raise_call(self, workspace: WorkspaceId, version: int) -> Call:
        """Return the call that raises the version in Redis, after it was raised in MongoDB."""
        keys = tuple(self._keys.of_clock(workspace, name) for name in ("meta", "pv_loading"))
        return Call("raise_policy_version", keys, (version,))

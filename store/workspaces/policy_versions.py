"""The policy version of each workspace in Redis, read from MongoDB on a miss. It only grows."""

from __future__ import annotations

import secrets

from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Mongo
from store.mongo.collections import WORKSPACES
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.single_flight import CLAIM_MS
from store.workspaces.workspace_fields import WorkspaceField, WorkspaceMetaField


class PolicyVersions:
    """Reads and raises policy versions."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys

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

"""The one way to change what decides rights in a workspace (ADR 56, ADR 57).

A change is decided on the newest policy, and stored in one transaction that is guarded by the policy version. Then it
is *completed*: the fence in Redis is raised, the change is published, other servers read the policy, and `pending` is
removed from the workspace's document. Only then it is answered. If the server dies before that, another one completes
the change. Every step may be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from store.base.clock import Clock
from store.base.errors import StoreError, Superseded, Unreachable
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document, Mongo
from store.mongo.collections import CHANNELS, PENDING_SINCE, WORKSPACE_MEMBERS, WORKSPACES
from store.redis.cache import Cache
from store.redis.keys import Keys
from store.redis.request_scope import discard_request_cache
from store.workspaces.changing.policy_fence import PolicyFence
from store.workspaces.changing.proposed_change import ProposedPolicyChange, channel_operations, member_operations
from store.workspaces.documents import pending_fields, policy_fields
from store.workspaces.policies import Policies
from store.workspaces.policy import PendingChange, Policy
from store.workspaces.workspace_fields import WorkspaceField

_log = structlog.get_logger()

TAKEOVER_MS = 5_000
"""Time after which any server may complete a change."""

_ATTEMPTS = 20
"""Decisions on one change: others may be stored between a decision and its transaction."""

_TAKEOVERS = 20
"""Changes that a server takes over at once."""

Decide = Callable[[Policy], Awaitable[ProposedPolicyChange | None]]
"""Decides a change on the newest policy. None: nothing changes. It may be called several times."""


Announce = Callable[[Policy, PendingChange], Awaitable[None]]
"""Publishes a change, and returns when no server shows live events under an older policy any more.

It may be called again for the same change. Raises StoreError if a server does not answer.
"""


async def _announce_nothing(_policy: Policy, _change: PendingChange) -> None:
    """Do nothing: there are no subscribers."""


class PolicyChanges:
    """Changes policies. `announce` is set by the layer that knows other servers and events."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys, clock: Clock, policies: Policies) -> None:
        self._mongo = mongo
        self._cache = cache
        self._clock = clock
        self._policies = policies
        self._fence = PolicyFence(cache, keys, policies.versions)
        self._incomplete: set[WorkspaceId] = set()
        """Workspaces with changes that this process could not complete."""
        self.announce: Announce = _announce_nothing

    async def change(self, workspace: WorkspaceId, decide: Decide) -> Policy | None:
        """Make a change and complete it. Returns the policy after it; None if the workspace does not exist.

        If nothing changes, earlier changes are completed before this returns: what they took away is not used any more
        on any server. What `decide` raises is raised, and nothing has changed then. So are DuplicateKeyError and
        BulkWriteError of the change's own writes.

        Raises Unreachable: the change may have been made, or will be complete only later.
        """
        for _ in range(_ATTEMPTS):
            policy = await self._policies.read(workspace)
            if policy is None or policy.is_deleted:
                self._policies.forget(workspace)
                return None
            self._policies.keep(policy)
            proposed = await decide(policy)
            if proposed is None or not proposed.changes(policy):
                await self._complete(policy)
                return policy
            after = proposed.result(policy, self._clock.now_ms())
            try:
                await self._store(policy, after, proposed)
            except Superseded:
                continue
            except StoreError:
                # It may have been stored.
                self._incomplete.add(workspace)
                raise
            # In the Redis fallback, this request has to read what it has changed.
            discard_request_cache()
            if after.is_deleted:
                self._policies.forget(workspace)
            else:
                self._policies.keep(after)
            await self._complete(after)
            return after
        raise Unreachable("the workspace is being changed by others")

    async def complete_incomplete(self) -> None:
        """Complete the changes that this process could not complete. Raises StoreError; the next call tries again."""
        for workspace in list(self._incomplete):
            policy = await self._policies.read(workspace)
            if policy is None or policy.pending is None:
                self._incomplete.discard(workspace)
            else:
                await self._complete(policy)

    async def complete_abandoned(self) -> int:
        """Complete changes of servers that have died meanwhile. Returns their number. Raises StoreError."""
        self._cache.require_shared()
        now_ms = self._clock.now_ms()
        waiting = {PENDING_SINCE: {"$lt": now_ms - TAKEOVER_MS}}
        completed = 0
        for row in await self._mongo.find(WORKSPACES, waiting, projection={"_id": 1}, limit=_TAKEOVERS):
            # Servers take turns: one that fails leaves it to another one later.
            if await self._mongo.update_one(
                WORKSPACES, {"_id": row["_id"]} | waiting, {"$set": {PENDING_SINCE: now_ms}}
            ):
                _log.warning("abandoned_policy_change_found", workspace=row["_id"])
                policy = await self._policies.read(row["_id"])
                if policy is not None:
                    await self._complete(policy)
                completed += 1
        return completed

    async def _store(self, before: Policy, after: Policy, proposed: ProposedPolicyChange) -> None:
        """Store a change, all or nothing. Raises Superseded if the policy has changed meanwhile."""
        writes = [
            (CHANNELS, channel_operations(before, after)),
            (WORKSPACE_MEMBERS, member_operations(before.workspace, proposed.members)),
            *proposed.writes,
        ]
        unchanged = {
            "_id": before.workspace,
            WorkspaceField.POLICY_VERSION: before.version,
            WorkspaceField.DELETED_AT: None,
        }
        update = self._workspace_update(after, proposed)

        async def work(session: Any) -> None:
            for collection, guards in proposed.guards:
                if await self._mongo.bulk_write(collection, guards, session=session) < len(guards):
                    raise Superseded("a document has changed since the change was decided")
            for collection, operations in writes:
                if operations:
                    await self._mongo.bulk_write(collection, operations, session=session)
            # Last, because everybody who joins writes this document, and waits while this transaction locks it.
            if await self._mongo.find_one_and_update(WORKSPACES, unchanged, update, session=session) is None:
                raise Superseded("another change of the policy was stored before")

        await self._mongo.transaction(work)

    def _workspace_update(self, after: Policy, proposed: ProposedPolicyChange) -> Document:
        update: Document = {operator: dict(fields) for operator, fields in proposed.workspace.items()}
        fields = update.setdefault("$set", {})
        fields |= policy_fields(after)
        if after.pending is not None:
            fields[WorkspaceField.PENDING] = pending_fields(after.pending)
        if proposed.deletes:
            fields[WorkspaceField.DELETED_AT] = self._clock.now_ms()
        ended = sum(change.after is None for change in proposed.members)
        if ended:
            update.setdefault("$inc", {})[WorkspaceField.MEMBER_COUNT] = -ended
        return update

    async def _complete(self, policy: Policy) -> None:
        """Do what is pending after the newest change. Raises Unreachable; `complete_incomplete` repeats it then."""
        pending, workspace = policy.pending, policy.workspace
        if pending is None:
            return
        self._incomplete.add(workspace)
        try:
            self._cache.require_shared()
        except Unreachable:
            # The deployment has no Redis, so no server has a head: requests read the policy version from MongoDB. As
            # soon as Redis is back, the change is completed for servers that were faster to use it.
            return
        heads = policy.channels.keys() if pending.heads is None else pending.heads
        await self._fence.raise_versions(workspace, policy.version, heads)
        await self.announce(policy, pending)
        # A later change has taken over what is pending.
        done = {"_id": workspace, WorkspaceField.POLICY_VERSION: policy.version}
        await self._mongo.update_one(WORKSPACES, done, {"$unset": {WorkspaceField.PENDING: ""}})
        self._incomplete.discard(workspace)

"""The one way to change what decides rights in a workspace (ADR 56, ADR 57).

A change is decided on the newest policy, and stored in one transaction that is guarded by the policy version. Then it
is *completed*: the fence in Redis is raised, the change is published, other servers read the policy, and the change is
removed from what is pending in the workspace's document. Only then it is answered. If the server dies before that,
another one completes the change. Every step may be repeated.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

import structlog

from store.audit.audit_log import AuditLog
from store.base.clock import Clock
from store.base.errors import Superseded
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document, Mongo
from store.mongo.collections import CHANNELS, WORKSPACE_MEMBERS, WORKSPACES
from store.mongo.index_fields import PENDING_SINCE
from store.redis.cache import Cache
from store.redis.keys import Keys
from store.redis.request_scope import discard_request_cache
from store.workspaces.changing.attempts import repeat_while_superseded
from store.workspaces.changing.change_meter import ChangeMeter, metered
from store.workspaces.changing.completions import Completions
from store.workspaces.changing.policy_fence import PolicyFence
from store.workspaces.changing.proposed_change import ProposedPolicyChange, channel_operations, member_operations
from store.workspaces.documents import pending_fields, policy_fields
from store.workspaces.policies import Policies
from store.workspaces.policy import Policy
from store.workspaces.workspace_fields import PendingField, WorkspaceField

_log = structlog.get_logger()

TAKEOVER_MS = 5_000
"""Time after which any server may complete a change."""

_TAKEOVERS = 20
"""Changes that a server takes over at once."""

Decide = Callable[[Policy], Awaitable[ProposedPolicyChange | None]]
"""Decides a change on the newest policy. None: nothing changes. It may be called several times."""


class PolicyChanges:
    """Changes policies."""

    def __init__(
        self, mongo: Mongo, cache: Cache, keys: Keys, clock: Clock, policies: Policies, audit: AuditLog
    ) -> None:
        self._mongo = mongo
        self._cache = cache
        self._clock = clock
        self._policies = policies
        self._audit = audit
        self.completions = Completions(mongo, cache, PolicyFence(cache, keys, policies.versions))
        self._locks: WeakValueDictionary[WorkspaceId, asyncio.Lock] = WeakValueDictionary()
        """Changes of one workspace are stored one after the other: at once, all but one would be decided again."""
        self.meter = ChangeMeter()

    @property
    def incomplete_workspaces(self) -> int:
        """The number of workspaces with changes that this process could not complete."""
        return len(self.completions.incomplete)

    @metered
    async def change(self, workspace: WorkspaceId, decide: Decide) -> Policy | None:
        """Make a change and complete it. Returns the policy after it; None if the workspace does not exist.

        If nothing changes, earlier changes are completed before this returns: what they took away is not used any more
        on any server. What `decide` raises is raised, and nothing has changed then. So are DuplicateKeyError and
        BulkWriteError of the change's own writes.

        Raises Unreachable: the change may have been made, or will be complete only later.
        """
        lock = self._locks.setdefault(workspace, asyncio.Lock())
        async with lock:
            before, after = await repeat_while_superseded(lambda: self._decide_and_store(workspace, decide))
        if before is None:
            return None
        if after is None:
            await self.completions.complete(before, before.pending)
            return None if before.is_deleted else before
        await self.completions.complete(after, after.pending[-1:])
        return after

    async def _decide_and_store(self, workspace: WorkspaceId, decide: Decide) -> tuple[Policy | None, Policy | None]:
        """Return the policy before and after a change. None: there is no workspace, or nothing changes.

        Raises Superseded: another server has stored a change meanwhile.
        """
        policy = await self._policies.read(workspace)
        if policy is None or policy.is_deleted:
            self._policies.forget(workspace)
            return policy, None
        self._policies.keep(policy)
        proposed = await decide(policy)
        if proposed is None or not proposed.changes(policy):
            return policy, None
        after = proposed.result(policy, secrets.token_hex(8), self._clock.now_ms())
        try:
            await self._store(policy, after, proposed)
        except Superseded:
            raise
        except BaseException:
            # It may have been stored.
            self.completions.incomplete.add(workspace)
            raise
        # In the Redis fallback, this request has to read what it has changed.
        discard_request_cache()
        self._keep(policy, after)
        return policy, after

    def _keep(self, before: Policy, after: Policy) -> None:
        """Keep the stored policy in memory."""
        for user in after.pending[-1].renamed:
            # The facts that are kept stay valid, but have the earlier nickname.
            self._policies.forget_member(after.workspace, user)
        if after.is_deleted:
            self._policies.forget(after.workspace)
        elif after.version > before.version:
            self._policies.keep(after)

    async def complete_incomplete(self) -> None:
        """Complete the changes that this process could not complete. Raises StoreError; the next call tries again."""
        incomplete = self.completions.incomplete
        for workspace in list(incomplete):
            policy = await self._policies.read(workspace)
            incomplete.discard(workspace)
            if policy is not None:
                await self.completions.complete(policy, policy.pending)

    async def complete_abandoned(self) -> int:
        """Complete changes of servers that have died meanwhile. Returns the number of workspaces. Raises StoreError."""
        self._cache.require_shared()
        now_ms = self._clock.now_ms()
        waiting = {PENDING_SINCE: {"$lt": now_ms - TAKEOVER_MS}}
        completed = 0
        for row in await self._mongo.find(WORKSPACES, waiting, projection={"_id": 1}, limit=_TAKEOVERS):
            # Servers take turns: one that fails leaves it to another one later.
            taken = {"$set": {f"{WorkspaceField.PENDING}.$[].{PendingField.SINCE}": now_ms}}
            if await self._mongo.update_one(WORKSPACES, {"_id": row["_id"]} | waiting, taken):
                _log.warning("abandoned_policy_change_found", workspace=row["_id"])
                policy = await self._policies.read(row["_id"])
                if policy is not None:
                    await self.completions.complete(policy, policy.pending)
                completed += 1
        return completed

    async def _store(self, before: Policy, after: Policy, proposed: ProposedPolicyChange) -> None:
        """Store a change, all or nothing. Raises Superseded if the policy has changed meanwhile."""
        writes = [
            (CHANNELS, channel_operations(before, after)),
            (WORKSPACE_MEMBERS, member_operations(before.workspace, proposed.members)),
            *proposed.writes,
            self._audit.entry_writes(*proposed.audit),
        ]
        unchanged = {
            "_id": before.workspace,
            WorkspaceField.POLICY_VERSION: before.version,
            WorkspaceField.DELETED_AT: None,
        }
        update = self._workspace_update(before, after, proposed)

        async def work(session: Any) -> None:
            for collection, guards in proposed.guards:
                if await self._mongo.bulk_write(collection, guards, session=session) < len(guards):
                    raise Superseded("a document has changed since the change was decided")
            for collection, id in proposed.absent:
                if await self._mongo.find_one(collection, {"_id": id}, session=session) is not None:
                    raise Superseded("a document was created since the change was decided")
            for collection, operations in writes:
                if operations:
                    await self._mongo.bulk_write(collection, operations, session=session)
            if len(after.pending) <= len(before.pending):
                # The new entry includes these. The list may have others, which this process has not read: they stay.
                included = {PendingField.ID: {"$in": [change.id for change in before.pending]}}
                pulled = {"$pull": {WorkspaceField.PENDING: included}}
                await self._mongo.find_one_and_update(WORKSPACES, unchanged, pulled, session=session)
            # Last, because everybody who joins writes this document, and waits while this transaction locks it.
            if await self._mongo.find_one_and_update(WORKSPACES, unchanged, update, session=session) is None:
                raise Superseded("another change of the policy was stored before")

        await self._mongo.transaction(work)

    def _workspace_update(self, before: Policy, after: Policy, proposed: ProposedPolicyChange) -> Document:
        update: Document = {operator: dict(fields) for operator, fields in proposed.workspace.items()}
        update.setdefault("$push", {})[WorkspaceField.PENDING] = pending_fields(after.pending[-1])
        fields = policy_fields(after) if after.version > before.version else {}
        if proposed.deletes:
            fields[WorkspaceField.DELETED_AT] = self._clock.now_ms()
        if fields:
            update["$set"] = update.get("$set", {}) | fields
        ended = sum(change.after is None for change in proposed.members)
        if ended:
            update.setdefault("$inc", {})[WorkspaceField.MEMBER_COUNT] = -ended
        return update

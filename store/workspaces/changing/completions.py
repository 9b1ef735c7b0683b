"""Completes changes of policies: the last steps, after a change is stored and before it is answered (ADR 57)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import structlog

from store.base.errors import StoreError, Unreachable
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Mongo
from store.mongo.collections import WORKSPACES
from store.redis.cache import Cache
from store.workspaces.changing.policy_fence import PolicyFence
from store.workspaces.policy import PendingChange, Policy
from store.workspaces.workspace_fields import PendingField, WorkspaceField

_log = structlog.get_logger()

Announce = Callable[[Policy, PendingChange], Awaitable[None]]
"""Publishes a change, and returns when no server shows live events under an older policy any more.

It may be called again for the same change. Raises StoreError if a server does not answer.
"""


UpdateThreads = Callable[[Policy, PendingChange], Awaitable[None]]
"""Hides threads in cached states from users who can't see their channel any more. It may be called again.

Raises StoreError.
"""


async def _announce_nothing(_policy: Policy, _change: PendingChange) -> None:
    """Do nothing: there are no subscribers."""


@dataclass(slots=True)
class _Waiting:
    """Changes that wait for their completion, and a policy that includes them."""

    policy: Policy
    changes: Sequence[PendingChange]
    is_done: bool = False
    failure: Exception | None = None


@dataclass(slots=True, weakref_slot=True)
class _Queue:
    """The changes of one workspace. `lock`: of the completion that is under way."""

    waiting: list[_Waiting] = field(default_factory=list)
    completed: set[str] = field(default_factory=set)
    """Changes that were completed while others were waiting."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Completions:
    """Completes changes. Changes that wait while others are completed are then completed together.

    `announce` is set by the layer that knows other servers and events, and `update_threads` by the store.
    """

    def __init__(self, mongo: Mongo, cache: Cache, fence: PolicyFence) -> None:
        self._mongo = mongo
        self._cache = cache
        self._fence = fence
        self._queues: WeakValueDictionary[WorkspaceId, _Queue] = WeakValueDictionary()
        self.incomplete: set[WorkspaceId] = set()
        """Workspaces with changes that this process could not complete."""
        self.announce: Announce = _announce_nothing
        self.update_threads: UpdateThreads = _announce_nothing

    async def complete(self, policy: Policy, changes: Sequence[PendingChange]) -> None:
        """Complete changes that a policy includes. Raises StoreError: `incomplete` has the workspace then.

        If only nicknames have changed, nothing is raised, and no other server is waited for.
        """
        if not changes:
            return
        try:
            self._cache.require_shared()
        except Unreachable:
            # The deployment has no Redis, so no server has a head: requests read the policy version from MongoDB. As
            # soon as Redis is back, the change is completed for servers that were faster to use it.
            self.incomplete.add(policy.workspace)
            return
        try:
            if all(change.only_renames for change in changes):
                await self._complete_renames(policy, changes)
            else:
                await self._complete_with_others(_Waiting(policy, changes))
        except BaseException:
            self.incomplete.add(policy.workspace)
            raise

    async def _complete_renames(self, policy: Policy, changes: Sequence[PendingChange]) -> None:
        """Complete changes that take no rights away, so that they may be answered before other servers know them."""
        try:
            await self._complete(policy, changes)
        except StoreError as error:
            _log.warning("rename_not_published_yet", workspace=policy.workspace, reason=str(error))
            self.incomplete.add(policy.workspace)

    async def _complete_with_others(self, own: _Waiting) -> None:
        queue = self._queues.setdefault(own.policy.workspace, _Queue())
        queue.waiting.append(own)
        async with queue.lock:
            if not own.is_done:
                await self._complete_waiting(queue)
        if own.failure is not None:
            raise own.failure

    async def _complete_waiting(self, queue: _Queue) -> None:
        """Complete all changes that wait. If this request is cancelled, the next one that waits does it."""
        batch = list(queue.waiting)
        newest = max((item.policy for item in batch), key=lambda policy: policy.version)
        changes = {change.id: change for item in batch for change in item.changes if change.id not in queue.completed}
        failure = None
        try:
            if changes:
                await self._complete(newest, list(changes.values()))
            queue.completed |= changes.keys()
        except Exception as error:
            failure = error
        for item in batch:
            item.is_done, item.failure = True, failure
        del queue.waiting[: len(batch)]

    async def _complete(self, policy: Policy, changes: Sequence[PendingChange]) -> None:
        *earlier, newest = changes
        together = newest.after(*earlier)
        if not together.only_renames:
            await self._fence.raise_versions(policy.workspace, policy.version, together.heads)
            # Later loads judge under this policy.
            await self.update_threads(policy, together)
        await self.announce(policy, together)
        # Only these: each later change is completed by the request that made it.
        done = {WorkspaceField.PENDING: {PendingField.ID: {"$in": [change.id for change in changes]}}}
        await self._mongo.update_one(WORKSPACES, {"_id": policy.workspace}, {"$pull": done})

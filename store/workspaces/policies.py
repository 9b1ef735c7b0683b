"""Policies and facts about members in the memory of this process, read from MongoDB when they are missing or outdated.

A reader names the policy version that it has seen elsewhere, such as in the head of a channel. It gets a policy, and
facts, that are at least as new (ADR 56).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Mongo
from store.mongo.collections import CHANNELS, WORKSPACE_MEMBERS, WORKSPACES, rows_of_workspace, workspace_row_id
from store.mongo.joined_reads import JoinedReads
from store.redis.cache import Cache
from store.redis.keys import Keys
from store.redis.single_flight import SingleFlight
from store.workspaces.documents import facts_from, policy_from
from store.workspaces.policy import MemberFacts, Policy
from store.workspaces.policy_versions import PolicyVersions

_MAX_OBJECTS = 200_000
"""Roles, categories, channels and overwrites of all policies that a process keeps: about 100 MB at most."""

_MAX_MEMBERS = 200_000
"""Members whose facts a process keeps: about 100 MB at most."""


@dataclass(slots=True, eq=False)
class _FactsRead:
    """A read of facts about members. `to_keep`: those whose facts have not been dropped since its begin."""

    workspace: WorkspaceId
    to_keep: set[UserId]


class Policies:
    """The policies and facts about members that this process keeps. What was not used for longest is dropped first."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        """Keep nothing yet."""
        self._mongo = mongo
        self.versions = PolicyVersions(mongo, cache, keys)
        self._policies: OrderedDict[WorkspaceId, Policy] = OrderedDict()
        self._objects = 0
        self._members: OrderedDict[tuple[WorkspaceId, UserId], MemberFacts] = OrderedDict()
        self._member_rows = JoinedReads(mongo, WORKSPACE_MEMBERS)
        self._flights = SingleFlight()
        self._reads: set[_FactsRead] = set()
        """Reads of facts that are under way."""

    def known(self, workspace: WorkspaceId) -> Policy | None:
        """Return the newest policy that this process knows, without waiting."""
        return self._policies.get(workspace)

    def known_member(self, workspace: WorkspaceId, user: UserId) -> MemberFacts | None:
        """Return the facts about a member that are valid under the known policy, without waiting."""
        policy, facts = self._policies.get(workspace), self._members.get((workspace, user))
        return facts if policy is not None and facts is not None and policy.accepts(facts) else None

    async def current_version(self, workspace: WorkspaceId) -> int | None:
        """Return the policy version of a workspace; None if there is no such workspace.

        It is at least that of each change that was answered before this call. One round trip to Redis if it is cached.
        """
        return await self.versions.find(workspace)

    async def find(self, workspace: WorkspaceId, at_least: int = 0) -> Policy | None:
        """Return the newest policy that this process knows; None if the workspace does not exist.

        It is read again if it is older than the version `at_least`. One round trip to MongoDB then.
        """
        policy = self._policies.get(workspace)
        if policy is not None and policy.version >= at_least:
            self._policies.move_to_end(workspace)
            return policy
        policy = await self._read_once(workspace)
        if at_least and (policy is None or policy.version < at_least):
            # That read may have begun before the version existed.
            policy = await self._read_once(workspace)
        return policy

    async def find_member(self, workspace: WorkspaceId, user: UserId, at_least: int = 0) -> MemberFacts | None:
        """Return the facts about one member; None if the user is not a member. See `find_members`."""
        return (await self.find_members(workspace, (user,), at_least)).get(user)

    async def find_members(
        self, workspace: WorkspaceId, users: Iterable[UserId], at_least: int = 0
    ) -> dict[UserId, MemberFacts]:
        """Return the facts about the users that are members, valid under the policy that `find` returns.

        One round trip to MongoDB for those that are not kept, which concurrent calls share. That a user is not a member
        is not kept.
        """
        policy = await self.find(workspace, at_least)
        found = dict[UserId, MemberFacts]()
        if policy is None:
            return found
        missing = list[UserId]()
        for user in dict.fromkeys(users):
            facts = self._members.get((workspace, user))
            if facts is not None and policy.accepts(facts):
                self._members.move_to_end((workspace, user))
                found[user] = facts
            else:
                missing.append(user)
        if missing:
            found |= await self._read_members(workspace, missing, policy.version)
        return found

    async def _read_members(
        self, workspace: WorkspaceId, users: list[UserId], version: int
    ) -> dict[UserId, MemberFacts]:
        """Read facts, and keep those that were not dropped meanwhile. `version`: of a policy that is known already."""
        read, found = _FactsRead(workspace, set(users)), dict[UserId, MemberFacts]()
        self._reads.add(read)
        try:
            rows = await self._member_rows.find(workspace, [workspace_row_id(workspace, user) for user in users])
        finally:
            self._reads.discard(read)
        for row in rows.values():
            # The policy was known before this read, so the row has the changes up to its version.
            facts = facts_from(row, version)
            found[facts.user] = facts
            if facts.user in read.to_keep:
                self._keep_member(workspace, facts)
        return found

    def forget_member(self, workspace: WorkspaceId, user: UserId) -> None:
        """Drop the facts about a member that another server has changed in a way that decides no rights."""
        for read in self._reads:
            if read.workspace == workspace:
                read.to_keep.discard(user)
        self._members.pop((workspace, user), None)

    def forget_members(self) -> None:
        """Drop the facts about all members: calls of `forget_member` may be missing."""
        for read in self._reads:
            read.to_keep.clear()
        self._members.clear()

    def keep(self, policy: Policy) -> None:
        """Keep a policy that was read or written, unless a newer one is kept."""
        before = self._policies.get(policy.workspace)
        if before is not None:
            if before.version > policy.version:
                return
            self._objects -= _size(before)
        self._policies[policy.workspace] = policy
        self._policies.move_to_end(policy.workspace)
        self._objects += _size(policy)
        while self._objects > _MAX_OBJECTS and len(self._policies) > 1:
            self._objects -= _size(self._policies.popitem(last=False)[1])

    def forget(self, workspace: WorkspaceId) -> None:
        """Drop the policy of a workspace that was deleted."""
        before = self._policies.pop(workspace, None)
        if before is not None:
            self._objects -= _size(before)

    async def _read_once(self, workspace: WorkspaceId) -> Policy | None:
        """Read a policy, or wait for a read of it that has begun."""
        policy: Policy | None = await self._flights.run(workspace, partial(self._read, workspace))
        return policy

    async def read(self, workspace: WorkspaceId) -> Policy | None:
        """Read the newest policy, also that of a deleted workspace. None: there never was one. Two round trips.

        Its parts are read as of one moment, on all shards.
        """
        rows, channels = await self._mongo.find_as_of_one_moment(
            (WORKSPACES, {"_id": workspace}), (CHANNELS, rows_of_workspace(workspace))
        )
        return policy_from(rows[0], channels) if rows else None

    async def renew(self, workspace: WorkspaceId) -> Policy | None:
        """Read the newest policy, and keep it; None if the workspace does not exist. Two round trips to MongoDB.

        For callers whose change was refused because the kept policy is not the newest one.
        """
        return await self._read(workspace)

    async def _read(self, workspace: WorkspaceId) -> Policy | None:
        policy = await self.read(workspace)
        if policy is None or policy.is_deleted:
            self.forget(workspace)
            return None
        self.keep(policy)
        return self._policies.get(workspace, policy)

    def _keep_member(self, workspace: WorkspaceId, facts: MemberFacts) -> None:
        key = (workspace, facts.user)
        before = self._members.get(key)
        if before is not None and before.version > facts.version:
            return
        self._members[key] = facts
        self._members.move_to_end(key)
        if len(self._members) > _MAX_MEMBERS:
            self._members.popitem(last=False)


def _size(policy: Policy) -> int:
    overwrites = sum(len(category.overwrites) for category in policy.categories.values())
    overwrites += sum(len(channel.overwrites) for channel in policy.channels.values())
    return 1 + len(policy.roles) + len(policy.categories) + len(policy.channels) + overwrites

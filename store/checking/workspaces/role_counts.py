"""Check of the numbers of members that roles of workspaces show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from store.base.errors import Unreachable
from store.base.workspace_ids import RoleId, WorkspaceId
from store.checking.check import Difference, Objects, Scope
from store.checking.workspaces.workspace_counts import members_of_workspace
from store.store import Store
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.policy import PendingChange, Policy, Role
from store.workspaces.workspace_fields import WorkspaceMemberField


class RoleCounts:
    """Each role has the number of the members who have it. The role of everyone has none."""

    name: ClassVar[str] = "roles"
    scope: ClassVar[Scope] = Scope(Objects.WORKSPACE)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some workspaces."""
        found = []
        for workspace in map(WorkspaceId, ids):
            policy = await self._store.policies.read(workspace)
            if policy is None or policy.is_deleted:
                continue
            counted = await self._count(policy)
            found += [
                Difference(
                    self.name,
                    workspace,
                    f"number of members with role {id}",
                    role.member_count,
                    counted[id].member_count,
                )
                for id, role in policy.roles.items()
                if role.member_count != counted[id].member_count
            ]
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Count again, as a change of the workspace's policy."""

        async def decide(policy: Policy) -> ProposedPolicyChange:
            return ProposedPolicyChange(replace(policy, roles=await self._count(policy)))

        with suppress(LeftToServers):
            await self._store.policy_changes.change(WorkspaceId(object_id), decide)

    async def _count(self, policy: Policy) -> dict[RoleId, Role]:
        """Return the roles with the numbers that the rows of members give."""
        members = Counter[str]()
        async for row in members_of_workspace(self._store.mongo, policy.workspace):
            members.update(row.get(WorkspaceMemberField.ROLES, ()))
        everyone = policy.everyone.id
        return {
            id: role if id == everyone else replace(role, member_count=members[id]) for id, role in policy.roles.items()
        }


class LeftToServers(Unreachable):
    """Raised in place of announcing a change, by a process without a connection to other servers."""


async def leave_to_servers(_policy: Policy, _change: PendingChange) -> None:
    """Announce nothing: a server completes the change after a few seconds."""
    raise LeftToServers

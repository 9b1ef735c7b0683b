"""Makes changes of workspaces as one of their members, decided on the newest policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden
from resolvers.base.rate_limits import check_rate
from resolvers.workspaces.access import no_permission, no_workspace
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, Policy
from store.workspaces.rights import rights_in_workspace

DecideAsMember = Callable[[Policy, MemberFacts], Awaitable[ProposedPolicyChange | None]]
"""Decides a change on the newest policy and the facts about the actor. It may be called several times."""


async def change_as_member(
    app: Confab,
    actor: UserId,
    workspace: str,
    decide: DecideAsMember,
    field: str = "workspaceId",
    *,
    has_rate: bool = True,
) -> Policy:
    """Make a change, and return the policy after it. When this returns, no server uses the rights before the change.

    has_rate: The change counts towards the actor's rate.

    Raises NotFound if the actor is not a member, RateLimited, and what `decide` raises.
    """
    if not is_workspace_id(workspace):
        raise no_workspace(field)
    if has_rate:
        check_rate(app.store.rate_limits.workspace_changes, actor)
    wanted = WorkspaceId(workspace)

    async def decide_as_member(policy: Policy) -> ProposedPolicyChange | None:
        facts = await app.store.policies.find_member(wanted, actor, policy.version)
        if facts is None:
            raise no_workspace(field)
        return await decide(policy, facts)

    after = await app.store.policy_changes.change(wanted, decide_as_member)
    if after is None:
        raise no_workspace(field)
    return after


def require(app: Confab, policy: Policy, actor: MemberFacts, permission: Permission) -> None:
    """Raise Forbidden unless a member has a permission in the workspace."""
    if permission not in rights_in_workspace(policy, actor, app.store.clock.now_ms()):
        raise no_permission(permission)


def require_owner(policy: Policy, actor: MemberFacts) -> None:
    """Raise Forbidden unless a member is the owner."""
    if actor.user != policy.owner:
        raise Forbidden("only the owner of the workspace may do this")

"""Changes of workspaces: profile, owner, deletion."""

from __future__ import annotations

from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url
from resolvers.base.errors import Forbidden, InvalidInput, NotAMember
from resolvers.base.metadata import encode_metadata
from resolvers.base.names import accept_name
from resolvers.users.callers import Caller, CallerRole
from resolvers.workspaces.access import no_workspace
from resolvers.workspaces.audit_values import workspace_values
from resolvers.workspaces.changes import change_as_member, require, require_owner
from store.audit.audit_note import AuditNote, notes_if_changed
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, Policy
from store.workspaces.workspace_info import Plan, WorkspaceInfo, update_of_info, with_due_time

MAX_RETENTION_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class ProfileUpdate:
    """New values for a workspace; None: no change. With `sets_icon`, an `icon_url` of None removes the icon."""

    name: str | None = None
    icon_url: str | None = None
    sets_icon: bool = False
    is_open: bool | None = None
    plan: Plan | None = None
    retention_days: int | None = None
    """0: messages are kept."""
    metadata: object = None
    """A JSON value."""

    def applied_to(self, info: WorkspaceInfo, metadata: str | None) -> WorkspaceInfo:
        """Return a workspace with the new values. metadata: as JSON text."""
        return replace(
            info,
            name=info.name if self.name is None else self.name,
            icon_url=self.icon_url if self.sets_icon else info.icon_url,
            is_open=info.is_open if self.is_open is None else self.is_open,
            plan=info.plan if self.plan is None else self.plan,
            retention_days=info.retention_days if self.retention_days is None else self.retention_days or None,
            metadata=info.metadata if metadata is None else metadata,
        )


async def update_workspace(app: Confab, caller: Caller, workspace: str, update: ProfileUpdate) -> WorkspaceInfo:
    """Change a workspace. A service may change the plan of any workspace; all else needs MANAGE_WORKSPACE.

    If messages expire by it, no server shows them any more when this returns.

    Raises InvalidInput, NotFound, Forbidden and RateLimited.
    """
    if update.name is not None:
        update = replace(update, name=accept_name(update.name, "name"))
    check_avatar_url(update.icon_url, "iconUrl")
    check_retention_days(update.retention_days)
    metadata = encode_metadata(update.metadata)

    actor = caller.user_id

    async def decide(policy: Policy) -> ProposedPolicyChange | None:
        # Every change of the profile raises the policy version, so another one makes this one be decided again.
        info = await app.store.workspaces.find(policy.workspace)
        if info is None:
            raise no_workspace()
        updated = update.applied_to(info, metadata)
        changes = update_of_info(info, updated)
        values = workspace_values(info), workspace_values(updated)
        notes = notes_if_changed(actor, "updateWorkspace", policy.workspace, policy.workspace, *values)
        if updated.retention_days != info.retention_days:
            changes = with_due_time(changes, updated)
        return ProposedPolicyChange(policy, workspace=changes, audit=notes) if changes else None

    async def decide_as_member(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        require(app, policy, facts, Permission.MANAGE_WORKSPACE)
        if update.plan is not None and caller.role is not CallerRole.SERVICE:
            raise Forbidden("only callers with role service may set the plan", field="plan")
        return await decide(policy)

    if caller.role is CallerRole.SERVICE and update == ProfileUpdate(plan=update.plan):
        found = is_workspace_id(workspace) and await app.store.policy_changes.change(WorkspaceId(workspace), decide)
        if not found:
            raise no_workspace()
    else:
        await change_as_member(app, actor, workspace, decide_as_member)
    if update.retention_days:
        await app.store.retention.apply_to_workspace(WorkspaceId(workspace))
    info = await app.store.workspaces.find(WorkspaceId(workspace))
    if info is None:
        raise no_workspace()
    return info


def check_retention_days(days: int | None) -> None:
    """Raise InvalidInput unless messages may expire after this time; 0: they are kept; None: no change."""
    if days is not None and not 0 <= days <= MAX_RETENTION_DAYS:
        raise InvalidInput(f"give 1 to {MAX_RETENTION_DAYS} days, or 0 to keep messages", field="retentionDays")


async def transfer_workspace(app: Confab, actor: UserId, workspace: str, user: str) -> WorkspaceInfo:
    """Make another member the owner. Raises NotFound, NotAMember, Forbidden, InvalidInput and RateLimited."""

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        require_owner(policy, facts)
        if user == actor:
            raise InvalidInput("you own this workspace already; name another member", field="userId")
        target = await app.store.policies.find_member(policy.workspace, UserId(user), policy.version)
        if target is None:
            raise NotAMember("this user is not a member of the workspace", field="userId")
        owners = {"ownerId": policy.owner}, {"ownerId": target.user}
        note = AuditNote(actor, "transferWorkspace", policy.workspace, target.user, *owners)
        return ProposedPolicyChange(replace(policy, owner=target.user), audit=[note])

    await change_as_member(app, actor, workspace, decide)
    info = await app.store.workspaces.find(WorkspaceId(workspace))
    if info is None:
        raise no_workspace()
    return info


async def delete_workspace(app: Confab, actor: UserId, workspace: str) -> None:
    """Delete a workspace. From then on it is not found. Its rows are removed in the background.

    Raises NotFound, Forbidden and RateLimited.
    """

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        require_owner(policy, facts)
        info = await app.store.workspaces.find(policy.workspace)
        if info is None:
            raise no_workspace()
        fields, writes = app.store.workspaces.deletion_writes(info)
        values = workspace_values(info) | {"ownerId": info.owner, "memberCount": info.member_count}
        # The workspace's own log is removed with it.
        notes = [
            AuditNote(actor, "deleteWorkspace", log, policy.workspace, before=values)
            for log in (policy.workspace, None)
        ]
        return ProposedPolicyChange(policy, workspace=fields, writes=writes, deletes=True, audit=notes)

    await change_as_member(app, actor, workspace, decide)

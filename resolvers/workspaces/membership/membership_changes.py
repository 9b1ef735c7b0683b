"""Changes of memberships of workspaces: leaving, and nicknames."""

from __future__ import annotations

from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, NotAMember, OwnerCannotLeave
from resolvers.base.names import accept_name
from resolvers.workspaces.audit_values import member_values
from resolvers.workspaces.changes import change_as_member, require
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.member_search import changed_search_fields
from store.workspaces.membership_store import membership_end_guards, membership_end_writes
from store.workspaces.permissions import Permission
from store.workspaces.policy import Follow, MemberFacts, Policy
from store.workspaces.rights import highest_position

LONGEST_NICKNAME = 32


async def leave_workspace(app: Confab, user: UserId, workspace: str) -> None:
    """End the user's own membership. Raises NotFound, OwnerCannotLeave and RateLimited."""

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        if user == policy.owner:
            raise OwnerCannotLeave("the owner can't leave; transfer the workspace to another owner or delete it first")
        ended = await end_memberships(app, policy, [facts])
        note = AuditNote(user, "leaveWorkspace", policy.workspace, user, before=member_values(facts))
        return replace(ended, audit=[note])

    await change_as_member(app, user, workspace, decide)


async def end_memberships(
    app: Confab, policy: Policy, members: list[MemberFacts], *, keeps_timeouts: bool = True
) -> ProposedPolicyChange:
    """Return the change that ends memberships, those of PRIVATE channels included. Channels are no longer followed.

    keeps_timeouts: Members who are timed out still are if they join again.
    """
    now_ms = app.store.clock.now_ms()
    users = [member.user for member in members]
    found = await app.store.memberships.find_channels(policy, users)
    heads = await app.store.conversations.find_many({channel for channel, _ in found.memberships})
    ends = [(channel, member, heads[channel].seq) for channel, member in found.memberships if channel in heads]
    return ProposedPolicyChange(
        policy,
        members=[
            MemberChange(
                member, None, private_channels=frozenset(c for c, m in found.memberships if m.user == member.user)
            )
            for member in members
        ],
        follows=frozenset(Follow(member.user, channel, False) for channel, member in found.memberships),
        writes=[
            *membership_end_writes(policy, users, ends, now_ms),
            *(app.store.bans.timeout_writes(policy.workspace, members, now_ms) if keeps_timeouts else ()),
        ],
        guards=membership_end_guards(policy, users, found),
    )


async def set_nickname(
    app: Confab, actor: UserId, workspace: str, user: str | None, nickname: str | None
) -> MemberFacts:
    """Change the name that a member has in a workspace; None removes it. Return the member.

    Raises InvalidInput, NotFound, NotAMember, Forbidden and RateLimited.
    """
    if nickname is not None:
        nickname = accept_name(nickname, "nickname", LONGEST_NICKNAME)
    target = UserId(user) if user is not None else actor

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        await _check_may_name(app, policy, facts, target)
        # A nickname needs no policy version, so the facts that this process keeps may have an earlier one.
        app.store.policies.forget_member(policy.workspace, target)
        member = await app.store.policies.find_member(policy.workspace, target, policy.version)
        if member is None:
            raise _not_a_member()
        if member.nickname == nickname:
            return None
        profile = await app.store.users.find(target)
        fields, writes = changed_search_fields(target, profile.name if profile is not None else None, nickname)
        change = MemberChange(member, replace(member, nickname=nickname), fields)
        names = {"nickname": member.nickname}, {"nickname": nickname}
        # Members who change their own nickname leave no entry.
        notes = [AuditNote(actor, "setNickname", policy.workspace, target, *names)] if target != actor else []
        return ProposedPolicyChange(policy, members=[change], writes=writes, audit=notes)

    policy = await change_as_member(app, actor, workspace, decide)
    found = await app.store.policies.find_member(WorkspaceId(workspace), target, policy.version)
    if found is None:
        raise _not_a_member()
    return found


async def _check_may_name(app: Confab, policy: Policy, actor: MemberFacts, target: UserId) -> None:
    """Raise NotAMember or Forbidden unless the actor may change the nickname of a member."""
    if target == actor.user:
        require(app, policy, actor, Permission.CHANGE_NICKNAME)
        return
    require(app, policy, actor, Permission.MANAGE_NICKNAMES)
    member = await app.store.policies.find_member(policy.workspace, target, policy.version)
    if member is None:
        raise _not_a_member()
    if highest_position(policy, member) >= highest_position(policy, actor):
        raise Forbidden("this needs a role above all roles of that member", field="userId")


def _not_a_member() -> NotAMember:
    return NotAMember("this user is not a member of the workspace", field="userId")

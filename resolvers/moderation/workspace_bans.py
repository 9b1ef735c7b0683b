"""Bans from workspaces (ADR 96)."""

from __future__ import annotations

from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden
from resolvers.moderation.ban_input import BanInput, ban_note, recall_jobs, same_terms, terms_of
from resolvers.moderation.targets import check_below, check_is_other
from resolvers.users.users import access_users
from resolvers.workspaces.changes import change_as_member, require
from resolvers.workspaces.membership.membership_changes import end_memberships
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.moderation.ban import Ban
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.membership_store import no_membership
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, Policy


async def ban_from_workspace(app: Confab, actor: UserId, workspace: str, user: str, given: BanInput) -> Ban:
    """Ban a user, who may not be a member, from a workspace. Needs BAN_MEMBERS. A member has to be below the actor.

    When this returns, no message of the user is stored in the workspace, they get no event of it, and cannot join it.
    Banning a banned user again replaces the end and the reason.

    Raises InvalidInput, NotFound, Forbidden and RateLimited: then nothing was changed.
    """
    (target,) = await access_users(app, [user], "userId")
    given = given.accepted(app.store.clock.now_ms())
    banned: list[Ban] = []

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        require(app, policy, facts, Permission.BAN_MEMBERS)
        check_is_other(actor, target)
        if target == policy.owner:
            raise Forbidden("the owner can't be banned; name another user", field="userId")
        now_ms = app.store.clock.now_ms()
        member = await app.store.policies.find_member(policy.workspace, target, policy.version)
        if member is not None:
            check_below(policy, facts, member)
        before = await app.store.bans.find(policy.workspace, target, now_ms)
        ban = given.ban_of(policy.workspace, target, actor, before.created_at_ms if before is not None else now_ms)
        banned[:] = [ban]
        if member is None and before is not None and same_terms(before, ban) and not given.delete_seconds:
            banned[:] = [before]
            return None
        change = ProposedPolicyChange(policy) if member is None else await end_memberships(app, policy, [member])
        # A join writes the workspace's document too, so one of the two transactions is repeated.
        absent = [no_membership(policy.workspace, target)] if member is None else []
        jobs = recall_jobs(app, ban, given.delete_seconds, now_ms)
        writes = [*change.writes, *app.store.bans.writes(ban), app.store.jobs.creation_writes(jobs)]
        return replace(change, writes=writes, absent=absent, audit=[ban_note(ban, before, given)])

    await change_as_member(app, actor, workspace, decide)
    if given.delete_seconds:
        app.store.jobs.on_created()
    return banned[0]


async def unban_from_workspace(app: Confab, actor: UserId, workspace: str, user: str) -> bool:
    """Lift a ban. Needs BAN_MEMBERS. Return False if there is none in force.

    Raises NotFound, Forbidden and RateLimited: then nothing was changed.
    """
    target = UserId(user)
    lifted = [False]

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        require(app, policy, facts, Permission.BAN_MEMBERS)
        before = await app.store.bans.find(policy.workspace, target, app.store.clock.now_ms())
        lifted[:] = [before is not None]
        if before is None:
            return None
        note = AuditNote(actor, "unbanUser", policy.workspace, target, before=terms_of(before))
        return ProposedPolicyChange(
            policy, writes=app.store.bans.removal_writes(policy.workspace, target), audit=[note]
        )

    await change_as_member(app, actor, workspace, decide)
    return lifted[0]

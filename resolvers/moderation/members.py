"""Kicks members out of workspaces, and times them out."""

from __future__ import annotations

from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotAMember
from resolvers.base.times import check_future, iso_text
from resolvers.moderation.targets import accept_reason, access_below
from resolvers.workspaces.audit_values import member_values
from resolvers.workspaces.changes import change_as_member, require
from resolvers.workspaces.membership.membership_changes import end_memberships
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, Policy

LONGEST_TIMEOUT_MS = 28 * 24 * 3600 * 1000


async def kick_member(app: Confab, actor: UserId, workspace: str, user: str, reason: str | None = None) -> None:
    """End the membership of a member below the actor. Needs KICK_MEMBERS. The user may join again.

    When this returns, no message of the user is stored in the workspace, and they get no event of it. Raises
    InvalidInput, NotFound, NotAMember, Forbidden and RateLimited: then nothing was changed.
    """
    target, reason = UserId(user), accept_reason(reason)

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        require(app, policy, facts, Permission.KICK_MEMBERS)
        member = await access_below(app, policy, facts, target)
        note = AuditNote(actor, "kickMember", policy.workspace, target, before=member_values(member), reason=reason)
        return replace(await end_memberships(app, policy, [member]), audit=[note])

    await change_as_member(app, actor, workspace, decide)


async def timeout_member(
    app: Confab,
    actor: UserId,
    workspace: str,
    user: str,
    until_ms: int | None,
    reason: str | None = None,
) -> MemberFacts:
    """Let a member below the actor only read until a time (ms since the epoch), at most 28 days; None ends it.

    Needs TIMEOUT_MEMBERS. When this returns, all servers apply the time-out. It ends by itself, without a write. The
    same time again changes nothing. Returns the member.

    Raises InvalidInput, NotFound, NotAMember, Forbidden and RateLimited: then nothing was changed.
    """
    target, reason = UserId(user), accept_reason(reason)
    now_ms = app.store.clock.now_ms()
    check_future(until_ms, now_ms, "until")
    if until_ms is not None and until_ms > now_ms + LONGEST_TIMEOUT_MS:
        raise InvalidInput("until must be at most 28 days from now; give an earlier time", field="until")

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        require(app, policy, facts, Permission.TIMEOUT_MEMBERS)
        member = await access_below(app, policy, facts, target)
        before = member.timed_out_until_ms if member.timed_out_until_ms > app.store.clock.now_ms() else 0
        after = until_ms or 0
        if after == before:
            return None
        note = AuditNote(
            actor,
            "timeoutMember",
            policy.workspace,
            target,
            before={"timedOutUntil": iso_text(before) if before else None},
            after={"timedOutUntil": iso_text(after) if after else None},
            reason=reason,
        )
        change = MemberChange(member, replace(member, timed_out_until_ms=after))
        return ProposedPolicyChange(policy, members=[change], audit=[note])

    policy = await change_as_member(app, actor, workspace, decide)
    found = await app.store.policies.find_member(policy.workspace, target, policy.version)
    if found is None:
        raise NotAMember("this user is not a member of the workspace", field="userId")
    return found

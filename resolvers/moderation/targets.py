"""Checks of the users that a moderator acts on, and of the reasons that moderators give."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.checks import check_encodable
from resolvers.base.errors import Forbidden, InvalidInput, NotAMember
from store.base.ids import UserId
from store.workspaces.policy import MemberFacts, Policy
from store.workspaces.rights import highest_position

LONGEST_REASON = 500


def accept_reason(reason: str | None, field: str = "reason") -> str | None:
    """Return a reason as it is stored; None for a blank one. Raises InvalidInput."""
    if reason is None or not reason.strip():
        return None
    if len(reason) > LONGEST_REASON:
        raise InvalidInput(f"{field} must have at most {LONGEST_REASON} characters", field=field)
    if "\0" in reason:
        raise InvalidInput(f"{field} must not contain a NUL character", field=field)
    check_encodable(reason, field)
    return reason


def check_is_other(actor: UserId, target: UserId) -> None:
    """Raise InvalidInput for a moderator who names themselves."""
    if actor == target:
        raise InvalidInput("you can't do this to yourself; name another user", field="userId")


def check_below(policy: Policy, actor: MemberFacts, target: MemberFacts) -> None:
    """Raise Forbidden unless a member's highest role is below that of the actor. The owner is above all."""
    if highest_position(policy, target) >= highest_position(policy, actor):
        raise Forbidden(
            "this member has a role as high as yours, or is the owner; ask somebody with a higher role", field="userId"
        )


async def access_below(app: Confab, policy: Policy, actor: MemberFacts, target: UserId) -> MemberFacts:
    """Return another member of the workspace, below the actor. Raises InvalidInput, NotAMember and Forbidden."""
    check_is_other(actor.user, target)
    member = await app.store.policies.find_member(policy.workspace, target, policy.version)
    if member is None:
        raise NotAMember("this user is not a member of the workspace", field="userId")
    check_below(policy, actor, member)
    return member

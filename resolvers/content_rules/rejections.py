"""Messages that a content rule does not allow: the error, and the time-out of the sender."""

from __future__ import annotations

from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.errors import Rejected
from resolvers.base.times import iso_text_or_none
from store.audit.audit_note import AuditNote
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import workspace_of_channel
from store.redis.request_scope import RequestScope
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.policy import Policy

TIMEOUT_MS = 10 * 60_000
"""Length of a time-out that a content rule causes."""

_SAME_MS = 60_000
"""A time-out that ends this much earlier counts as the same: messages at once cause one change of the policy."""


def rejected(*, with_timeout: bool = False) -> Rejected:
    """Return the error for a message that a content rule does not allow. It does not name the rule.

    with_timeout: The sender gets a time-out. Give it while no other message waits, because it takes some time.
    """
    error = Rejected("the rules of this workspace do not allow this content; change it", field="content")
    error.times_out_sender = with_timeout
    return error


async def time_out_sender(app: Confab, sender: UserId, conversation: ConversationId) -> None:
    """Let a member only read for ten minutes, in the name of the workspace's owner. Errors are those of the store.

    A longer time-out stays. The owner cannot be timed out, and administrators can.
    """

    async def decide(policy: Policy) -> ProposedPolicyChange | None:
        member = await app.store.policies.find_member(policy.workspace, sender, policy.version)
        now_ms = app.store.clock.now_ms()
        until_ms = now_ms + TIMEOUT_MS
        if member is None or sender == policy.owner or member.timed_out_until_ms > until_ms - _SAME_MS:
            return None
        before_ms = member.timed_out_until_ms if member.timed_out_until_ms > now_ms else None
        note = AuditNote(
            policy.owner,
            "timeoutMember",
            policy.workspace,
            sender,
            before={"timedOutUntil": iso_text_or_none(before_ms)},
            after={"timedOutUntil": iso_text_or_none(until_ms)},
            reason="a content rule",
        )
        change = MemberChange(member, replace(member, timed_out_until_ms=until_ms))
        return ProposedPolicyChange(policy, members=[change], audit=[note])

    # A service may act for the sender, but not for the owner.
    with RequestScope():
        await app.store.policy_changes.change(workspace_of_channel(conversation), decide)

"""Setting and reading the content rules of a workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.rate_limits import check_rate
from resolvers.content_rules.rule_input import NewRule, check_exemptions, check_rules
from resolvers.workspaces.access import access_workspace, check_right
from resolvers.workspaces.changes import change_as_member, require
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.content_rules.content_rule import ContentRule
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, Policy


async def list_content_rules(app: Confab, viewer: UserId, workspace: str) -> list[ContentRule]:
    """Return the content rules of a workspace, in the order in which they were set. Raises NotFound, Forbidden."""
    access = await access_workspace(app, viewer, workspace)
    check_right(app, access, Permission.MANAGE_WORKSPACE)
    return _shown(await app.store.content_rules.read(access.policy.workspace), access.policy)


async def set_content_rules(app: Confab, actor: UserId, workspace: str, rules: Sequence[NewRule]) -> list[ContentRule]:
    """Replace all content rules of a workspace; none removes them. Setting the same rules again changes nothing.

    When this returns, no message takes a place, and no edit is stored, that was judged under the rules before. Raises
    InvalidInput, NotFound, Forbidden and RateLimited: then nothing was changed.
    """
    # Before the rules are looked at, which costs more than most operations.
    check_rate(app.store.rate_limits.workspace_changes, actor)
    check_right(app, await access_workspace(app, actor, workspace), Permission.MANAGE_WORKSPACE)
    # Off the event loop: a pattern takes up to 100 ms.
    ids = [f"cr_{app.store.ids.next()}" for _ in rules]
    wanted = await asyncio.to_thread(check_rules, rules, ids)
    result = wanted

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        nonlocal result
        require(app, policy, facts, Permission.MANAGE_WORKSPACE)
        check_exemptions(wanted, policy)
        # Each change of rules raises the policy version. After one at the same time, this one is decided again.
        before = await app.store.content_rules.read(policy.workspace)
        if _without_ids(before) == _without_ids(wanted):
            result = before
            return None
        result, version = wanted, policy.version + 1
        note = AuditNote(
            actor,
            "setContentRules",
            policy.workspace,
            policy.workspace,
            before={"rules": _as_json(before)},
            after={"rules": _as_json(wanted)},
        )
        return ProposedPolicyChange(
            replace(policy, rules_version=version if wanted else 0),
            writes=[app.store.content_rules.writes(policy.workspace, version, wanted)],
            fenced=frozenset(policy.channels),
            audit=[note],
        )

    policy = await change_as_member(app, actor, workspace, decide, has_rate=False)
    return _shown(result, policy)


def _shown(rules: Iterable[ContentRule], policy: Policy) -> list[ContentRule]:
    """Return rules without roles and channels that were deleted."""
    return [
        replace(
            rule,
            exempt_roles=rule.exempt_roles & policy.roles.keys(),
            exempt_channels=rule.exempt_channels & policy.channels.keys(),
        )
        for rule in rules
    ]


def _without_ids(rules: Iterable[ContentRule]) -> list[ContentRule]:
    return [replace(rule, id="") for rule in rules]


def _as_json(rules: Iterable[ContentRule]) -> list[dict[str, Any]]:
    return [
        {
            "id": rule.id,
            "words": list(rule.words),
            "patterns": list(rule.patterns),
            "action": rule.action.name,
            "exemptRoleIds": sorted(rule.exempt_roles),
            "exemptChannelIds": sorted(rule.exempt_channels),
        }
        for rule in rules
    ]

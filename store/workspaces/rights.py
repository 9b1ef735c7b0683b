"""Rights: what a member may do in a workspace and in a channel, as pure functions of the policy and of member facts.

The rights in a channel are made in two parts. *Rules* grant, allow and deny permissions, in the order of the contract.
*Limits* then take permissions away, whatever rule granted them. `explain` goes through the same rules and limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from store.base.ids import ConversationId
from store.base.workspace_ids import RoleId
from store.workspaces.permissions import EVERYTHING, NEEDS_SENDING, NOTHING, WHILE_TIMED_OUT, WRITING, Permission
from store.workspaces.policy import (
    Channel,
    ChannelCategory,
    ChannelKind,
    MemberFacts,
    Overwrite,
    Overwrites,
    Policy,
    Role,
)

OWNER_POSITION = 1 << 31
"""The position of the owner: above all roles."""

_MAX_KEPT_RIGHTS = 20_000
"""Sets of roles and places of overwrites whose rights are kept for one policy."""

_NO_OVERWRITE = Overwrite()


class PermissionRule(StrEnum):
    """The rule or limit that decided a permission."""

    OWNER = "OWNER"
    ADMINISTRATOR = "ADMINISTRATOR"
    ROLE = "ROLE"
    EVERYONE_OVERWRITE = "EVERYONE_OVERWRITE"
    ROLE_OVERWRITE = "ROLE_OVERWRITE"
    MEMBER_OVERWRITE = "MEMBER_OVERWRITE"
    TIMED_OUT = "TIMED_OUT"
    NOT_VISIBLE = "NOT_VISIBLE"
    """The member cannot see the channel, so nothing else is possible there."""
    ARCHIVED = "ARCHIVED"
    IMPLIED = "IMPLIED"
    """It needs SEND_MESSAGES."""
    DEFAULT = "DEFAULT"
    """Nothing grants it."""


@dataclass(frozen=True, slots=True)
class PermissionReason:
    """A permission that is given or not, and why. `role`: the role of the rule, if it has one."""

    permission: Permission
    allowed: bool
    decided_by: PermissionRule
    role: RoleId | None = None


class _Rule(NamedTuple):
    """Permissions that one rule denies, and then those that it allows."""

    rule: PermissionRule
    role: RoleId | None
    deny: Permission
    allow: Permission


class _Limit(NamedTuple):
    """Permissions that a limit takes away."""

    rule: PermissionRule
    removed: Permission


def rights_in_workspace(policy: Policy, facts: MemberFacts, now_ms: int) -> Permission:
    """Return what a member may do in a workspace as a whole. now_ms: for time-outs."""
    if facts.user == policy.owner:
        return EVERYTHING
    rights = policy.everyone.permissions
    for role in _roles_of(policy, facts.roles):
        rights |= role.permissions
    if Permission.ADMINISTRATOR in rights:
        rights = EVERYTHING
    return rights & WHILE_TIMED_OUT if facts.timed_out_until_ms > now_ms else rights


def rights_in_channel(
    policy: Policy, facts: MemberFacts, channel: Channel, is_channel_member: bool, now_ms: int
) -> Permission:
    """Return what a member may do in a channel.

    Args:
        policy: The policy that the channel belongs to.
        facts: Facts that the policy accepts.
        channel: One of the policy's channels.
        is_channel_member: The member is a member of the channel; only for PRIVATE ones it matters.
        now_ms: The present time, for time-outs.
    """
    if facts.user == policy.owner:
        rights = EVERYTHING
    else:
        rights = _rights_of_roles(policy, facts.roles, channel)
        own = policy.overwrites_of(channel).users.get(facts.user)
        if own is not None and Permission.ADMINISTRATOR not in rights:
            rights = _apply(rights, _overwrite_rule(PermissionRule.MEMBER_OVERWRITE, None, own))
    for limit in _limits(policy, facts, channel, is_channel_member, now_ms):
        rights &= ~limit.removed
        if not rights:
            break
    return _with_implied_limits(rights)


def rights_in_category(policy: Policy, facts: MemberFacts, category: ChannelCategory, now_ms: int) -> Permission:
    """Return what a member may do in a PUBLIC channel that inherits the overwrites of a category."""
    inside = Channel(ConversationId(category.id), "", ChannelKind.PUBLIC, 0, 0, category=category.id)
    return rights_in_channel(policy, facts, inside, False, now_ms)


def explain(
    policy: Policy, facts: MemberFacts, channel: Channel, is_channel_member: bool, now_ms: int
) -> list[PermissionReason]:
    """Return why each permission is given or not in a channel, in the order of permissions."""
    rights, reasons = NOTHING, {p: PermissionReason(p, False, PermissionRule.DEFAULT) for p in Permission}
    for rule in _rules(policy, facts, channel):
        rights = _apply(rights, rule)
        for permission in rule.deny | rule.allow:
            reasons[permission] = PermissionReason(permission, permission in rule.allow, rule.rule, rule.role)
    for limit in _limits(policy, facts, channel, is_channel_member, now_ms):
        for permission in rights & limit.removed:
            reasons[permission] = PermissionReason(permission, False, limit.rule)
        rights &= ~limit.removed
    for limit in _implied_limits(rights):
        for permission in rights & limit.removed:
            reasons[permission] = PermissionReason(permission, False, limit.rule)
        rights &= ~limit.removed
    return list(reasons.values())


def highest_position(policy: Policy, facts: MemberFacts) -> int:
    """Return the position of a member's highest role. Only members above it may change this member."""
    if facts.user == policy.owner:
        return OWNER_POSITION
    return max((role.position for role in _roles_of(policy, facts.roles)), default=0)


def changed_permissions(before: Overwrites, after: Overwrites) -> Permission:
    """Return all permissions that are allowed or denied differently than before."""
    one, other = _by_target(before), _by_target(after)
    changed = NOTHING
    for target in one.keys() | other.keys():
        old, new = one.get(target, _NO_OVERWRITE), other.get(target, _NO_OVERWRITE)
        changed |= (old.allow ^ new.allow) | (old.deny ^ new.deny)
    return changed


def _by_target(overwrites: Overwrites) -> dict[tuple[str, str], Overwrite]:
    roles = {("role", str(id)): overwrite for id, overwrite in overwrites.roles.items()}
    return roles | {("user", str(user)): overwrite for user, overwrite in overwrites.users.items()}


def _rules(policy: Policy, facts: MemberFacts, channel: Channel) -> Iterator[_Rule]:
    if facts.user == policy.owner:
        yield _Rule(PermissionRule.OWNER, None, NOTHING, EVERYTHING)
        return
    rules = _rules_of_roles(policy, facts.roles, channel)
    yield from rules
    own = policy.overwrites_of(channel).users.get(facts.user)
    if own is not None and not any(rule.rule is PermissionRule.ADMINISTRATOR for rule in rules):
        yield _overwrite_rule(PermissionRule.MEMBER_OVERWRITE, None, own)


def _rights_of_roles(policy: Policy, ids: frozenset[RoleId], channel: Channel) -> Permission:
    """Return the rights of all who have these roles, before the overwrite of the member and the limits."""
    key = (ids, policy.overwrite_place(channel))
    rights = policy.rights_of_roles.get(key)
    if rights is None:
        rights = NOTHING
        for rule in _rules_of_roles(policy, ids, channel):
            rights = _apply(rights, rule)
        if len(policy.rights_of_roles) >= _MAX_KEPT_RIGHTS:
            policy.rights_of_roles.clear()
        policy.rights_of_roles[key] = rights
    return rights


def _rules_of_roles(policy: Policy, ids: frozenset[RoleId], channel: Channel) -> list[_Rule]:
    roles = [policy.everyone, *_roles_of(policy, ids)]
    rules = [_Rule(PermissionRule.ROLE, role.id, NOTHING, role.permissions) for role in roles]
    administrators = [role for role in roles if Permission.ADMINISTRATOR in role.permissions]
    if administrators:
        rules.append(_Rule(PermissionRule.ADMINISTRATOR, administrators[-1].id, NOTHING, EVERYTHING))
        return rules
    overwrites = policy.overwrites_of(channel).roles
    first, *others = ((role.id, overwrites.get(role.id, _NO_OVERWRITE)) for role in roles)
    rules.append(_overwrite_rule(PermissionRule.EVERYONE_OVERWRITE, *first))
    # The denies of all roles first: an allow of one role wins over the deny of another, whatever their positions.
    rules += [_overwrite_rule(PermissionRule.ROLE_OVERWRITE, id, Overwrite(deny=o.deny)) for id, o in others]
    rules += [_overwrite_rule(PermissionRule.ROLE_OVERWRITE, id, Overwrite(allow=o.allow)) for id, o in others]
    return rules


def _roles_of(policy: Policy, ids: frozenset[RoleId]) -> Sequence[Role]:
    """Return the roles that exist, without the role of everyone, lowest first."""
    roles = [policy.roles[id] for id in ids if id in policy.roles and id != policy.everyone.id]
    return sorted(roles, key=lambda role: role.position)


def _overwrite_rule(rule: PermissionRule, role: RoleId | None, overwrite: Overwrite) -> _Rule:
    # No overwrite gives or takes away ADMINISTRATOR.
    return _Rule(rule, role, overwrite.deny & ~Permission.ADMINISTRATOR, overwrite.allow & ~Permission.ADMINISTRATOR)


def _apply(rights: Permission, rule: _Rule) -> Permission:
    return rights & ~rule.deny | rule.allow


def _limits(
    policy: Policy, facts: MemberFacts, channel: Channel, is_channel_member: bool, now_ms: int
) -> Iterator[_Limit]:
    if channel.kind is ChannelKind.PRIVATE and not is_channel_member:
        yield _Limit(PermissionRule.NOT_VISIBLE, EVERYTHING)
    if facts.timed_out_until_ms > now_ms and facts.user != policy.owner:
        yield _Limit(PermissionRule.TIMED_OUT, ~WHILE_TIMED_OUT)
    if channel.is_archived:
        yield _Limit(PermissionRule.ARCHIVED, WRITING)


def _implied_limits(rights: Permission) -> Iterator[_Limit]:
    """Yield the limits that follow from the absence of other permissions."""
    if Permission.VIEW_CHANNEL not in rights:
        yield _Limit(PermissionRule.NOT_VISIBLE, EVERYTHING)
    if Permission.SEND_MESSAGES not in rights:
        yield _Limit(PermissionRule.IMPLIED, NEEDS_SENDING)


def _with_implied_limits(rights: Permission) -> Permission:
    for limit in _implied_limits(rights):
        rights &= ~limit.removed
    return rights

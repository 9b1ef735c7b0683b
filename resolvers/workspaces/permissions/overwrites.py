"""Overwrites of permissions in channels and categories, and why a member has a permission in a channel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, InvalidInput, LimitReached
from resolvers.workspaces.access import no_permission
from resolvers.workspaces.audit_values import overwrite_values
from resolvers.workspaces.changes import change_as_member
from resolvers.workspaces.channel_decisions import no_category, no_channel
from resolvers.workspaces.permissions.roles import no_role, not_a_member
from store.audit.audit_note import AuditNote, notes_if_changed
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.base.workspace_ids import CategoryId, RoleId, WorkspaceId, workspace_of, workspace_of_channel
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, Overwrite, Overwrites, Policy
from store.workspaces.rights import PermissionReason, changed_permissions, explain, rights_in_category

MOST_OVERWRITES = 200
"""Overwrites of one channel or category."""

_NO_OVERWRITE = Overwrite()


@dataclass(frozen=True, slots=True)
class OverwriteTarget:
    """A place, and the role or user whose overwrite is set there. Exactly one of each pair has to be given."""

    channel: str | None = None
    category: str | None = None
    role: str | None = None
    user: str | None = None


async def set_overwrite(
    app: Confab, actor: UserId, target: OverwriteTarget, allow: Permission, deny: Permission
) -> Overwrites:
    """Set what a channel or category allows and denies to a role or a user. Two empty lists remove it.

    A channel that inherits the overwrites of its category gets a copy of them first, so that it stays as it is for all
    others. When its last overwrite is removed, it inherits again.

    Returns the overwrites of the place after the change. Raises InvalidInput, NotFound, NotAMember, Forbidden,
    LimitReached and RateLimited: then nothing was changed.
    """
    _check(target, allow, deny)
    overwrite = Overwrite(allow, deny)

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        rights, before = await _access_place(app, policy, facts, target)
        if Permission.MANAGE_ROLES not in rights:
            raise no_permission(Permission.MANAGE_ROLES)
        if target.role is not None and target.role not in policy.roles:
            raise no_role()
        after = _with_overwrite(before, target, overwrite)
        if target.user is not None and overwrite != _NO_OVERWRITE:
            member = await app.store.policies.find_member(policy.workspace, UserId(target.user), policy.version)
            if member is None:
                raise not_a_member()
        changed = _changed_policy(policy, target, after)
        if changed_permissions(before, _overwrites_of(changed, target)) & ~rights:
            raise Forbidden("you can only allow and deny permissions that you have there")
        if len(after) > MOST_OVERWRITES:
            raise LimitReached(f"a channel or category has at most {MOST_OVERWRITES} overwrites")
        return ProposedPolicyChange(changed, audit=_notes(actor, policy, target, before, after))

    field = "channelId" if target.channel is not None else "categoryId"
    policy = await change_as_member(app, actor, _workspace_of(target), decide, field)
    return _overwrites_of(policy, target)


def _notes(
    actor: UserId, policy: Policy, target: OverwriteTarget, before: Overwrites, after: Overwrites
) -> tuple[AuditNote, ...]:
    values = [overwrite_values(_overwrite_of(overwrites, target)) for overwrites in (before, after)]
    place = {"channelId": target.channel, "categoryId": target.category, "roleId": target.role}
    subject = {name: id for name, id in place.items() if id is not None}
    target_id = target.user or target.channel or target.category or ""
    notes = notes_if_changed(actor, "setPermissionOverwrite", policy.workspace, target_id, *values)
    return tuple(replace(note, after={**subject, **(note.after or {})}) for note in notes)


def _overwrite_of(overwrites: Overwrites, target: OverwriteTarget) -> Overwrite:
    if target.role is not None:
        return overwrites.roles.get(RoleId(target.role), _NO_OVERWRITE)
    return overwrites.users.get(UserId(target.user or ""), _NO_OVERWRITE)


async def explain_permissions(app: Confab, viewer: UserId, channel: str, user: str | None) -> list[PermissionReason]:
    """Return why a member has each permission in a channel, or does not.

    user: the member; None: the viewer. Raises NotFound, NotAMember and Forbidden.
    """
    if kind_of(channel) is not ConversationKind.CHANNEL:
        raise no_channel()
    wanted, target = ConversationId(channel), UserId(user) if user is not None else viewer
    workspace = workspace_of_channel(wanted)
    version = await app.store.policies.current_version(workspace)
    rights = await app.store.channel_rights.find(viewer, wanted, version or 0)
    if rights is None:
        raise no_channel()
    now_ms = app.store.clock.now_ms()
    if target == viewer:
        return explain(rights.policy, rights.facts, rights.channel, rights.member is not None, now_ms)
    if not rights.may(Permission.MANAGE_ROLES):
        raise no_permission(Permission.MANAGE_ROLES)
    facts = await app.store.policies.find_member(workspace, target, rights.policy.version)
    if facts is None:
        raise not_a_member()
    members = await app.store.channel_rights.members.find_many(rights.policy, [(wanted, target)])
    return explain(rights.policy, facts, rights.channel, (wanted, target) in members, now_ms)


def _check(target: OverwriteTarget, allow: Permission, deny: Permission) -> None:
    if (target.channel is None) == (target.category is None):
        raise InvalidInput("give either channelId or categoryId", field="channelId")
    if (target.role is None) == (target.user is None):
        raise InvalidInput("give either roleId or userId", field="roleId")
    for field, permissions in (("allow", allow), ("deny", deny)):
        if Permission.ADMINISTRATOR in permissions:
            raise InvalidInput("overwrites can't contain ADMINISTRATOR", field=field)
    if allow & deny:
        raise InvalidInput("a permission can't be both allowed and denied", field="deny")


def _workspace_of(target: OverwriteTarget) -> WorkspaceId:
    workspace = workspace_of(target.channel, "c") if target.channel is not None else None
    if target.category is not None:
        workspace = workspace_of(target.category, "k")
    if workspace is None:
        raise no_channel() if target.channel is not None else no_category()
    return workspace


async def _access_place(
    app: Confab, policy: Policy, actor: MemberFacts, target: OverwriteTarget
) -> tuple[Permission, Overwrites]:
    """Return the actor's rights in the channel or category, and the overwrites that apply there."""
    if target.channel is not None:
        rights = await app.store.channel_rights.judge(policy, actor, ConversationId(target.channel))
        if rights is None:
            raise no_channel()
        return rights.permissions, policy.overwrites_of(rights.channel)
    category = policy.categories.get(CategoryId(target.category or ""))
    if category is None:
        raise no_category()
    return rights_in_category(policy, actor, category, app.store.clock.now_ms()), category.overwrites


def _overwrites_of(policy: Policy, target: OverwriteTarget) -> Overwrites:
    if target.channel is not None:
        channel = policy.channels.get(ConversationId(target.channel))
        return policy.overwrites_of(channel) if channel is not None else Overwrites()
    category = policy.categories.get(CategoryId(target.category or ""))
    return category.overwrites if category is not None else Overwrites()


def _with_overwrite(before: Overwrites, target: OverwriteTarget, overwrite: Overwrite) -> Overwrites:
    roles, users = dict(before.roles), dict(before.users)
    if target.role is not None:
        roles[RoleId(target.role)] = overwrite
    if target.user is not None:
        users[UserId(target.user)] = overwrite
    return Overwrites(
        {id: o for id, o in roles.items() if o != _NO_OVERWRITE},
        {user: o for user, o in users.items() if o != _NO_OVERWRITE},
    )


def _changed_policy(policy: Policy, target: OverwriteTarget, after: Overwrites) -> Policy:
    if after == _overwrites_of(policy, target):
        return policy
    if target.channel is not None:
        channel = policy.channels[ConversationId(target.channel)]
        channel = replace(channel, overwrites=after, inherits_permissions=not len(after))
        return replace(policy, channels={**policy.channels, channel.id: channel})
    category = replace(policy.categories[CategoryId(target.category or "")], overwrites=after)
    return replace(policy, categories={**policy.categories, category.id: category})

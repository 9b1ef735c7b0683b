"""Roles: creating, changing, moving and deleting them, and giving them to members.

Hierarchy: a member changes roles below their own highest role only, and members whose highest role is below it. A role
never gets permissions from a member who lacks them. The owner is above all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, InvalidInput, LimitReached, NotAMember, NotFound
from resolvers.base.names import accept_name
from resolvers.workspaces.audit_values import role_values
from resolvers.workspaces.changes import change_as_member, require
from store.audit.audit_note import AuditNote, notes_if_changed
from store.base.ids import UserId
from store.base.workspace_ids import RoleId, WorkspaceId, role_id, workspace_of
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.permissions import NOTHING, Permission
from store.workspaces.policy import MemberFacts, Overwrite, Overwrites, Policy, Role
from store.workspaces.rights import highest_position, rights_in_workspace

MOST_ROLES = 250
"""Roles of a workspace, that of everyone included."""

MOST_ROLES_OF_MEMBER = 100
LONGEST_ROLE_NAME = 100

_COLOR = re.compile(r"#[0-9a-fA-F]{6}\Z")


@dataclass(frozen=True, slots=True)
class RoleUpdate:
    """Values for a role. None leaves a value as it is; of `color` only if `sets_color` is false."""

    name: str | None = None
    position: int | None = None
    color: str | None = None
    sets_color: bool = False
    permissions: Permission | None = None
    is_mentionable: bool | None = None
    is_hoisted: bool | None = None


async def create_role(app: Confab, actor: UserId, workspace: str, update: RoleUpdate) -> tuple[Policy, RoleId]:
    """Create a role, directly above that of everyone unless a position is given.

    Returns the policy after it, and the role. Raises InvalidInput, NotFound, Forbidden, LimitReached and RateLimited:
    then nothing was changed.
    """
    if update.name is None:
        raise InvalidInput("a role needs a name", field="name")
    update = _accept(update)
    created: list[RoleId] = []

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        require(app, policy, facts, Permission.MANAGE_ROLES)
        _check_granted(app, policy, facts, update.permissions or NOTHING)
        place = _check_place(policy, facts, update.position or 1, len(policy.roles))
        if len(policy.roles) >= MOST_ROLES:
            raise LimitReached(f"a workspace has at most {MOST_ROLES} roles")
        role = _changed(Role(role_id(policy.workspace, app.store.ids.next()), "", 0, NOTHING), update)
        created[:] = [role.id]
        earlier = by_position(policy.roles.values())
        roles = _numbered([*earlier[:place], role, *earlier[place:]])
        note = AuditNote(actor, "createRole", policy.workspace, role.id, after=role_values(roles[role.id]))
        return ProposedPolicyChange(replace(policy, roles=roles), audit=[note])

    policy = await change_as_member(app, actor, workspace, decide)
    return policy, created[0]


async def update_role(app: Confab, actor: UserId, role: str, update: RoleUpdate) -> tuple[Policy, RoleId]:
    """Change a role, and return the policy after it. Raises as `create_role`, except LimitReached."""
    update = _accept(update)

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        before = _access_role(app, policy, facts, role)
        is_everyone = before.id == policy.everyone.id
        if is_everyone and update.position is not None:
            raise InvalidInput("the role of everyone can't be moved", field="position")
        if is_everyone and update.is_mentionable:
            raise InvalidInput("the role of everyone is mentioned with mentionAll", field="isMentionable")
        if update.permissions is not None:
            _check_granted(app, policy, facts, update.permissions & ~before.permissions)
        after = _changed(before, update)
        roles = by_position(policy.roles.values())
        if update.position is None:
            roles[roles.index(before)] = after
        else:
            place = _check_place(policy, facts, update.position, len(roles) - 1)
            roles.remove(before)
            roles.insert(place, after)
        numbered = _numbered(roles)
        values = role_values(before), role_values(numbered[before.id])
        notes = notes_if_changed(actor, "updateRole", policy.workspace, before.id, *values)
        return ProposedPolicyChange(replace(policy, roles=numbered), audit=notes)

    policy = await change_as_member(app, actor, _workspace_of(role), decide, "roleId")
    return policy, RoleId(role)


async def delete_role(app: Confab, actor: UserId, role: str) -> None:
    """Delete a role, with its overwrites everywhere. Raises InvalidInput, NotFound, Forbidden and RateLimited."""

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        gone = _access_role(app, policy, facts, role)
        if gone.id == policy.everyone.id:
            raise InvalidInput("the role of everyone can't be deleted", field="roleId")
        after = replace(
            policy,
            roles=_numbered(other for other in by_position(policy.roles.values()) if other.id != gone.id),
            categories={
                id: replace(category, overwrites=_without(category.overwrites, gone.id))
                for id, category in policy.categories.items()
            },
            channels={
                id: replace(channel, overwrites=_without(channel.overwrites, gone.id))
                for id, channel in policy.channels.items()
            },
        )
        note = AuditNote(actor, "deleteRole", policy.workspace, gone.id, before=role_values(gone))
        return ProposedPolicyChange(after, audit=[note])

    await change_as_member(app, actor, _workspace_of(role), decide, "roleId")


async def set_member_roles(
    app: Confab, actor: UserId, workspace: str, user: str, role_ids: Sequence[str]
) -> MemberFacts:
    """Give a member exactly these roles. That of everyone may be among them; every member has it.

    Raises NotFound, NotAMember, Forbidden, LimitReached and RateLimited: then nothing was changed.
    """
    target, given = UserId(user), frozenset(map(RoleId, role_ids))

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        require(app, policy, facts, Permission.MANAGE_ROLES)
        member = await app.store.policies.find_member(policy.workspace, target, policy.version)
        if member is None:
            raise not_a_member()
        if not given <= policy.roles.keys():
            raise NotFound("there is no such role in the workspace", field="roleIds")
        wanted = given - {policy.everyone.id}
        if len(wanted) > MOST_ROLES_OF_MEMBER:
            raise LimitReached(f"a member has at most {MOST_ROLES_OF_MEMBER} roles", field="roleIds")
        if actor != policy.owner and highest_position(policy, member) >= highest_position(policy, facts):
            raise Forbidden("this needs a role above all roles of that member", field="userId")
        before = member.roles & policy.roles.keys()
        if wanted == before:
            return ProposedPolicyChange(policy)
        for id in wanted ^ before:
            _check_below(policy, facts, policy.roles[id], "roleIds")
        for id in wanted - before:
            _check_granted(app, policy, facts, policy.roles[id].permissions, "roleIds")
        values = {"roleIds": sorted(before)}, {"roleIds": sorted(wanted)}
        note = AuditNote(actor, "setMemberRoles", policy.workspace, target, *values)
        changed = MemberChange(member, replace(member, roles=wanted))
        return ProposedPolicyChange(policy, members=[changed], audit=[note])

    policy = await change_as_member(app, actor, workspace, decide)
    found = await app.store.policies.find_member(policy.workspace, target, policy.version)
    if found is None:
        raise not_a_member()
    return found


def by_position(roles: Iterable[Role]) -> list[Role]:
    """Return roles in order, lowest first. The index of a role in the list of all is its position."""
    return sorted(roles, key=lambda role: role.position)


def no_role() -> NotFound:
    """Return the error for a role that does not exist, or whose workspace the caller does not see."""
    return NotFound("there is no such role", field="roleId")


def not_a_member() -> NotAMember:
    """Return the error for a user who is not a member of the workspace."""
    return NotAMember("this user is not a member of the workspace", field="userId")


def _workspace_of(role: str) -> WorkspaceId:
    workspace = workspace_of(role, "r")
    if workspace is None:
        raise no_role()
    return workspace


def _access_role(app: Confab, policy: Policy, actor: MemberFacts, role: str) -> Role:
    """Return a role that a member may change."""
    require(app, policy, actor, Permission.MANAGE_ROLES)
    found = policy.roles.get(RoleId(role))
    if found is None:
        raise no_role()
    _check_below(policy, actor, found, "roleId")
    return found


def _accept(update: RoleUpdate) -> RoleUpdate:
    """Check values that need no policy, and return them in the form that is stored."""
    name, color = update.name, update.color
    if name is not None:
        name = accept_name(name, "name", LONGEST_ROLE_NAME)
    if color is not None:
        if not _COLOR.match(color):
            raise InvalidInput("color must have the form #rrggbb", field="color")
        color = color.lower()
    if update.position is not None and update.position < 1:
        raise InvalidInput("position must be at least 1; the role of everyone has 0", field="position")
    return replace(update, name=name, color=color)


def _changed(role: Role, update: RoleUpdate) -> Role:
    return replace(
        role,
        name=role.name if update.name is None else update.name,
        color=update.color if update.sets_color else role.color,
        permissions=role.permissions if update.permissions is None else update.permissions,
        is_mentionable=role.is_mentionable if update.is_mentionable is None else update.is_mentionable,
        is_hoisted=role.is_hoisted if update.is_hoisted is None else update.is_hoisted,
    )


def _check_below(policy: Policy, actor: MemberFacts, role: Role, field: str) -> None:
    if role.position >= highest_position(policy, actor):
        raise Forbidden("this needs a role above that one", field=field)


def _check_place(policy: Policy, actor: MemberFacts, position: int, last: int) -> int:
    """Return the index that a role gets, at most `last`. It has to be below the actor's highest role afterwards."""
    highest = highest_position(policy, actor)
    # A new role at the position of the actor's highest role moves that one up. A role that is moved does not.
    is_new = last == len(policy.roles)
    if position > (highest if is_new else highest - 1):
        raise Forbidden("roles are placed below your own highest role", field="position")
    return min(position, last)


def _check_granted(
    app: Confab, policy: Policy, actor: MemberFacts, granted: Permission, field: str = "permissions"
) -> None:
    if granted & ~rights_in_workspace(policy, actor, app.store.clock.now_ms()):
        raise Forbidden("you can only grant permissions that you have", field=field)


def _numbered(roles: Iterable[Role]) -> Mapping[RoleId, Role]:
    return {role.id: replace(role, position=position) for position, role in enumerate(roles)}


def _without(overwrites: Overwrites, role: RoleId) -> Overwrites:
    roles: dict[RoleId, Overwrite] = {id: overwrite for id, overwrite in overwrites.roles.items() if id != role}
    return replace(overwrites, roles=roles) if len(roles) < len(overwrites.roles) else overwrites

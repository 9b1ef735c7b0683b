"""GraphQL documents about roles and overwrites, and calls that use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pymongo import InsertOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import CategoryId, WorkspaceId, category_id, channel_id
from store.conversations.conversation import Member
from store.mongo.collections import CONVERSATIONS, MEMBERS, member_row_id
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.policy import Channel, ChannelCategory, ChannelKind, Policy
from tests.api.client import Api, Json

ROLE = "id name position color permissions permissionBits isMentionable isHoisted memberCount"
ROLES = f"query ($id: ID!) {{ workspace(id: $id) {{ roles {{ {ROLE} }} viewerPermissions }} }}"
CREATE_ROLE = f"mutation ($id: ID!, $input: RoleInput!) {{ createRole(workspaceId: $id, input: $input) {{ {ROLE} }} }}"
UPDATE_ROLE = f"mutation ($id: ID!, $input: RoleInput!) {{ updateRole(roleId: $id, input: $input) {{ {ROLE} }} }}"
DELETE_ROLE = "mutation ($id: ID!) { deleteRole(roleId: $id) }"
SET_ROLES = """mutation ($id: ID!, $user: ID!, $roles: [ID!]!) {
    setMemberRoles(workspaceId: $id, userId: $user, roleIds: $roles) { user { id } roles { id name } } }"""
OVERWRITE = "roleId userId allow deny"
SET_OVERWRITE = f"""mutation ($channel: ID, $category: ID, $role: ID, $user: ID,
        $allow: [Permission!]! = [], $deny: [Permission!]! = []) {{
    setPermissionOverwrite(channelId: $channel, categoryId: $category, roleId: $role, userId: $user, allow: $allow,
        deny: $deny) {{ {OVERWRITE} }} }}"""
EXPLAIN = """query ($channel: ID!, $user: ID) {
    explainPermissions(channelId: $channel, userId: $user) { permission allowed decidedBy roleId } }"""
MEMBER_ROLES = """query ($id: ID!) { workspace(id: $id) {
    viewer { roles { name } } members { edges { node { user { id } roles { name } } } } } }"""


async def create_role(api: Api, user: str, workspace: str, name: str, *permissions: str, **fields: Any) -> str:
    """Create a role with permissions, and return its id."""
    input_ = {"name": name, "permissions": list(permissions)} | fields
    role: str = (await api.data(user, CREATE_ROLE, id=workspace, input=input_))["createRole"]["id"]
    return role


async def set_roles(api: Api, user: str, workspace: str, member: str, *roles: str) -> list[str]:
    """Give a member exactly these roles, and return their names."""
    found = await api.data(user, SET_ROLES, id=workspace, user=member, roles=list(roles))
    return [role["name"] for role in found["setMemberRoles"]["roles"]]


async def roles_of(api: Api, user: str, workspace: str) -> list[Json]:
    """Return the roles of a workspace, highest first."""
    roles: list[Json] = (await api.data(user, ROLES, id=workspace))["workspace"]["roles"]
    return roles


async def role_names(api: Api, user: str, workspace: str) -> list[str]:
    """Return the names of the roles, highest first."""
    return [role["name"] for role in await roles_of(api, user, workspace)]


def everyone(workspace: str) -> str:
    """Return the role of everyone."""
    return f"r_{workspace[2:]}"


async def add_channel(
    api: Api,
    workspace: str,
    name: str = "general",
    kind: ChannelKind = ChannelKind.PUBLIC,
    category: str | None = None,
    members: Sequence[str] = (),
) -> str:
    """Store a channel, and return its id."""
    store = api.services.app.store
    channel = channel_id(WorkspaceId(workspace), store.ids.next())
    head = {"_id": channel, "k": "C", "s": 0, "n": 0, "at": 0, "w": 0}
    rows = [
        InsertOne(
            {"_id": member_row_id(channel, UserId(user))} | Member(UserId(user), "MEMBER", ((1, None),), 1).to_fields()
        )
        for user in members
    ]

    async def decide(policy: Policy) -> ProposedPolicyChange:
        settings = Channel(channel, name, kind, len(policy.channels), 1, category=CategoryId(category or "") or None)
        return ProposedPolicyChange(
            replace(policy, channels={**policy.channels, channel: settings}),
            writes=[(CONVERSATIONS, [InsertOne(head)]), (MEMBERS, rows)],
        )

    assert await store.policy_changes.change(WorkspaceId(workspace), decide) is not None
    return channel


async def add_category(api: Api, workspace: str, name: str = "trails") -> str:
    """Store a category, and return its id."""
    store = api.services.app.store
    category = category_id(WorkspaceId(workspace), store.ids.next())

    async def decide(policy: Policy) -> ProposedPolicyChange:
        added = ChannelCategory(category, name, len(policy.categories))
        return ProposedPolicyChange(replace(policy, categories={**policy.categories, category: added}))

    assert await store.policy_changes.change(WorkspaceId(workspace), decide) is not None
    return category


async def archive_channel(api: Api, channel: str) -> None:
    """Mark a channel as archived."""
    workspace = WorkspaceId(f"w_{channel[2:].partition('.')[0]}")

    async def decide(policy: Policy) -> ProposedPolicyChange:
        archived = replace(policy.channels[ConversationId(channel)], is_archived=True)
        return ProposedPolicyChange(replace(policy, channels={**policy.channels, archived.id: archived}))

    assert await api.services.app.store.policy_changes.change(workspace, decide) is not None


async def overwrite(api: Api, actor: str, **variables: Any) -> list[Json]:
    """Set an overwrite, and return all of the place."""
    found: list[Json] = (await api.data(actor, SET_OVERWRITE, **variables))["setPermissionOverwrite"]
    return found


async def permissions_in(api: Api, user: str, channel: str) -> set[str] | None:
    """Return what a user may do in a channel; None if they can't see it."""
    found = (await api.data(user, "query ($id: ID!) { channel(id: $id) { viewerPermissions } }", id=channel))["channel"]
    return set(found["viewerPermissions"]) if found is not None else None


async def explanation(api: Api, user: str, channel: str, of: str | None = None) -> dict[str, tuple[bool, str, Any]]:
    """Return the reason for each permission."""
    reasons = (await api.data(user, EXPLAIN, channel=channel, user=of))["explainPermissions"]
    return {r["permission"]: (r["allowed"], r["decidedBy"], r["roleId"]) for r in reasons}

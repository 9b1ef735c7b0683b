"""GraphQL documents about workspaces, and calls that use them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from resolvers.users.callers import CallerRole
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, role_id
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import Policy, Role
from tests.api.client import Api, Json, make_caller

MEMBER = "nickname joinedAt timedOutUntil user { id displayName }"
WORKSPACE = f"""id name domain iconUrl plan metadata isOpen owner {{ id }} memberCount createdAt
    viewerPermissions viewer {{ {MEMBER} }}"""
CREATE = f"mutation ($input: CreateWorkspaceInput!) {{ createWorkspace(input: $input) {{ {WORKSPACE} }} }}"
BY_ID = f"query ($id: ID!) {{ workspace(id: $id) {{ {WORKSPACE} }} }}"
MINE = """query ($first: Int, $after: String) { myWorkspaces(first: $first, after: $after) {
    edges { cursor node { id name } } pageInfo { hasNextPage hasPreviousPage endCursor } } }"""
OPEN = """query ($query: String, $first: Int, $after: String) {
    openWorkspaces(query: $query, first: $first, after: $after) {
    edges { cursor node { id name memberCount } } pageInfo { hasNextPage endCursor } } }"""
JOIN = f"mutation ($id: ID, $code: String) {{ joinWorkspace(workspaceId: $id, code: $code) {{ {WORKSPACE} }} }}"
ADD = f"mutation ($id: ID!, $users: [ID!]!) {{ addToWorkspace(workspaceId: $id, userIds: $users) {{ {WORKSPACE} }} }}"
PREVIEW = "query ($code: String!) { invite(code: $code) { workspaceId name iconUrl memberCount expiresAt } }"
MEMBERS = f"""query ($id: ID!, $first: Int = 100, $after: String, $query: String, $role: ID, $online: Boolean) {{
    workspace(id: $id) {{ members(first: $first, after: $after, query: $query, roleId: $role, online: $online) {{
        edges {{ cursor node {{ {MEMBER} }} }} pageInfo {{ hasNextPage hasPreviousPage endCursor }} }} }} }}"""

SERVICE = make_caller("service", CallerRole.SERVICE)


async def create_workspace(api: Api, owner: str, name: str = "Space", **fields: Any) -> str:
    """Create a workspace, and return its id."""
    created = await api.data(owner, CREATE, input={"name": name} | fields)
    workspace: str = created["createWorkspace"]["id"]
    return workspace


async def workspace_of(api: Api, user: str, workspace: str) -> Json | None:
    """Return a workspace as a user sees it."""
    found: Json | None = (await api.data(user, BY_ID, id=workspace))["workspace"]
    return found


async def own_workspace(api: Api, user: str, workspace: str) -> Json:
    """Return a workspace that a user sees."""
    found = await workspace_of(api, user, workspace)
    assert found is not None
    return found


async def add_members(api: Api, workspace: str, *users: str) -> Json:
    """Add users as a service does."""
    added: Json = (await api.data(SERVICE, ADD, id=workspace, users=list(users)))["addToWorkspace"]
    return added


async def list_members(api: Api, user: str, workspace: str, page: int = 100, **arguments: Any) -> list[Json]:
    """Return all members that a user sees, read in pages."""
    found: list[Json] = []
    after = None
    while True:
        answer = await api.data(user, MEMBERS, id=workspace, first=page, after=after, **arguments)
        connection = answer["workspace"]["members"]
        found += [edge["node"] for edge in connection["edges"]]
        after = connection["pageInfo"]["endCursor"]
        if not connection["pageInfo"]["hasNextPage"]:
            return found


async def member_ids(api: Api, user: str, workspace: str, page: int = 100, **arguments: Any) -> list[str]:
    """Return the ids of all members that a user sees."""
    return [member["user"]["id"] for member in await list_members(api, user, workspace, page, **arguments)]


async def my_workspaces(api: Api, user: str) -> list[str]:
    """Return the workspaces that a user is in."""
    return [edge["node"]["id"] for edge in (await api.data(user, MINE, first=100))["myWorkspaces"]["edges"]]


def stored_member_count(api: Api, workspace: str) -> int:
    """Return the number of rows of members."""
    return api.database["workspace_members"].count_documents({"_id": {"$gte": f"{workspace} ", "$lt": f"{workspace}!"}})


def expect_right_counts(api: Api, workspace: str) -> None:
    """Fail unless the member count is the number of rows of members, and so are the rows by user."""
    row = api.database["workspaces"].find_one({"_id": workspace})
    assert row is not None
    members = api.database["workspace_members"].find({"_id": {"$gte": f"{workspace} ", "$lt": f"{workspace}!"}})
    users = {member["_id"].partition(" ")[2] for member in members}
    assert row["mc"] == len(users)
    rows = {row["_id"] for row in api.database["workspaces_of"].find()}
    assert {row for row in rows if row.endswith(f" {workspace}")} == {f"{user} {workspace}" for user in users}
    for user in users:
        summary = api.database["workspaces_of"].find_one({"_id": f"{user} "})
        assert summary is not None and summary["n"] == len([row for row in rows if row.startswith(f"{user} w_")])


CREATE_INVITE = """mutation ($id: ID!, $expiresAt: DateTime, $maxUses: Int) {
    createInvite(workspaceId: $id, expiresAt: $expiresAt, maxUses: $maxUses) {
        code workspaceId expiresAt uses maxUses createdBy { id } } }"""
REVOKE_INVITE = "mutation ($code: String!) { revokeInvite(code: $code) }"


async def create_invite(api: Api, user: str, workspace: str, **fields: Any) -> str:
    """Create an invitation, and return its code."""
    code: str = (await api.data(user, CREATE_INVITE, id=workspace, **fields))["createInvite"]["code"]
    return code


async def preview(api: Api, user: str, code: str) -> Json | None:
    """Return what a code leads to."""
    found: Json | None = (await api.data(user, PREVIEW, code=code))["invite"]
    return found


UPDATE = f"""mutation ($id: ID!, $input: UpdateWorkspaceInput!) {{
    updateWorkspace(workspaceId: $id, input: $input) {{ {WORKSPACE} }} }}"""
TRANSFER = f"""mutation ($id: ID!, $user: ID!) {{
    transferWorkspace(workspaceId: $id, userId: $user) {{ {WORKSPACE} }} }}"""
DELETE = "mutation ($id: ID!) { deleteWorkspace(workspaceId: $id) }"
LEAVE = "mutation ($id: ID!) { leaveWorkspace(workspaceId: $id) }"
SET_NICKNAME = f"""mutation ($id: ID!, $user: ID, $nickname: String) {{
    setNickname(workspaceId: $id, userId: $user, nickname: $nickname) {{ {MEMBER} }} }}"""


async def give_role(api: Api, workspace: str, user: str, permissions: Permission, position: int = 1) -> None:
    """Give a member a role of their own with some permissions."""
    store = api.services.app.store
    wanted, member = WorkspaceId(workspace), UserId(user)
    role = Role(role_id(wanted, store.ids.next()), "role", position, permissions)

    async def decide(policy: Policy) -> ProposedPolicyChange:
        facts = await store.policies.find_member(wanted, member, policy.version)
        assert facts is not None
        change = MemberChange(facts, replace(facts, roles=facts.roles | {role.id}))
        return ProposedPolicyChange(replace(policy, roles={**policy.roles, role.id: role}), members=[change])

    assert await store.policy_changes.change(wanted, decide) is not None


async def nickname(api: Api, user: str, workspace: str, name: str | None, of: str | None = None) -> Json:
    """Change a nickname, and return the member."""
    member: Json = (await api.data(user, SET_NICKNAME, id=workspace, user=of, nickname=name))["setNickname"]
    return member

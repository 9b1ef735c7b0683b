"""GraphQL documents about channels, and a workspace made with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resolvers.users.callers import CallerRole
from tests.api.client import Api, Refusal, make_caller
from tests.api.session_calls import Json

CHANNEL = """
    id type title kind name topic metadata position isArchived isDefault inheritsPermissions historyVisibility
    slowModeSeconds viewerMayWriteAt messageCount workspace { id } category { id name position }
    lastMessage { seq content systemEvent { kind text actor { id } } }
"""
CREATE_WORKSPACE = "mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { id } }"
ADD = "mutation ($id: ID!, $users: [ID!]!) { addToWorkspace(workspaceId: $id, userIds: $users) { id } }"
CREATE = f"mutation ($input: CreateChannelInput!) {{ createChannel(input: $input) {{ {CHANNEL} }} }}"
UPDATE = f"""mutation ($id: ID!, $input: UpdateChannelInput!) {{
    updateChannel(channelId: $id, input: $input) {{ {CHANNEL} }} }}"""
ARCHIVE = f"""mutation ($id: ID!, $archived: Boolean! = true) {{
    archiveChannel(channelId: $id, archived: $archived) {{ {CHANNEL} }} }}"""
DELETE = "mutation ($id: ID!) { deleteChannel(channelId: $id) }"
CREATE_CATEGORY = """mutation ($id: ID!, $name: String!, $position: Int) {
    createCategory(workspaceId: $id, name: $name, position: $position) { id workspaceId name position } }"""
UPDATE_CATEGORY = """mutation ($id: ID!, $name: String, $position: Int) {
    updateCategory(categoryId: $id, name: $name, position: $position) { id name position } }"""
DELETE_CATEGORY = "mutation ($id: ID!) { deleteCategory(categoryId: $id) }"
FIND = f"query ($id: ID!) {{ channel(id: $id) {{ {CHANNEL} }} }}"
LIST = """query ($id: ID!, $first: Int = 100, $after: String) { workspace(id: $id) {
    categories { id name position }
    channels(first: $first, after: $after) {
        pageInfo { hasNextPage hasPreviousPage endCursor } edges { node { name position category { name } } } } } }"""


@dataclass(frozen=True)
class Made:
    """A workspace with its owner, a member, and a user outside."""

    api: Api
    id: str
    owner: str
    member: str
    outsider: str

    async def create(self, name: str = "general", **fields: Any) -> Json:
        """Create a channel as the owner."""
        answer = await self.api.data(self.owner, CREATE, input={"workspaceId": self.id, "name": name} | fields)
        channel: Json = answer["createChannel"]
        return channel

    async def refuse_create(self, user: str, name: str = "general", **fields: Any) -> Refusal:
        return await self.api.expect_refusal(user, CREATE, input={"workspaceId": self.id, "name": name} | fields)

    async def update(self, channel: str, **fields: Any) -> Json:
        """Change a channel as the owner."""
        changed: Json = (await self.api.data(self.owner, UPDATE, id=channel, input=fields))["updateChannel"]
        return changed

    async def archive(self, channel: str, archived: bool = True) -> Json:
        """Archive a channel as the owner, or reopen it."""
        changed: Json = (await self.api.data(self.owner, ARCHIVE, id=channel, archived=archived))["archiveChannel"]
        return changed

    async def create_category(self, name: str, position: int | None = None) -> Json:
        """Create a category as the owner."""
        answer = await self.api.data(self.owner, CREATE_CATEGORY, id=self.id, name=name, position=position)
        category: Json = answer["createCategory"]
        return category

    async def find(self, user: str, channel: str) -> Json | None:
        """Return a channel as a user sees it."""
        found: Json | None = (await self.api.data(user, FIND, id=channel))["channel"]
        return found

    async def names(self, user: str) -> list[str]:
        """Return the names of the channels that a user sees, in order."""
        listed = (await self.api.data(user, LIST, id=self.id))["workspace"]["channels"]["edges"]
        return [edge["node"]["name"] for edge in listed]


async def make_workspace(api: Api) -> Made:
    """Create a workspace with an owner and a member."""
    owner, member, outsider = await api.create_users("owner", "member", "outsider")
    workspace = (await api.data(owner, CREATE_WORKSPACE, input={"name": "Hikers"}))["createWorkspace"]["id"]
    await api.data(make_caller("service", CallerRole.SERVICE), ADD, id=workspace, users=[member])
    return Made(api, workspace, owner, member, outsider)

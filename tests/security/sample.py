"""A workspace with a user in every relation to it, next to a group with the same users."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from resolvers.users.callers import CallerRole
from tests.api.client import Api, make_caller
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.workspaces.role_calls import create_role

CREATE = "mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { id } }"
ADD = "mutation ($id: ID!, $users: [ID!]!) { addToWorkspace(workspaceId: $id, userIds: $users) { id } }"

CREATE_INVITE = "mutation ($id: ID!) { createInvite(workspaceId: $id) { code } }"
CREATE_CHANNEL = "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }"
CREATE_CATEGORY = "mutation ($id: ID!, $name: String!) { createCategory(workspaceId: $id, name: $name) { id } }"


@dataclass(frozen=True)
class AuthorisationSample(SampleGroup):
    """A group, and a workspace of the same owner. Former members of the group were never in the workspace."""

    workspace: str
    """A closed workspace."""
    open_workspace: str
    """An open workspace, of which the owner is the only member."""
    channel: str
    """A PUBLIC channel of the closed workspace."""
    secret: str
    """A PRIVATE channel there, of which only the owner is a member."""
    channel_category: str
    """A category of channels there."""
    code: str
    """An invitation to the closed workspace, created by the owner."""
    role: str
    """A role of the closed workspace that nobody has."""
    thread: str
    """The thread under `message`. It began after the former members had left."""


async def create_sample(api: Api, **group: Any) -> AuthorisationSample:
    """Create the group and the workspaces."""
    sample = await create_sample_group(api, **group)
    workspace, open_workspace = [
        (await api.data(sample.owner, CREATE, input={"name": name, "isOpen": name == "Open"}))["createWorkspace"]["id"]
        for name in ("Closed", "Open")
    ]
    members = [user for user in sample.members if user != sample.owner]
    await api.data(make_caller("service", CallerRole.SERVICE), ADD, id=workspace, users=members)
    invite = (await api.data(sample.owner, CREATE_INVITE, id=workspace))["createInvite"]
    channel, secret = [
        (await api.data(sample.owner, CREATE_CHANNEL, input={"workspaceId": workspace, "name": "c", "kind": kind}))[
            "createChannel"
        ]["id"]
        for kind in ("PUBLIC", "PRIVATE")
    ]
    category = (await api.data(sample.owner, CREATE_CATEGORY, id=workspace, name="c"))["createCategory"]["id"]
    ids = {"workspace": workspace, "open_workspace": open_workspace, "code": invite["code"]}
    ids |= {"channel": channel, "secret": secret, "channel_category": category}
    ids["role"] = await create_role(api, sample.owner, workspace, "role")
    ids["thread"] = (await api.send(sample.other_member, sample.message, "reply"))["message"]["conversationId"]
    return AuthorisationSample(**asdict(sample), **ids)

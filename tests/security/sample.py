"""A workspace with a user in every relation to it, next to a group with the same users."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from resolvers.users.callers import CallerRole
from tests.api.client import Api, make_caller
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.workspaces.role_calls import add_channel, create_role

CREATE = "mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { id } }"
ADD = "mutation ($id: ID!, $users: [ID!]!) { addToWorkspace(workspaceId: $id, userIds: $users) { id } }"

CREATE_INVITE = "mutation ($id: ID!) { createInvite(workspaceId: $id) { code } }"


@dataclass(frozen=True)
class AuthorisationSample(SampleGroup):
    """A group, and a workspace of the same owner. Former members of the group were never in the workspace."""

    workspace: str
    """A closed workspace."""
    open_workspace: str
    """An open workspace, of which the owner is the only member."""
    code: str
    """An invitation to the closed workspace, created by the owner."""
    role: str
    """A role of the closed workspace that nobody has."""
    channel: str
    """A PUBLIC channel of the closed workspace."""


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
    return AuthorisationSample(
        **asdict(sample),
        workspace=workspace,
        open_workspace=open_workspace,
        code=invite["code"],
        role=await create_role(api, sample.owner, workspace, "role"),
        channel=await add_channel(api, workspace),
    )

"""A workspace with people in every relation to a moderator."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.api.client import Api
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import add_channel, create_role, set_roles

MODERATION = ("KICK_MEMBERS", "BAN_MEMBERS", "TIMEOUT_MEMBERS", "MANAGE_MESSAGES")


@dataclass
class People:
    """A workspace whose moderator has a role above the helper's. `peer` has the moderator's role too."""

    workspace: str
    channel: str
    owner: str
    moderator: str
    peer: str
    helper: str
    member: str
    outsider: str


@pytest.fixture
async def people(api: Api) -> People:
    owner, moderator, peer, helper, member, outsider = await api.create_users(
        "owner", "moderator", "peer", "helper", "member", "outsider"
    )
    workspace = await create_workspace(api, owner, isOpen=True)
    await add_members(api, workspace, moderator, peer, helper, member)
    low = await create_role(api, owner, workspace, "helpers", *MODERATION)
    high = await create_role(api, owner, workspace, "moderators", *MODERATION, position=2)
    await set_roles(api, owner, workspace, helper, low)
    await set_roles(api, owner, workspace, moderator, high)
    await set_roles(api, owner, workspace, peer, high)
    channel = await add_channel(api, workspace)
    return People(workspace, channel, owner, moderator, peer, helper, member, outsider)

"""Creates the demo's workspace. Every step may be repeated without effect."""

from __future__ import annotations

import math

from resolvers.base.app import Confab
from resolvers.messages.given_embeds import NewEmbed
from resolvers.users.callers import Caller, CallerRole
from resolvers.webhooks.incoming.managing import create_incoming_webhook
from resolvers.webhooks.incoming.posted_message import PostedMessage
from resolvers.webhooks.incoming.posting import post_message
from resolvers.workspaces.categories import create_category
from resolvers.workspaces.channel_changes import archive_channel
from resolvers.workspaces.channel_creation import NewChannel, create_channel
from resolvers.workspaces.membership.joining import add_to_workspace
from resolvers.workspaces.permissions.roles import RoleUpdate, create_role, set_member_roles
from resolvers.workspaces.workspaces import NewWorkspace, create_workspace
from server.demo.workspace_world import (
    CHANNELS,
    DOMAIN,
    MEMBERS,
    OWNER,
    ROLES,
    STATION,
    STATION_REPORT,
    STATION_VALUES,
    TRIPS,
    WORKSPACE,
    DemoChannel,
)
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import CategoryId, WorkspaceId
from store.deployment.chat_imports import ImportStore
from store.workspaces.policy import Policy

_IMPORT_NAME = "demo"


async def create_demo_workspace(app: Confab) -> dict[str, ConversationId]:
    """Create the workspace with its members, roles and channels. Return the channels by name with `#`."""
    imports = ImportStore(app.store.mongo)
    workspace = await imports.find_workspace(_IMPORT_NAME)
    if workspace is None:
        new = NewWorkspace(WORKSPACE, DOMAIN, is_open=True, key="demo")
        workspace = await imports.insert_workspace(_IMPORT_NAME, (await create_workspace(app, OWNER, new)).info.id)
    await add_to_workspace(app, Caller(OWNER, CallerRole.SERVICE, math.inf), workspace, MEMBERS)
    await _create_roles(app, workspace)
    policy = await _policy(app, workspace)
    trips = next((category.id for category in policy.categories.values() if category.name == TRIPS), None)
    if trips is None:
        trips = (await create_category(app, OWNER, workspace, TRIPS, None))[1].id
    return {channel.where: await _create_channel(app, workspace, channel, trips) for channel in CHANNELS}


async def report_by_webhook(app: Confab, channel: ConversationId) -> None:
    """Send a message through an incoming webhook, unless that was done before."""
    existing = await app.store.webhooks.list_of_channel(channel)
    webhook = existing[0] if existing else await create_incoming_webhook(app, OWNER, channel, STATION, None)
    key = "demo webhook"
    if await app.store.messages.find_by_key(channel, UserId(webhook.id), key, 0) is None:
        embed = NewEmbed(title=STATION_REPORT, color="#1565c0", fields=STATION_VALUES)
        await post_message(app, webhook, PostedMessage("", embeds=(embed,), key=key))


async def archive_demo_channels(app: Confab, channels: dict[str, ConversationId]) -> None:
    """Archive channels that are full."""
    for channel in CHANNELS:
        if channel.is_archived:
            await archive_channel(app, OWNER, channels[channel.where], archived=True)


async def _create_roles(app: Confab, workspace: WorkspaceId) -> None:
    for position, role in enumerate(ROLES, 1):
        policy = await _policy(app, workspace)
        if not any(existing.name == role.name for existing in policy.roles.values()):
            update = RoleUpdate(
                role.name,
                position,
                role.color,
                sets_color=True,
                permissions=role.permissions,
                is_mentionable=True,
                is_hoisted=True,
            )
            await create_role(app, OWNER, workspace, update)
    policy = await _policy(app, workspace)
    for user in sorted({user for role in ROLES for user in role.members}):
        names = {role.name for role in ROLES if user in role.members}
        wanted = [role.id for role in policy.roles.values() if role.name in names]
        await set_member_roles(app, OWNER, workspace, user, wanted)


async def _create_channel(
    app: Confab, workspace: WorkspaceId, channel: DemoChannel, trips: CategoryId
) -> ConversationId:
    policy = await _policy(app, workspace)
    found = next((existing.id for existing in policy.channels.values() if existing.name == channel.name), None)
    if found is not None:
        return found
    new = NewChannel(
        workspace,
        channel.name,
        channel.kind,
        channel.topic,
        trips if channel.category is not None else None,
        is_default=channel.is_default,
        members=MEMBERS if channel.is_default else channel.members,
    )
    return (await create_channel(app, OWNER, new)).head.conversation


async def _policy(app: Confab, workspace: WorkspaceId) -> Policy:
    version = await app.store.policies.current_version(workspace)
    policy = await app.store.policies.find(workspace, version or 0)
    assert policy is not None
    return policy

"""Sections about workspaces: memberships, webhooks, and invitations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from resolvers.base.times import iso_text_or_none
from resolvers.export.section import Exported, Record
from store.base.workspace_ids import WorkspaceId
from store.webhooks.webhook import Webhook


async def list_workspaces(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the workspaces that the user is a member of, with roles, nickname and settings."""
    store, user = exported.app.store, exported.user
    joined = await store.user_workspaces.list_joined(user)
    settings = await store.user_workspaces.find_notifications(user, [each.workspace for each in joined])
    for workspace, joined_at_ms in joined:
        facts = await store.policies.find_member(workspace, user)
        policy = await store.policies.find(workspace)
        own = settings.get(workspace)
        yield [
            {
                "id": workspace,
                "joinedAt": iso_text_or_none(joined_at_ms),
                "isOwner": policy is not None and policy.owner == user,
                "roleIds": sorted(facts.roles) if facts is not None else [],
                "nickname": facts.nickname if facts is not None else None,
                "timedOutUntil": iso_text_or_none(facts.timed_out_until_ms or None) if facts is not None else None,
                "notificationLevel": own.level.value if own is not None and own.level is not None else None,
                "suppressEveryone": own.suppresses_everyone if own is not None else None,
            }
        ]


async def list_webhooks(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the webhooks that the user created, without the secrets and addresses that give access to them."""
    workspaces: list[WorkspaceId | None] = [*await exported.workspaces(), None]
    for workspace in workspaces:
        webhooks = await exported.app.store.webhooks.list_of_workspace(workspace)
        yield [_webhook_record(webhook) for webhook in webhooks if webhook.creator == exported.user]


def _webhook_record(webhook: Webhook) -> Record:
    return {
        "id": webhook.id,
        "kind": webhook.kind.value,
        "workspaceId": webhook.workspace,
        "channelIds": list(webhook.channels),
        "name": webhook.name,
        "avatarUrl": webhook.avatar_url,
        "url": webhook.url,
        "events": [event.value for event in webhook.events],
        "createdAt": iso_text_or_none(webhook.created_at_ms),
    }


async def list_invitations(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the invitations that the user created, without the codes, which admit everybody who has them."""
    for workspace in await exported.workspaces():
        invites = await exported.app.store.invites.list_created(exported.user, workspace)
        yield [
            {
                "workspaceId": workspace,
                "createdAt": iso_text_or_none(invite.created_at_ms),
                "expiresAt": iso_text_or_none(invite.expires_at_ms),
                "maxUses": invite.max_uses or None,
                "uses": invite.uses,
            }
            for invite in invites
        ]

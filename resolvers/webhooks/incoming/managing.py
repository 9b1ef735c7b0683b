"""Creates, lists, rotates and deletes incoming webhooks, for members with MANAGE_WEBHOOKS in the channel (ADR 91)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url
from resolvers.base.errors import Archived, LimitReached, NotFound
from resolvers.base.names import accept_name
from resolvers.base.rate_limits import check_rate
from resolvers.webhooks.audit_values import note_of_webhook, webhook_values
from resolvers.webhooks.webhook_access import no_webhook
from resolvers.workspaces.access import no_permission
from resolvers.workspaces.channel_decisions import change_channel
from store.base.ids import UserId
from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_rights import ChannelRights
from store.webhooks.webhook import MAX_INCOMING, Webhook, WebhookKind, webhook_id
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission

WEBHOOKS_PATH = "/webhooks"

_TOKEN_BYTES = 32
_MANAGE = Permission.MANAGE_WEBHOOKS


async def create_incoming_webhook(
    app: Confab, actor: UserId, channel: str, name: str, avatar_url: str | None
) -> Webhook:
    """Create an incoming webhook of a channel, with its user. Of concurrent calls, none exceeds the limit.

    Raises InvalidInput, NotFound, Forbidden, Archived, LimitReached, RateLimited: then nothing was changed.
    """
    name = accept_name(name, "name")
    check_avatar_url(avatar_url)
    store = app.store
    created: list[Webhook] = []

    async def decide(rights: ChannelRights) -> ProposedPolicyChange:
        channel = rights.channel.id
        if rights.channel.is_archived:
            raise Archived("this channel is archived: it does not change any more", field="channelId")
        if len(await store.webhooks.list_of_channel(channel)) >= MAX_INCOMING:
            raise LimitReached(f"a channel has at most {MAX_INCOMING} incoming webhooks", field="channelId")
        webhook = Webhook(
            webhook_id(store.ids.next()),
            WebhookKind.INCOMING,
            actor,
            store.clock.now_ms(),
            new_token(),
            workspace_of_channel(channel),
            (channel,),
            name,
            avatar_url,
        )
        created[:] = [webhook]
        # Written with the policy, so that creations and deletions in a workspace come one after the other.
        writes = store.incoming_webhooks.creation_writes(webhook)
        note = note_of_webhook("createIncomingWebhook", actor, webhook, after=webhook_values(webhook))
        return ProposedPolicyChange(rights.policy, writes=writes, audit=[note])

    await change_channel(app, actor, channel, _MANAGE, decide)
    return created[0]


async def delete_incoming_webhook(app: Confab, actor: UserId, webhook: Webhook) -> None:
    """Delete an incoming webhook. When this returns, no message of it gets a place any more.

    Raises NotFound, Forbidden, RateLimited.
    """
    channel = webhook.channels[0]

    async def decide(rights: ChannelRights) -> ProposedPolicyChange:
        found = await app.store.incoming_webhooks.find(webhook.id)
        if found is None:
            raise no_webhook()
        writes = app.store.incoming_webhooks.deletion_writes(found)
        note = note_of_webhook("deleteWebhook", actor, found, before=webhook_values(found))
        return ProposedPolicyChange(rights.policy, writes=writes, fenced=frozenset((channel,)), audit=[note])

    try:
        await change_channel(app, actor, channel, _MANAGE, decide)
    except NotFound as error:
        # It must not name the channel, which the actor may not see.
        raise no_webhook() from error


async def rotate_incoming_webhook(app: Confab, actor: UserId, webhook: Webhook) -> Webhook:
    """Give an incoming webhook a new address. The old one stays valid for 24 h, the one before it ends at once.

    Raises NotFound, Forbidden, RateLimited.
    """
    check_rate(app.store.rate_limits.workspace_changes, actor)
    rights = await app.store.channel_rights.find_present(actor, webhook.channels[0])
    if rights is None:
        raise no_webhook()
    if not rights.may(_MANAGE):
        raise no_permission(_MANAGE)
    rows = app.store.audit.entry_rows(note_of_webhook("rotateWebhookSecret", actor, webhook))
    rotated = await app.store.webhooks.rotate(webhook.id, new_token(), app.store.clock.now_ms(), rows)
    if rotated is None:
        raise no_webhook()
    return rotated


async def select_manageable(app: Confab, viewer: UserId, webhooks: Iterable[Webhook]) -> list[Webhook]:
    """Return the incoming ones of some webhooks whose channels the viewer sees, with MANAGE_WEBHOOKS there."""
    incoming = [webhook for webhook in webhooks if webhook.kind is WebhookKind.INCOMING]
    channels = {webhook.channels[0] for webhook in incoming}
    visible = await app.store.channel_rights.find_visible(viewer, channels) if channels else set()
    rights = await app.store.channel_rights.find_many(viewer, dict.fromkeys(visible, 0))
    return [webhook for webhook in incoming if (own := rights.get(webhook.channels[0])) and own.may(_MANAGE)]


def address_of(app: Confab, webhook: Webhook) -> str:
    """Return the address that an incoming webhook takes messages at. Everybody who has it can send."""
    return f"{app.public_url}{WEBHOOKS_PATH}/{webhook.id}/{webhook.secret}"


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(_TOKEN_BYTES)

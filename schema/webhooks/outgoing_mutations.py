"""Mutations of outgoing webhooks, and of webhooks of both kinds."""

from __future__ import annotations

import strawberry

from resolvers.webhooks import managing
from resolvers.webhooks.outgoing import managing as outgoing
from resolvers.webhooks.outgoing import redelivery
from schema.base.context import Info
from schema.base.scalars import DateTime
from schema.webhooks.webhook_types import WebhookNode, caller_of, webhook_node
from store.webhooks.webhook import WebhookEventType


@strawberry.type
class OutgoingWebhookMutations:
    @strawberry.mutation(
        description="Events to a public https address (INVALID_INPUT else; CONFAB_ALLOW_LOOPBACK lets development use "
        "loopback and http), as {type, timestamp, data}, signed as Standard Webhooks specifies (webhook-id, "
        "webhook-timestamp, webhook-signature v1). Delivered at least once, in order per conversation; webhook-id is "
        "the event's, so repetitions can be recognised. With workspaceId: MANAGE_WEBHOOKS, and its channels only (or "
        "channelIds). Without: role admin, everything in the deployment."
    )
    async def create_outgoing_webhook(
        self,
        info: Info,
        url: str,
        events: list[WebhookEventType],
        workspace_id: strawberry.ID | None = None,
        channel_ids: list[strawberry.ID] | None = None,
    ) -> WebhookNode:
        context = info.context
        webhook = await outgoing.create_webhook(context.app, caller_of(context), workspace_id, url, events, channel_ids)
        return webhook_node(webhook, url, shows_secret=True)

    @strawberry.mutation(description="The old secret signs as well for 24 h.")
    async def rotate_webhook_secret(self, info: Info, webhook_id: strawberry.ID) -> WebhookNode:
        context = info.context
        webhook = await managing.rotate_secret(context.app, caller_of(context), webhook_id)
        return webhook_node(webhook, managing.url_of(context.app, webhook), shows_secret=True)

    @strawberry.mutation
    async def delete_webhook(self, info: Info, webhook_id: strawberry.ID) -> bool:
        await managing.delete_webhook(info.context.app, caller_of(info.context), webhook_id)
        return True

    @strawberry.mutation(description="One delivery, or all failed ones since then, oldest first. Answers how many.")
    async def redeliver_webhook(
        self,
        info: Info,
        webhook_id: strawberry.ID,
        delivery_id: strawberry.ID | None = None,
        since: DateTime | None = None,
    ) -> int:
        context = info.context
        return await redelivery.redeliver(context.app, caller_of(context), webhook_id, delivery_id, since)

"""Mutations of incoming webhooks."""

from __future__ import annotations

import strawberry

from resolvers.webhooks.incoming.managing import address_of, create_incoming_webhook
from schema.base.context import Info
from schema.webhooks.webhook_types import WebhookNode, webhook_node


@strawberry.type
class IncomingWebhookMutations:
    @strawberry.mutation(
        description="url takes POST {content, threadOf, username, avatarUrl, embeds, metadata, idempotencyKey}. "
        "At most 15 per channel."
    )
    async def create_incoming_webhook(
        self, info: Info, channel_id: strawberry.ID, name: str, avatar_url: str | None = None
    ) -> WebhookNode:
        context = info.context
        webhook = await create_incoming_webhook(context.app, context.viewer, channel_id, name, avatar_url)
        return webhook_node(webhook, address_of(context.app, webhook))

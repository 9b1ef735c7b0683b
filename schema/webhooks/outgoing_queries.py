"""Queries for webhooks and their deliveries."""

from __future__ import annotations

import strawberry

from resolvers.webhooks import managing
from resolvers.webhooks.outgoing import redelivery
from schema.base.context import Info
from schema.base.list_sizes import holds
from schema.webhooks.webhook_types import (
    WebhookDeliveryConnection,
    WebhookNode,
    caller_of,
    delivery_connection,
    webhook_node,
)
from store.webhooks.webhook import MAX_OUTGOING


@strawberry.type
class WebhookQueries:
    @strawberry.field(
        description="MANAGE_WEBHOOKS of the workspace; without one: role admin, those of the whole deployment.",
        metadata=holds(MAX_OUTGOING),
    )
    async def webhooks(self, info: Info, workspace_id: strawberry.ID | None = None) -> list[WebhookNode]:
        context = info.context
        found = await managing.list_webhooks(context.app, caller_of(context), workspace_id)
        return [webhook_node(webhook, managing.url_of(context.app, webhook)) for webhook in found]

    @strawberry.field(description="Newest first, 30 days.")
    async def webhook_deliveries(
        self, info: Info, webhook_id: strawberry.ID, first: int | None = 50, after: str | None = None
    ) -> WebhookDeliveryConnection:
        context = info.context
        page = await redelivery.list_deliveries(context.app, caller_of(context), webhook_id, first, after)
        return delivery_connection(page)

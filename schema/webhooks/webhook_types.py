"""The GraphQL types of webhooks."""

from __future__ import annotations

import strawberry

from resolvers.base.pages import Edge, Page
from resolvers.users.callers import Caller
from resolvers.webhooks import managing
from schema.base.context import Context
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import DateTime
from schema.compiler import reads
from store.webhooks.event_rows import WebhookEvent
from store.webhooks.webhook import Webhook, WebhookEventType, WebhookKind, WebhookState

for _enum in (WebhookEventType, WebhookKind, WebhookState):
    strawberry.enum(_enum)


@strawberry.type(
    name="Webhook",
    description="secret: only in the answer to creating and rotating. PAUSED: after 5 days of failures, or at once "
    "after 410.",
)
class WebhookNode(Node):
    record: strawberry.Private[Webhook]
    url: str
    secret: str | None
    id: strawberry.ID = reads("record.id")
    kind: WebhookKind = reads("record.kind")
    name: str | None = reads("record.name")
    events: list[WebhookEventType] = reads("record.events")
    state: WebhookState = reads("record.state")
    failing_since: DateTime | None = reads("record.failing_since_ms")


def webhook_node(webhook: Webhook, url: str, *, shows_secret: bool = False) -> WebhookNode:
    """Return the GraphQL object of a webhook. url: see `url_of`. An incoming one has its secret in its url only."""
    has_secret = shows_secret and webhook.kind is WebhookKind.OUTGOING
    return WebhookNode(record=webhook, url=url, secret=webhook.secret if has_secret else None)


@strawberry.type(
    name="WebhookDelivery",
    description="An event of an outgoing webhook. eventId: its webhook-id. status: of the last answer; null: there was "
    "none.",
)
class WebhookDeliveryType:
    record: strawberry.Private[WebhookEvent]
    id: strawberry.ID = reads("record.delivery_id")
    event_id: strawberry.ID = reads("record.id")
    attempts: int = reads("record.attempts")
    status: int | None = reads("record.status")
    next_attempt_at: DateTime | None = reads("record.next_ms")
    delivered_at: DateTime | None = reads("record.delivered_ms")


@strawberry.type
class WebhookDeliveryEdge:
    edge: strawberry.Private[Edge[WebhookEvent]]
    node: WebhookDeliveryType
    cursor: str = reads("edge.cursor")


@strawberry.type
class WebhookDeliveryConnection:
    edges: list[WebhookDeliveryEdge]
    page_info: PageInfo


def delivery_connection(page: Page[WebhookEvent]) -> WebhookDeliveryConnection:
    """Return a page of deliveries as a Relay connection."""
    return WebhookDeliveryConnection(
        edges=[WebhookDeliveryEdge(edge=edge, node=WebhookDeliveryType(record=edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )


def caller_of(context: Context) -> Caller:
    """Return the authenticated caller: rights over webhooks depend on the role."""
    assert context.caller is not None
    return context.caller


async def find_webhook_node(context: Context, id: str) -> WebhookNode | None:
    """Return a webhook, or None if the caller may not manage it."""
    if context.caller is None:
        return None
    found = await managing.find_webhook(context.app, context.caller, id)
    return webhook_node(found, managing.url_of(context.app, found)) if found is not None else None

"""The GraphQL types of webhooks."""

from __future__ import annotations

import strawberry

from schema.base.nodes import Node
from schema.base.scalars import DateTime
from schema.compiler import reads
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
    """Return the GraphQL object of a webhook. url: for the caller, see `resolvers/webhooks/webhooks.py`."""
    return WebhookNode(record=webhook, url=url, secret=webhook.secret if shows_secret else None)

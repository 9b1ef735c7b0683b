"""Incoming webhooks: reads, and the writes that create and delete one (ADR 91).

These writes belong to a change of the workspace's policy, which decides and fences them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import DeleteOne, InsertOne, UpdateOne

from store.base.ids import ConversationId, UserId
from store.mongo.client import Document
from store.mongo.collections import USERS, WEBHOOK_COUNTS, WEBHOOKS
from store.users.user import User
from store.users.user_rows import profile_update
from store.webhooks.webhook import Webhook, WebhookId, WebhookKind
from store.webhooks.webhook_store import WebhookField, WebhookStore, count_update, row_of

Writes = Sequence[tuple[str, Sequence[InsertOne[Document] | UpdateOne | DeleteOne]]]
"""Collections and operations."""


class IncomingWebhooks:
    """Reads incoming webhooks, and prepares their writes."""

    def __init__(self, webhooks: WebhookStore, *, has_directory: bool) -> None:
        self._webhooks = webhooks
        self._has_directory = has_directory

    async def exists_in(self, webhook: UserId, channel: ConversationId) -> bool:
        """Return whether a channel has an incoming webhook. One round trip to MongoDB."""
        found = await self.find(webhook)
        return found is not None and channel in found.channels

    async def find(self, webhook: str) -> Webhook | None:
        """Return an incoming webhook. One round trip to MongoDB."""
        found = await self._webhooks.find(WebhookId(webhook))
        return found if found is not None and found.kind is WebhookKind.INCOMING else None

    def creation_writes(self, webhook: Webhook) -> Writes:
        """Return the writes of a new webhook and of its user, who is the sender of its messages."""
        user = User(UserId(webhook.id), webhook.name, webhook.avatar_url, is_bot=True)
        return [
            (WEBHOOKS, [InsertOne(row_of(webhook))]),
            (WEBHOOK_COUNTS, [count_update(webhook, 1)]),
            (USERS, [profile_update(user, has_directory=self._has_directory)]),
        ]

    def deletion_writes(self, webhook: Webhook) -> Writes:
        """Return the writes that delete a webhook. Its user stays: the sender of its messages."""
        row: dict[str, Any] = {WebhookField.ID: webhook.id}
        return [(WEBHOOKS, [DeleteOne(row)]), (WEBHOOK_COUNTS, [count_update(webhook, -1)])]

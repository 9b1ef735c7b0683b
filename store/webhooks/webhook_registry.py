"""The outgoing webhooks as one process knows them, in memory (ADR 90)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from store.base.ids import ConversationId, without_thread
from store.base.workspace_ids import WorkspaceId, is_in_workspace, workspace_of_channel
from store.webhooks.event_rows import GAP, NotedEvent
from store.webhooks.webhook import Webhook, WebhookEventType, WebhookId
from store.webhooks.webhook_store import WebhookStore

CLOCK_TOLERANCE_MS = 10_000
"""Largest difference between the clocks of two servers that loses no event of a new webhook."""


class WebhookRegistry:
    """All outgoing webhooks, PAUSED ones included. Their states and secrets may be out of date."""

    def __init__(self, webhooks: WebhookStore) -> None:
        """Start without webhooks: nothing is known yet."""
        self._store = webhooks
        self._lock = asyncio.Lock()
        self.version = -1
        self.webhooks: Mapping[WebhookId, Webhook] = {}
        self._by_owner: Mapping[WorkspaceId | None, Sequence[Webhook]] = MappingProxyType({})
        self._types: Mapping[WorkspaceId | None, Collection[str]] = MappingProxyType({})

    async def refresh(self) -> None:
        """Read the webhooks again if some were created or deleted. One or two round trips. Raises Unreachable."""
        # One at a time: a slower one would replace what a later one has read.
        async with self._lock:
            version = await self._store.find_version()
            if version != self.version:
                self._keep(await self._store.list_outgoing())
                self.version = version

    def _keep(self, webhooks: Sequence[Webhook]) -> None:
        by_owner: dict[WorkspaceId | None, list[Webhook]] = {}
        for webhook in webhooks:
            by_owner.setdefault(webhook.workspace, []).append(webhook)
        self.webhooks = {webhook.id: webhook for webhook in webhooks}
        self._by_owner = by_owner
        self._types = {
            owner: {kind.value for webhook in found for kind in webhook.events} for owner, found in by_owner.items()
        }

    @property
    def may_want_any(self) -> bool:
        """False if there is no outgoing webhook."""
        return self.version < 0 or bool(self.webhooks)

    def wants(self, type: WebhookEventType, conversation: str) -> bool:
        """Return whether a webhook may want events of a type in a conversation, or in a workspace as a whole."""
        if self.version < 0:
            return True
        if not self.webhooks:
            return False
        owner = _workspace_of(conversation)
        return type in self._types.get(None, ()) or (owner is not None and type in self._types.get(owner, ()))

    def list_for(self, event: NotedEvent, tolerance_ms: int = CLOCK_TOLERANCE_MS) -> list[WebhookId]:
        """Return the webhooks that an event is for. tolerance_ms: it may be older than a webhook by this time."""
        if event.type == GAP:
            return list(self.webhooks)
        owner = _workspace_of(event.conversation)
        candidates = [*self._by_owner.get(None, ()), *(self._by_owner.get(owner, ()) if owner is not None else ())]
        return [webhook.id for webhook in candidates if _covers(webhook, event, tolerance_ms)]


def _covers(webhook: Webhook, event: NotedEvent, tolerance_ms: int) -> bool:
    if event.type not in webhook.events or event.at_ms < webhook.created_at_ms - tolerance_ms:
        return False
    return not webhook.channels or without_thread(ConversationId(event.conversation)) in webhook.channels


def _workspace_of(conversation: str) -> WorkspaceId | None:
    """Return the workspace of a conversation, or the workspace itself; None: it is in none."""
    if conversation.startswith("w_"):
        return WorkspaceId(conversation)
    return workspace_of_channel(ConversationId(conversation)) if is_in_workspace(ConversationId(conversation)) else None

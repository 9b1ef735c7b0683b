"""Webhooks and the state of their deliveries. Neither secrets nor whole addresses are shown."""

from __future__ import annotations

from urllib.parse import urlsplit

from store.admin.source import AdminSource, NoSuchObject, View, seconds_of, time_text, without_empty
from store.webhooks.delivery_store import DueWebhook
from store.webhooks.event_rows import WebhookEvent
from store.webhooks.webhook import Webhook, WebhookKind, parse_webhook_id

_MOST_EVENTS = 100_000
_NEWEST_EVENTS = 10
_MOST_LINES = 20


async def view_webhooks(source: AdminSource) -> View:
    """Return all outgoing webhooks with what waits for each. Raises StoreError."""
    return {"webhooks": [await _view(source, each) for each in await source.store.webhooks.list_outgoing()]}


async def view_webhook(source: AdminSource, id: str) -> View:
    """Return one webhook of any kind, with its newest events. Raises NoSuchObject and StoreError."""
    webhook_id = parse_webhook_id(id)
    if webhook_id is None:
        raise NoSuchObject(f"{id!r} has not the form of a webhook id (h_…).")
    deliveries = source.store.webhook_deliveries
    webhook = await source.store.webhooks.find(webhook_id)
    if webhook is None:
        raise NoSuchObject(f"There is no webhook {id}.")
    view = await _view(source, webhook)
    if webhook.kind is WebhookKind.OUTGOING:
        now_ms = source.store.clock.now_ms()
        lines = await deliveries.list_due_lines(webhook.id, now_ms, _MOST_LINES, ())
        view["conversations_due"] = [
            {"conversation": line.conversation or "all", "failed_attempts": line.failures} for line in lines
        ]
        newest = await deliveries.list_newest(webhook.id, None, _NEWEST_EVENTS)
        view["newest_events"] = list(map(_view_event, newest))
    return view


async def _view(source: AdminSource, webhook: Webhook) -> View:
    view = without_empty(
        webhook=webhook.id,
        kind=webhook.kind.value,
        workspace=webhook.workspace or ("the deployment" if webhook.kind is WebhookKind.OUTGOING else None),
        channels=list(webhook.channels),
        name=webhook.name,
        creator=webhook.creator,
        created_at=time_text(webhook.created_at_ms),
        site=_site_of(webhook.url) if webhook.url is not None else None,
        events=[each.value for each in webhook.events],
    )
    if webhook.kind is WebhookKind.INCOMING:
        return view
    deliveries, now_ms = source.store.webhook_deliveries, source.store.clock.now_ms()
    state = await deliveries.find_state(webhook.id)
    waiting = await deliveries.measure([webhook.id], _MOST_EVENTS)
    view |= {
        "state": webhook.state.value,
        "failing_since": time_text(webhook.failing_since_ms),
        "pending_events": waiting.events,
        "oldest_pending_seconds": seconds_of(max(0, now_ms - waiting.oldest_ms)) if waiting.oldest_ms else None,
    }
    return view | (_view_state(state, now_ms) if state is not None else {})


def _view_state(state: DueWebhook, now_ms: int) -> View:
    return {
        "failed_attempts_since_success": state.failures,
        "nothing_is_sent_until": time_text(state.held_until_ms) if state.held_until_ms > now_ms else None,
    }


def _view_event(event: WebhookEvent) -> View:
    return without_empty(
        event=event.id,
        order=event.order,
        type=event.type,
        conversation=event.conversation,
        at=time_text(event.at_ms),
        state="pending" if event.is_pending else "delivered",
        attempts=event.attempts or None,
        status=event.status,
        next_attempt_at=time_text(event.next_ms),
        delivered_at=time_text(event.delivered_ms),
    )


def _site_of(url: str) -> str:
    """Return the address without what may be a secret: user, path and query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{parts.hostname}{port}"

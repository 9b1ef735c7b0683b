"""Lists the deliveries of outgoing webhooks, and makes them again."""

from __future__ import annotations

from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page, is_number
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.base.rate_limits import check_rate
from resolvers.base.times import iso_text
from resolvers.users.callers import Caller
from resolvers.webhooks.audit_values import note_of_webhook
from resolvers.webhooks.outgoing.managing import access_outgoing
from store.webhooks.event_rows import WebhookEvent
from store.webhooks.webhook import WebhookId, WebhookState
from subscriptions.delivery.webhooks.log_writer import NEW_EVENTS
from subscriptions.realtime.bus import ALL_SERVERS

_CURSOR = "wd"


async def list_deliveries(
    app: Confab, caller: Caller, id: str, first: int | None, after: str | None
) -> Page[WebhookEvent]:
    """Return a page of the events of a webhook, the newest first. Raises InvalidInput, NotFound and Forbidden."""
    size = check_page_size(first, "first")
    webhook = await access_outgoing(app, caller, id)
    before = _decode_position(after) if after is not None else None
    found = await app.store.webhook_deliveries.list_newest(webhook.id, before, size + 1)
    if webhook.state is WebhookState.PAUSED:
        # Nothing is tried before the webhook is resumed.
        found = [replace(event, next_ms=None) for event in found]
    edges = [Edge(event, (_CURSOR, event.order)) for event in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=before is not None)


async def redeliver(app: Confab, caller: Caller, id: str, delivery: str | None, since_ms: int | None) -> int:
    """Send one event again, or all that were not delivered since a time. Returns how many. A PAUSED webhook resumes.

    The order in each conversation stays: events from before that are not delivered either are sent first.

    Raises InvalidInput unless exactly one of `delivery` and `since_ms` is given, NotFound, Forbidden and RateLimited.
    """
    webhook = await access_outgoing(app, caller, id)
    if (delivery is None) == (since_ms is None):
        raise InvalidInput("give either deliveryId or since", field="deliveryId")
    check_rate(app.store.rate_limits.workspace_changes, caller.user_id)
    now_ms, deliveries = app.store.clock.now_ms(), app.store.webhook_deliveries
    event = await _access_delivery(app, webhook.id, delivery) if delivery is not None else None
    before = {"state": webhook.state.name}
    after = {"deliveryId": delivery} if delivery is not None else {"since": iso_text(since_ms or 0)}
    # Before the change: it consists of several writes, and each makes some deliveries due.
    await app.store.audit.record(note_of_webhook("redeliverWebhook", caller.user_id, webhook, before, after))
    if event is not None:
        await deliveries.repeat(event, now_ms)
        await deliveries.resume(webhook.id, None)
        count = 1
    else:
        assert since_ms is not None
        count = await deliveries.count_pending(webhook.id, since_ms)
        # The process that delivers moves the times of all lines: there may be many.
        await deliveries.resume(webhook.id, now_ms)
    app.bus.send_frames(NEW_EVENTS, {ALL_SERVERS: [webhook.id]})
    return count


async def _access_delivery(app: Confab, webhook: WebhookId, delivery: str) -> WebhookEvent:
    prefix, _, order = delivery.rpartition(".")
    event = None
    if prefix == webhook and is_number(order) and len(order) <= 15:
        event = await app.store.webhook_deliveries.find(webhook, int(order))
    if event is None:
        raise NotFound("there is no such delivery", field="deliveryId")
    return event


def _decode_position(after: str) -> int:
    parts = decode_page(_CURSOR, after, "after")
    if len(parts) != 1 or not is_number(parts[0]) or len(parts[0]) > 15:
        raise InvalidInput("after must be a cursor of this list", field="after")
    return int(parts[0])

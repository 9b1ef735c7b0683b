"""Creates, rotates and deletes outgoing webhooks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, LimitReached, NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.users.callers import Caller
from resolvers.web_requests.signatures import new_secret
from resolvers.webhooks.audit_values import note_of_webhook, webhook_values
from resolvers.webhooks.webhook_access import access_webhook, check_may_manage, no_webhook
from store.base.ids import ConversationId, UserId, kind_of
from store.base.workspace_ids import WorkspaceId, workspace_of
from store.webhooks.webhook import MAX_OUTGOING, Webhook, WebhookEventType, WebhookKind, webhook_id
from store.webhooks.webhook_store import TooManyWebhooks

MAX_URL = 2_048
MAX_CHANNELS = 100


async def create_webhook(
    app: Confab,
    caller: Caller,
    workspace: str | None,
    url: str,
    events: Sequence[WebhookEventType],
    channels: Sequence[str] | None,
) -> Webhook:
    """Create an outgoing webhook. When this returns, events are logged for it on all servers.

    Raises InvalidInput, Forbidden, NotFound, LimitReached and RateLimited: then nothing was stored.
    """
    owner = await check_may_manage(app, caller, workspace)
    wanted = _check_events(events)
    covered = await _check_channels(app, caller.user_id, owner, channels)
    check_rate(app.store.rate_limits.workspace_changes, caller.user_id)
    await _check_url(app, url)
    store = app.store
    webhook = Webhook(
        webhook_id(store.ids.next()),
        WebhookKind.OUTGOING,
        caller.user_id,
        store.clock.now_ms(),
        new_secret(),
        owner,
        covered,
        url=url,
        events=wanted,
    )
    try:
        note = note_of_webhook("createOutgoingWebhook", caller.user_id, webhook, after=webhook_values(webhook))
        await store.webhooks.insert(webhook, MAX_OUTGOING, store.audit.entry_rows(note))
    except TooManyWebhooks as error:
        place = "a workspace" if owner is not None else "the deployment"
        raise LimitReached(f"{place} has at most {MAX_OUTGOING} outgoing webhooks", field="workspaceId") from error
    await app.webhook_notes.announce()
    return webhook


async def rotate_secret(app: Confab, caller: Caller, id: str) -> Webhook:
    """Give an outgoing webhook a new secret. Events have signatures of both for 24 h. Raises NotFound and Forbidden."""
    webhook = await access_outgoing(app, caller, id)
    check_rate(app.store.rate_limits.workspace_changes, caller.user_id)
    rows = app.store.audit.entry_rows(note_of_webhook("rotateWebhookSecret", caller.user_id, webhook))
    rotated = await app.store.webhooks.rotate(webhook.id, new_secret(), app.store.clock.now_ms(), rows)
    if rotated is None:
        raise no_webhook()
    return rotated


async def delete_webhook(app: Confab, caller: Caller, id: str) -> None:
    """Delete an outgoing webhook. No attempt to deliver begins after this. Its events are removed in the background.

    Raises NotFound and Forbidden.
    """
    webhook = await access_outgoing(app, caller, id)
    check_rate(app.store.rate_limits.workspace_changes, caller.user_id)
    note = note_of_webhook("deleteWebhook", caller.user_id, webhook, before=webhook_values(webhook))
    if not await app.store.webhooks.delete(webhook, app.store.clock.now_ms(), app.store.audit.entry_rows(note)):
        raise no_webhook()
    await app.webhook_notes.announce()


async def access_outgoing(app: Confab, caller: Caller, id: str) -> Webhook:
    """Return an outgoing webhook that a caller may manage. Raises NotFound and Forbidden."""
    webhook = await access_webhook(app, caller, id)
    if webhook.kind is not WebhookKind.OUTGOING:
        raise no_webhook()
    return webhook


def _check_events(events: Sequence[WebhookEventType]) -> tuple[WebhookEventType, ...]:
    """Return the events that a webhook asks for, each once. Raises InvalidInput."""
    if not events:
        raise InvalidInput("name at least one kind of event", field="events")
    return tuple(dict.fromkeys(events))


async def _check_url(app: Confab, url: str) -> None:
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"url must have at most {MAX_URL} printable ASCII characters, without spaces", field="url")
    refusal = await app.find_refusal(url)
    if refusal is not None:
        raise InvalidInput(f"url must be a public https address: {refusal}", field="url")


async def _check_channels(
    app: Confab, user: UserId, owner: WorkspaceId | None, channels: Sequence[str] | None
) -> tuple[ConversationId, ...]:
    """Return the channels that a webhook is limited to, each once. Raises InvalidInput and NotFound."""
    if channels is None:
        return ()
    if owner is None:
        raise InvalidInput("channelIds needs a workspaceId", field="channelIds")
    wanted = tuple(dict.fromkeys(map(ConversationId, channels)))
    if not 1 <= len(wanted) <= MAX_CHANNELS:
        raise InvalidInput(f"name 1 to {MAX_CHANNELS} channels", field="channelIds")
    if not await _sees_all(app, user, owner, wanted):
        raise NotFound("there is no such channel in the workspace", field="channelIds")
    return wanted


async def _sees_all(app: Confab, user: UserId, owner: WorkspaceId, channels: Collection[ConversationId]) -> bool:
    if any(kind_of(channel) is None or workspace_of(channel, "c") != owner for channel in channels):
        return False
    version = await app.store.policies.current_version(owner)
    rights = await app.store.channel_rights.find_many(user, dict.fromkeys(channels, version or 0))
    return len(rights) == len(channels)

"""Webhooks of both kinds: listed, rotated and deleted by one set of operations (ADR 90, 91)."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.users.callers import Caller
from resolvers.webhooks import webhook_access
from resolvers.webhooks.incoming import managing as incoming
from resolvers.webhooks.outgoing import managing as outgoing
from store.webhooks.webhook import Webhook, WebhookKind, parse_webhook_id


async def list_webhooks(app: Confab, caller: Caller, workspace: str | None) -> list[Webhook]:
    """Return the webhooks of a workspace, the oldest first of each kind; None: of the deployment.

    Incoming ones only of channels where the caller may manage them. Raises NotFound and Forbidden.
    """
    owner = await webhook_access.check_may_manage(app, caller, workspace)
    found = await app.store.webhooks.list_of_workspace(owner)
    others = [webhook for webhook in found if webhook.kind is WebhookKind.OUTGOING]
    return [*await incoming.select_manageable(app, caller.user_id, found), *others]


async def rotate_secret(app: Confab, caller: Caller, id: str) -> Webhook:
    """Give a webhook a new secret. The old one stays valid for 24 h. Raises NotFound, Forbidden, RateLimited."""
    webhook = await _find_incoming(app, id)
    if webhook is not None:
        return await incoming.rotate_incoming_webhook(app, caller.user_id, webhook)
    return await outgoing.rotate_secret(app, caller, id)


async def delete_webhook(app: Confab, caller: Caller, id: str) -> None:
    """Delete a webhook. Nothing is sent through it after this. Raises NotFound, Forbidden, RateLimited."""
    webhook = await _find_incoming(app, id)
    if webhook is not None:
        await incoming.delete_incoming_webhook(app, caller.user_id, webhook)
    else:
        await outgoing.delete_webhook(app, caller, id)


async def find_webhook(app: Confab, caller: Caller, id: str) -> Webhook | None:
    """Return a webhook that a caller may manage, or None."""
    webhook = await _find_incoming(app, id)
    if webhook is None:
        return await webhook_access.find_webhook(app, caller, id)
    return next(iter(await incoming.select_manageable(app, caller.user_id, [webhook])), None)


def url_of(app: Confab, webhook: Webhook) -> str:
    """Return the address that a webhook takes messages at, or that its events are sent to."""
    return webhook.url or incoming.address_of(app, webhook)


async def _find_incoming(app: Confab, id: str) -> Webhook | None:
    parsed = parse_webhook_id(id)
    return await app.store.incoming_webhooks.find(parsed) if parsed is not None else None

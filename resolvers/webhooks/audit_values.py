"""Webhooks in the audit log. Their secrets and addresses, which contain secrets, are never in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.webhooks.webhook import Webhook


def note_of_webhook(
    action: str,
    user: UserId,
    webhook: Webhook,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> AuditNote:
    """Return the entry about a change of a webhook, for the log of its workspace or of the deployment."""
    return AuditNote(user, action, webhook.workspace, webhook.id, before, after)


def webhook_values(webhook: Webhook) -> dict[str, Any]:
    """Return the settings of a webhook that differ from its kind's defaults. Of its address only the host."""
    values = {
        "kind": webhook.kind.name,
        "name": webhook.name,
        "host": urlsplit(webhook.url).hostname if webhook.url is not None else None,
        "events": [kind.name for kind in webhook.events] or None,
        "channelIds": list(webhook.channels) or None,
    }
    return {name: value for name, value in values.items() if value is not None}

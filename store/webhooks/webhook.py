"""Webhooks of both kinds: addresses that take messages, and addresses that events are sent to (ADR 90)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId

WebhookId = NewType("WebhookId", str)
"""`h_<snowflake>`."""

MAX_OUTGOING = 100
"""Outgoing webhooks of a workspace, and those of the whole deployment."""

MAX_INCOMING = 15
"""Incoming webhooks of a channel."""

OLD_SECRET_MS = 24 * 3600 * 1000
"""Time for which the secret before the last rotation signs as well."""

_WEBHOOK = re.compile(r"h_(0|[1-9][0-9]{0,18})\Z")


class WebhookKind(StrEnum):
    """Direction of a webhook, seen from Confab."""

    INCOMING = "INCOMING"
    OUTGOING = "OUTGOING"


class WebhookState(StrEnum):
    """State of deliveries. Incoming webhooks are always ACTIVE."""

    ACTIVE = "ACTIVE"
    FAILING = "FAILING"
    PAUSED = "PAUSED"


class WebhookEventType(StrEnum):
    """Kinds of events that outgoing webhooks can ask for."""

    MESSAGE_CREATED = "MESSAGE_CREATED"
    MESSAGE_UPDATED = "MESSAGE_UPDATED"
    MESSAGE_RECALLED = "MESSAGE_RECALLED"
    REACTIONS_CHANGED = "REACTIONS_CHANGED"
    CHANNEL_CHANGED = "CHANNEL_CHANGED"
    GROUP_CHANGED = "GROUP_CHANGED"
    MEMBER_JOINED = "MEMBER_JOINED"
    MEMBER_LEFT = "MEMBER_LEFT"
    REPORT_OPENED = "REPORT_OPENED"
    USER_OFFLINE_MESSAGE = "USER_OFFLINE_MESSAGE"


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook.

    Attributes:
        id: Its id.
        kind: Its direction.
        creator: The user who created it. An outgoing webhook sends only what this user may read.
        created_at_ms: When it was created.
        secret: OUTGOING: the key of signatures, `whsec_<base64>`. INCOMING: the part of its address that authorises.
        workspace: Its workspace; None: the whole deployment.
        channels: INCOMING: the one channel that it sends to. OUTGOING: channels whose events are sent; empty: all.
        name: INCOMING: name of the author of its messages.
        avatar_url: INCOMING: picture of that author.
        url: OUTGOING: where events are sent.
        events: OUTGOING: kinds of events that are sent.
        old_secret: The secret before the last rotation.
        old_secret_until_ms: Until when it is valid.
        state: OUTGOING: state of deliveries.
        failing_since_ms: When the first delivery failed since the last success; None: the last one succeeded.
    """

    id: WebhookId
    kind: WebhookKind
    creator: UserId
    created_at_ms: int
    secret: str
    workspace: WorkspaceId | None = None
    channels: tuple[ConversationId, ...] = ()
    name: str | None = None
    avatar_url: str | None = None
    url: str | None = None
    events: tuple[WebhookEventType, ...] = ()
    old_secret: str | None = None
    old_secret_until_ms: int = 0
    state: WebhookState = WebhookState.ACTIVE
    failing_since_ms: int | None = None

    @property
    def owner(self) -> str:
        """The workspace, channel or deployment whose number of webhooks is limited."""
        if self.kind is WebhookKind.INCOMING:
            return self.channels[0]
        return self.workspace or "deployment"

    def secrets(self, now_ms: int) -> tuple[str, ...]:
        """Return the secrets that are valid at a time, the present one first."""
        if self.old_secret is not None and now_ms < self.old_secret_until_ms:
            return self.secret, self.old_secret
        return (self.secret,)


def webhook_id(snowflake: int) -> WebhookId:
    """Return the id of the webhook that was created with a snowflake."""
    return WebhookId(f"h_{snowflake}")


def parse_webhook_id(text: str) -> WebhookId | None:
    """Return the id if text has the form of one, else None."""
    return WebhookId(text) if _WEBHOOK.match(text) else None

"""Messages that come through incoming webhooks (ADR 91)."""

from __future__ import annotations

import hashlib
import hmac

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url, check_content, check_key
from resolvers.base.errors import Archived, NotFound
from resolvers.base.metadata import encode_metadata
from resolvers.base.names import accept_external_name
from resolvers.base.rate_limits import check_rate
from resolvers.messages.given_embeds import check_given_embeds
from resolvers.messages.new_messages import NewMessage, input_digest
from resolvers.messages.replying import Destination, find_thread_in_channel
from resolvers.messages.sending import SendResult, first_embeds, send_once
from resolvers.webhooks.incoming.posted_message import PostedMessage
from store.base.ids import MessageId, UserId
from store.messages.message import Message, MessageKind
from store.webhooks.webhook import Webhook, WebhookKind, parse_webhook_id

_NO_SECRET = ("no webhook has this token",)


async def authenticate(app: Confab, webhook: str, token: str) -> Webhook:
    """Return the webhook of an address, and count the request. One round trip to MongoDB.

    Raises NotFound, after the same work for an unknown webhook as for a wrong token, and RateLimited.
    """
    id = parse_webhook_id(webhook)
    found = await app.store.webhooks.find(id) if id is not None else None
    is_incoming = found is not None and found.kind is WebhookKind.INCOMING
    secrets = found.secrets(app.store.clock.now_ms()) if found is not None and is_incoming else _NO_SECRET
    given = _hash(token)
    matches = [hmac.compare_digest(_hash(secret), given) for secret in secrets]
    if found is None or not is_incoming or not any(matches):
        raise _no_address()
    check_rate(app.store.rate_limits.webhook_posts, UserId(found.id))
    return found


async def post_message(app: Confab, webhook: Webhook, posted: PostedMessage) -> SendResult:
    """Send a message through a webhook. It is durable when this returns.

    It mentions nobody, whatever its text is. The same key with the same input returns the first message.

    Raises:
        InvalidInput, NotFound, Forbidden, IdempotencyConflict, Archived: Nothing was stored.
        Unavailable, Unreachable: The message may have been stored. Sending it again with the same key is safe.
    """
    sender, channel = UserId(webhook.id), webhook.channels[0]
    check_content(posted.content, may_be_empty=bool(posted.embeds))
    check_key(posted.key)
    name = accept_external_name(posted.username, "username") if posted.username is not None else None
    check_avatar_url(posted.avatar_url, "icon_url" if posted.is_slack else "avatarUrl")
    metadata = encode_metadata(posted.metadata)
    embeds = await check_given_embeds(app, sender, posted.embeds, by_service=True)
    new = NewMessage(
        to_user=None,
        conversation=channel if posted.thread_of is None else None,
        content=posted.content,
        key=posted.key,
        metadata=posted.metadata,
        thread_of=posted.thread_of,
        embeds=posted.embeds,
        author=(name, posted.avatar_url),
    )
    destination = Destination(channel)
    if posted.thread_of is not None:
        destination = await find_thread_in_channel(app, channel, posted.thread_of)
    conversation = destination.conversation
    # As in `send_message`: a message that waits for a primary may be sent when nobody wants it any more.
    app.store.mongo.require_primary()
    message = Message(
        id=MessageId(app.store.ids.next()),
        conversation=conversation,
        sender=sender,
        kind=MessageKind.TEXT,
        text=new.content,
        key=new.key,
        digest=input_digest(conversation, new, (), metadata) if new.key else None,
        metadata=metadata,
        embeds=first_embeds(app, conversation, new, embeds),
        author=new.author,
    )
    try:
        return await send_once(app, message, new, destination, rate=None)
    except Archived as error:
        # No field of the body is at fault.
        raise Archived(error.message) from error
    except NotFound as error:
        if error.field == "threadOf":
            raise
        # The webhook or its channel was deleted meanwhile.
        raise _no_address() from error


def _hash(token: str) -> bytes:
    """Return a hash, so that comparing takes the same time for tokens of all lengths."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _no_address() -> NotFound:
    return NotFound("there is no webhook at this address")

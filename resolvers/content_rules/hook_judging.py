"""Asks the external hook about messages and edits, before anything is stored or locked."""

from __future__ import annotations

from typing import Any

import orjson

from resolvers.base.app import Confab
from resolvers.base.errors import A_MOMENT_MS, Rejected, Unavailable
from resolvers.content_rules.content_hook import HookAction
from store.base.ids import kind_of, message_id, without_thread
from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from store.content_rules.content_flag import HOOK, ContentFlag
from store.messages.message import Message


async def ask_hook(app: Confab, message: Message, *, is_edit: bool = False) -> Message:
    """Return a message as the hook allows it: flagged or not. No call if no hook is set up, or for SYSTEM messages.

    message: A new one, or one with the text that it is edited to.

    Raises Rejected, and Unavailable if the hook does not answer and fails closed.
    """
    hook = app.content_hook
    if hook is None or not message.kind.countable:
        return message
    now_ms = app.store.clock.now_ms()
    call = f"{message.public_id}.{message.edits + 1}" if is_edit else message.public_id
    action = await hook.ask(call, now_ms // 1000, orjson.dumps(_request(message, is_edit=is_edit)))
    if action is HookAction.BLOCK:
        raise Rejected("this content is not allowed here; change it", field="content")
    if action is None and not hook.options.fails_open:
        raise Unavailable("the content can't be checked at the moment; try again", retry_after_ms=A_MOMENT_MS)
    if action is not HookAction.FLAG:
        return message
    order = app.store.ids.next() if is_edit else message.id
    return message._replace(flag=ContentFlag(hook.options.reporter, HOOK, order))


def _request(message: Message, *, is_edit: bool) -> dict[str, Any]:
    kind = kind_of(message.conversation)
    conversation = message.conversation
    return {
        "type": "CONTENT_CHECK",
        "data": {
            "messageId": message.public_id,
            "conversationId": conversation,
            "conversationType": kind.name if kind is not None else None,
            "parentConversationId": parent if (parent := without_thread(conversation)) != conversation else None,
            "workspaceId": workspace_of_channel(conversation) if is_in_workspace(conversation) else None,
            "senderId": message.sender,
            "isFromWebhook": message.is_from_webhook,
            "isEdit": is_edit,
            "contentType": message.kind.name,
            "content": message.text,
            "embeds": [
                {
                    "title": embed.title,
                    "description": embed.description,
                    "authorName": embed.author_name,
                    "url": embed.url,
                    "fields": [{"name": field.name, "value": field.value} for field in embed.fields],
                }
                for embed in message.embeds.given
            ],
            "mentionUserIds": list(message.shown_mentions),
            "replyToId": message_id(message.reply_to[0]) if message.reply_to is not None else None,
        },
    }

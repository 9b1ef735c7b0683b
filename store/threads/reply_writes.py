"""Updates of what a thread knows of the senders of replies. All may be repeated."""

from __future__ import annotations

from collections.abc import Iterable

from store.base.ids import parse_thread
from store.conversations.conversation_fields import MemberField
from store.messages.message import Message
from store.mongo.collections import member_row_id
from store.mongo.writes import Update


def is_reply(message: Message) -> bool:
    """Return whether a message counts as a reply in a thread."""
    return message.kind.countable and parse_thread(message.conversation) is not None


def reply_updates(messages: Iterable[Message]) -> list[Update]:
    """Return the updates for those of some messages that are replies. A sender's first reply creates the row before."""
    return [
        Update({"_id": member_row_id(m.conversation, m.sender)}, {"$max": {MemberField.LAST_REPLY: m.seq}})
        for m in messages
        if is_reply(m)
    ]

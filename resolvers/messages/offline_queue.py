"""The offline queue: what reached a user's conversations and none of their devices yet."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page, encode_page
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from store.base.ids import MessageId, UserId, message_id, parse_message_id
from store.messages.records import Message


async def list_offline(app: Confab, user: UserId, first: int | None, after: str | None) -> Page[Message]:
    """Messages of others in the user's valid sessions, muted ones too, that were not acknowledged as delivered, newest first by
    id. Never SYSTEM ones. Raises InvalidInput."""
    size = check_page_size(first, "first")
    before = _decode(user, after) if after is not None else None
    waiting = {
        session.conversation: (session.delivered_seq, session.write_seq)
        for session in await app.store.sessions.list_undelivered(user)
    }
    found = await app.store.messages.list_from_others(user, waiting, before, size + 1)
    edges = [Edge(message, encode_page("o", user, message_id(message.id))) for message in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=after is not None)


def _decode(user: UserId, after: str) -> MessageId:
    parts = decode_page("o", after, "after")
    found = parse_message_id(parts[1]) if len(parts) == 2 and parts[0] == user else None
    if found is None:
        raise InvalidInput("after is not a cursor of this list", field="after")
    return found

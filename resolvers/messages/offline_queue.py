"""The offline queue: messages that none of a user's devices has acknowledged yet."""

from __future__ import annotations

from collections.abc import Mapping

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, PageSizes
from store.base.ids import ConversationId, MessageId, UserId, message_id, parse_message_id, parse_thread
from store.messages.message import Message

_Range = tuple[int, int]
"""A seq to start after, and the last seq."""


async def list_offline(
    app: Confab, user: UserId, first: int | None, after: str | None, sizes: PageSizes
) -> Page[Message]:
    """Return a page of countable messages of others that were not acknowledged as delivered, newest ids first.

    Muted sessions are included, invalid ones are not. Raises InvalidInput.
    """
    size = sizes.check(first, "first")
    before = _decode_cursor(user, after) if after is not None else None
    waiting = {
        session.conversation: (session.delivered_seq, session.write_seq)
        for session in await app.store.sessions.list_undelivered(user)
    }
    found = await app.store.messages.list_from_others(user, await _without_expired(app, waiting), before, size + 1)
    edges = [Edge(message, ("o", user, message_id(message.id))) for message in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=after is not None)


async def _without_expired(app: Confab, waiting: Mapping[ConversationId, _Range]) -> Mapping[ConversationId, _Range]:
    """Return ranges of seqs without threads under expired messages. No round trip if there are no threads."""
    threads = {name: place for name in waiting if (place := parse_thread(name)) is not None}
    if not threads:
        return waiting
    heads = await app.store.conversations.find_many({place.parent for place in threads.values()})
    expired = {name for name, (parent, seq) in threads.items() if (head := heads.get(parent)) and seq <= head.floor_seq}
    return {name: each for name, each in waiting.items() if name not in expired}


def _decode_cursor(user: UserId, after: str) -> MessageId:
    parts = decode_page("o", after, "after")
    found = parse_message_id(parts[1]) if len(parts) == 2 and parts[0] == user else None
    if found is None:
        raise InvalidInput("after must be a cursor of this list", field="after")
    return found

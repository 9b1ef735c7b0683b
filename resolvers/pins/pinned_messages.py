"""The list of a conversation's pinned messages."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_number
from resolvers.base.pages import Edge, Page, PageSizes
from resolvers.conversations.access import access_conversation, no_conversation
from resolvers.conversations.visibility import is_visible
from store.base.ids import UserId
from store.messages.message import Message

_CURSOR = "p"


async def list_pinned(
    app: Confab, viewer: UserId, conversation: str, first: int | None, after: str | None, sizes: PageSizes
) -> Page[Message]:
    """Return a page of the pinned messages that the viewer may read, the latest pin first.

    Raises InvalidInput, and NotFound if the viewer may not see the conversation.
    """
    size = sizes.check(first, "first")
    before = decode_page_number(_CURSOR, after, "after") if after is not None else None
    access = await access_conversation(app, viewer, conversation)
    if access is None:
        raise no_conversation()
    name = access.head.conversation
    pins = (await app.store.pins.find(name)).items
    shown = [pin for pin in pins if is_visible(pin.seq, access.ranges) and (before is None or pin.number < before)]
    page = shown[:size]
    found = await app.store.messages.find_many([(name, pin.seq) for pin in page])
    messages = [(pin, found.get((name, pin.seq))) for pin in page]
    # A message may have been unpinned after the list was read.
    edges = [Edge(message, (_CURSOR, pin.number)) for pin, message in messages if message and message.is_pinned]
    return Page(edges, has_next=len(shown) > size, has_previous=after is not None)

"""Lists of users who reacted to a message."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_number
from resolvers.base.emoji import check_emoji
from resolvers.base.pages import Edge, Page, PageSizes
from resolvers.messages.history import find_message, no_message
from store.base.ids import UserId
from store.messages.copy_store import with_reactions_row
from store.users.user import User

_CURSOR = "rx"


async def list_reactors(
    app: Confab, viewer: UserId, message: str, emoji: str, first: int | None, after: str | None, sizes: PageSizes
) -> Page[User]:
    """Return a page of the users who reacted with an emoji, the first ones first.

    Empty for a recalled message. Raises InvalidInput, and NotFound if the viewer may not read the message.
    """
    size = sizes.check(first, "first")
    start = decode_page_number(_CURSOR, after, "after") if after is not None else 0
    checked = await check_emoji(emoji)
    found = await find_message(app, viewer, message)
    if found is None:
        raise no_message()
    if all(summary.emoji != checked for summary in found.reactions):
        return Page([], has_next=False, has_previous=after is not None)
    reactors = await app.store.reactions.list_reactors(with_reactions_row(found), checked, start, size + 1)
    users = await app.store.users.list_shown([reactor.user for reactor in reactors[:size]])
    edges = [Edge(user, (_CURSOR, reactor.order)) for user, reactor in zip(users, reactors, strict=False)]
    return Page(edges, has_next=len(reactors) > size, has_previous=after is not None)

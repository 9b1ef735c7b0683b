"""Reading messages: pages of history, single ones."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_number, encode_page
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.conversations.access import Access, access_conversation
from resolvers.conversations.visibility import clip, is_visible
from store.base.ids import UserId, parse_message_id
from store.messages.records import Message

DEFAULT_PAGE = 50


async def list_messages(
    app: Confab,
    viewer: UserId,
    conversation: str,
    *,
    first: int | None,
    after: str | None,
    last: int | None,
    before: str | None,
) -> Page[Message] | None:
    """A page of what the viewer may read, in order of seq. None where the conversation is not theirs to see."""
    if first is not None and last is not None:
        raise InvalidInput("give first or last, not both", field="last")
    backwards = first is None
    size = (
        check_page_size(DEFAULT_PAGE if last is None else last, "last")
        if backwards
        else check_page_size(first, "first")
    )
    low = decode_page_number("m", after, "after") + 1 if after is not None else 1
    high = decode_page_number("m", before, "before") - 1 if before is not None else None
    access = await access_conversation(app, viewer, conversation)
    if access is None:
        return None
    top = access.head.seq if high is None else min(high, access.head.seq)
    spans = clip(access.ranges, low, top)
    messages = await app.store.messages.list_between(access.head.conversation, spans, size + 1, newest_first=backwards)
    more = len(messages) > size
    messages = messages[:size]
    if backwards:
        messages.reverse()
    edges = [Edge(message, encode_page("m", message.seq)) for message in messages]
    if backwards:
        return Page(edges, has_next=before is not None, has_previous=more)
    return Page(edges, has_next=more, has_previous=after is not None)


async def find_message(app: Confab, viewer: UserId, message: str) -> Message | None:
    """A message by its id, if the viewer may read it."""
    wanted = parse_message_id(message)
    if wanted is None:
        return None
    found = (await app.store.messages.find_by_ids([wanted])).get(wanted)
    if found is None:
        return None
    access = await access_conversation(app, viewer, found.conversation)
    return found if access is not None and is_visible(found.seq, access.ranges) else None


def newest_shown(access: Access) -> Message | int | None:
    """The conversation's newest message if the viewer may read it, else the place of the newest that they may."""
    last = access.head.last
    if last is None or is_visible(last.seq, access.ranges):
        return last
    ends = [last_seq for _, last_seq in clip(access.ranges, 1, last.seq)]
    return max(ends) if ends else None


async def list_up_to(app: Confab, places: Sequence[tuple[Access, int]]) -> list[Message | None]:
    """For each conversation the newest message that the viewer may read, up to a place: one read for those places that hold one."""
    found = await app.store.messages.find_many([(access.head.conversation, place) for access, place in places])
    shown: list[Message | None] = []
    for access, place in places:
        message = found.get((access.head.conversation, place))
        if message is None:
            # A place that was never filled.
            spans = clip(access.ranges, 1, place)
            before = await app.store.messages.list_between(access.head.conversation, spans, 1, newest_first=True)
            message = before[0] if before else None
        shown.append(message)
    return shown

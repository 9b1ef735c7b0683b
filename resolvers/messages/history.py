"""History: pages of a conversation's messages, and single messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_number
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.base.pages import Edge, Page, PageSizes
from resolvers.conversations.access import NO_GROUP, Access, access_conversation, access_thread, may_be_in
from resolvers.conversations.channel_access import history_ranges
from resolvers.conversations.visibility import clip_ranges, is_visible
from store.base.ids import ConversationId, UserId, parse_message_id, parse_thread
from store.base.workspace_ids import is_in_workspace
from store.messages.message import Message

DEFAULT_PAGE = 50

_CURSOR = "m"


async def list_messages(
    app: Confab,
    viewer: UserId,
    conversation: str,
    *,
    first: int | None,
    after: str | None,
    last: int | None,
    before: str | None,
    around_seq: int | None = None,
    from_seq: int | None = None,
    sizes: PageSizes | None = None,
) -> Page[Message] | None:
    """Return a page of the messages that the viewer may read, in order of seq.

    None if the viewer may not see the conversation. Raises InvalidInput.
    """
    sizes = sizes or PageSizes()
    if around_seq is not None or from_seq is not None:
        position = _check_position(sizes, around_seq, from_seq, first, {"after": after, "before": before, "last": last})
        return await _list_at_position(app, viewer, conversation, position)
    if first is not None and last is not None:
        raise InvalidInput("give first or last, not both", field="last")
    backwards = first is None
    wanted, name = (DEFAULT_PAGE if last is None else last, "last") if backwards else (first, "first")
    size = sizes.check(wanted, name)
    low = decode_page_number(_CURSOR, after, "after") + 1 if after is not None else 1
    high = decode_page_number(_CURSOR, before, "before") - 1 if before is not None else None
    access = await access_conversation(app, viewer, conversation)
    if access is None:
        return None
    top = access.head.seq if high is None else min(high, access.head.seq)
    ranges = clip_ranges(access.ranges, low, top)
    messages = await app.store.newest_messages.list_between(access.head, ranges, size + 1, newest_first=backwards)
    has_more = len(messages) > size
    messages = messages[:size]
    if backwards:
        messages.reverse()
    edges = [Edge(message, (_CURSOR, message.seq)) for message in messages]
    if backwards:
        return Page(edges, has_next=before is not None, has_previous=has_more)
    return Page(edges, has_next=has_more, has_previous=after is not None)


class _PagePosition(NamedTuple):
    """A page that begins at a seq, or has it in the middle (is_middle)."""

    seq: int
    size: int
    is_middle: bool


def _check_position(
    sizes: PageSizes, around_seq: int | None, from_seq: int | None, first: int | None, others: Mapping[str, object]
) -> _PagePosition:
    """Return the position of the requested page. others: arguments that must not be given with it."""
    is_middle = around_seq is not None
    name, seq = ("aroundSeq", around_seq) if is_middle else ("fromSeq", from_seq)
    if is_middle:
        others = {"fromSeq": from_seq, **others}
    for other, value in others.items():
        if value is not None:
            raise InvalidInput(f"give {name} or {other}, not both", field=other)
    assert seq is not None
    if seq < 0:
        raise InvalidInput(f"{name} must not be negative", field=name)
    return _PagePosition(seq, sizes.check(DEFAULT_PAGE if first is None else first, "first"), is_middle)


async def _list_at_position(
    app: Confab, viewer: UserId, conversation: str, position: _PagePosition
) -> Page[Message] | None:
    """Return the page at a position. Near an end of the history, messages of the other side fill the page."""
    access = await access_conversation(app, viewer, conversation)
    if access is None:
        return None
    # One additional message of each side shows whether there are further pages.
    before, following = await app.store.messages.list_around(
        access.head.conversation,
        clip_ranges(access.ranges, 1, min(position.seq - 1, access.head.seq)),
        clip_ranges(access.ranges, position.seq, access.head.seq),
        (position.size + 1 if position.is_middle else 1, position.size + 1),
    )
    messages = [*before, *following]
    start = len(before)
    if position.is_middle:
        nearest = min(range(len(messages)), key=lambda i: abs(messages[i].seq - position.seq), default=0)
        start = max(0, min(nearest - position.size // 2, len(messages) - position.size))
    end = start + position.size
    edges = [Edge(message, (_CURSOR, message.seq)) for message in messages[start:end]]
    return Page(edges, has_next=end < len(messages), has_previous=start > 0)


async def find_message(app: Confab, viewer: UserId, message: str) -> Message | None:
    """Return a message by its id, if the viewer may read it."""
    found = await find_readable(app, viewer, message)
    return found[0] if found is not None else None


async def find_readable(app: Confab, viewer: UserId, message: str) -> tuple[Message, Access] | None:
    """Return a message by its id with the viewer's access to its conversation, if the viewer may read it."""
    found = await find_with_access(app, viewer, message)
    return found if found is not None and is_visible(found[0].seq, found[1].ranges) else None


def no_message() -> NotFound:
    """Return the error for a message that does not exist, or that the caller may not read."""
    return NotFound("there is no such message, or you can't see it", field="messageId")


async def find_revisable(app: Confab, user: UserId, message: str) -> tuple[Message, Access] | None:
    """Return a message by its id with the user's access to its conversation, if the user may read it.

    Senders also find their own messages in channels, and in threads there, where they lack READ_HISTORY. Of the copy of
    a reply, the reply is returned, because it is what changes. Who sees the copy need not see the thread.
    """
    wanted, access = await _find_candidate(app, user, message)
    if wanted is None:
        return None
    if wanted.sender == user and is_in_workspace(wanted.conversation):
        access = await _access_own(app, user, wanted.conversation, access)
    if access is None or not access.shows(wanted):
        return None
    if wanted.broadcast_of is None:
        return wanted, access
    reply = await app.delivery.find_reply(wanted)
    return (reply, access) if reply is not None else None


async def as_named(app: Confab, named: str, found: Message) -> Message:
    """Return a message after a call that named it: the copy of a reply, if the call named the copy."""
    if found.copy_id is None or parse_message_id(named) != found.copy_id:
        return found
    return await app.store.copies.find(found) or found


async def _access_own(app: Confab, user: UserId, conversation: ConversationId, access: Access | None) -> Access | None:
    """Return the access to a channel or thread where the user wrote, with what READ_HISTORY would let them read."""
    place = parse_thread(conversation)
    channel = access if access is None or place is None else access.parent
    if access is None and place is not None:
        channel = await access_conversation(app, user, place.parent)
    if channel is None or channel.rights is None:
        return None
    channel = channel._replace(ranges=await history_ranges(app.store, channel.rights, channel.head))
    if place is None:
        return channel
    head = access.head if access is not None else await app.store.conversations.find(conversation)
    return await access_thread(app.store, head, place.seq, channel) if head is not None else None


async def find_with_access(app: Confab, viewer: UserId, message: str) -> tuple[Message, Access] | None:
    """Return a message in a conversation that the viewer has access to, readable or not."""
    found, access = await _find_candidate(app, viewer, message)
    return (found, access) if found is not None and access is not None else None


async def _find_candidate(app: Confab, viewer: UserId, message: str) -> tuple[Message | None, Access | None]:
    """Return a message in a conversation that the viewer may be in, and their access to it."""
    wanted = parse_message_id(message)
    if wanted is None:
        return None, None
    found = (await app.store.messages.find_by_ids([wanted])).get(wanted)
    # A message that the viewer may not read takes the same reads as one that does not exist.
    if found is not None and not may_be_in(viewer, found.conversation):
        found = None
    access = await access_conversation(app, viewer, found.conversation if found is not None else NO_GROUP)
    return found, access


def newest_visible(access: Access) -> Message | int | None:
    """Return the conversation's newest message if the viewer may read it, else the newest seq that is readable."""
    newest = access.head.newest
    if newest is None or is_visible(newest.seq, access.ranges):
        return newest
    ends = [last for _, last in clip_ranges(access.ranges, 1, newest.seq)]
    return max(ends) if ends else None


async def list_newest_visible(app: Confab, places: Sequence[tuple[Access, int]]) -> list[Message | None]:
    """Return for each conversation the newest message up to a seq that the viewer may read.

    One round trip for all seqs that have a message, and one for each that has none.
    """
    found = await app.store.messages.find_many([(access.head.conversation, seq) for access, seq in places])
    newest: list[Message | None] = []
    for access, seq in places:
        message = found.get((access.head.conversation, seq))
        if message is None:
            # The seq was reserved for a message that was never stored.
            ranges = clip_ranges(access.ranges, 1, seq)
            earlier = await app.store.messages.list_between(access.head.conversation, ranges, 1, newest_first=True)
            message = earlier[0] if earlier else None
        newest.append(message)
    return newest

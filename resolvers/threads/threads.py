"""Threads as a viewer sees them, and the threads of a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page, is_number
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.conversations.access import Access, access_conversation, access_conversations, no_conversation
from resolvers.conversations.visibility import clip_ranges, is_visible, sees_whole_thread
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_thread, thread_id
from store.conversations.conversation import Head
from store.messages.message import Message
from store.store import Store
from store.threads.thread_lists import ThreadPosition

MAX_PARTICIPANTS = 50
"""Largest number of participants that are named."""

TITLE_LENGTH = 80
"""Longest title in characters."""

_NO_TITLE = "Thread"
"""The title of a thread whose parent message is recalled."""

_CURSOR = "th"
_BATCH = 500
"""Threads that are read at a time for a viewer who may not see all of them."""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """The part of a thread that changes with its replies, as far as a viewer may read them.

    Attributes:
        reply_count: Replies that are not recalled.
        participant_count: Users who have replied.
        participants: The latest of them, latest first.
        last_reply_at_ms: The time of the latest reply; None: no replies.
        follower_count: Users who follow.
    """

    reply_count: int
    participant_count: int
    participants: Sequence[UserId]
    last_reply_at_ms: int | None
    follower_count: int


NO_REPLIES = ThreadState(0, 0, (), None, 0)
"""The state of a thread of which nothing is readable."""


def sees_all_replies(access: Access) -> bool:
    """Return whether a viewer may read all replies in a thread."""
    return access.ranges == [(1, None)]


def whole_state(head: Head) -> ThreadState:
    """Return the state of a thread for viewers who may read all its replies."""
    thread, newest = head.thread, head.newest
    assert thread is not None and newest is not None
    last_reply_at_ms = newest.created_at_ms if newest.kind.countable else head.written_at_ms or None
    return ThreadState(
        head.reply_count, thread.participant_count, thread.participants, last_reply_at_ms, head.member_count
    )


async def read_state(store: Store, access: Access) -> ThreadState:
    """Return the state of a thread for a viewer who may read only a part of it: former members, for example.

    They see the followers that there were at the last reply that they may read. Two reads at the same time.
    """
    head = access.head
    ranges = clip_ranges(access.ranges, 1, head.seq)
    last = ranges[-1][1] if ranges else 0
    found, members = await asyncio.gather(
        store.thread_lists.count_replies(head.conversation, ranges), store.conversations.list_members(head.conversation)
    )
    followers = [m for m in members if is_visible(last, m.intervals)]
    return ThreadState(
        found.reply_count,
        len(found.participants),
        found.participants[:MAX_PARTICIPANTS],
        found.last_reply_at_ms,
        len(followers),
    )


def title_of(parent: Message | None) -> str:
    """Return the title of a thread: the start of its parent message's text, or its first file's name, on one line."""
    if parent is None or parent.text is None:
        return _NO_TITLE
    shown = parent.text or next((file.filename for file in parent.attachments), "")
    # Characters beyond the limit may be white space that is joined.
    text = " ".join(shown.split())
    return text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1].rstrip() + "…"


def thread_of(message: Message) -> ConversationId | None:
    """Return the thread that a message, or the reply that it shows, belongs to or may have.

    None if nobody can have replied.
    """
    if kind_of(message.conversation) is ConversationKind.THREAD:
        return message.conversation
    if message.broadcast_of is not None:
        return thread_id(message.conversation, message.broadcast_of.parent_seq)
    return thread_id(message.conversation, message.seq) if message.has_thread else None


async def find_thread(app: Confab, viewer: UserId, thread: str) -> Access | None:
    """Return a thread that the viewer may see."""
    return await access_conversation(app, viewer, thread) if kind_of(thread) is ConversationKind.THREAD else None


async def list_threads(
    app: Confab, viewer: UserId, conversation: str, first: int | None, after: str | None
) -> Page[Access]:
    """Return a page of the threads of a conversation that the viewer may see, latest reply first.

    A thread with a new reply moves to the beginning, and is not repeated on later pages. Raises InvalidInput, NotFound,
    and RateLimited if most threads are hidden and the viewer's work budget has too few units to look at them.
    """
    size = check_page_size(first, "first")
    position = _decode_position(after) if after is not None else None
    parent = await access_conversation(app, viewer, conversation)
    if parent is None:
        raise no_conversation()
    if parent.parent is not None:
        # Threads have no threads.
        return Page([], has_next=False, has_previous=after is not None)
    places = await _list_positions(app, viewer, parent, position, size + 1)
    found: list[tuple[ThreadPosition, Access]] = []
    while places and len(found) <= size:
        batch, places = places[: size + 1], places[size + 1 :]
        accesses = await access_conversations(app, viewer, [place.thread for place in batch])
        # The viewer may have left before the first reply.
        found += [(place, access) for place, access in zip(batch, accesses, strict=True) if access is not None]
    edges = [Edge(access, (_CURSOR, *place)) for place, access in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=after is not None)


async def _list_positions(
    app: Confab, viewer: UserId, parent: Access, after: ThreadPosition | None, limit: int
) -> list[ThreadPosition]:
    """Return threads under messages that the viewer may read, at least `limit` if there are as many.

    One round trip if they may read all messages. Viewers who were away for a time, or have left, do not learn when
    somebody replied meanwhile. Threads that may have such replies come last, those under newer messages first.
    """
    conversation = parent.head.conversation
    if parent.ranges == [(1, None)]:
        return await app.store.thread_lists.list_threads(conversation, after, limit)
    if len(parent.ranges) == 1 and parent.ranges[0][1] is None:
        return await _list_visible(app, viewer, parent, after, limit)
    member = parent.member if parent.rights is None else parent.rights.member
    joined_at_ms = member.joined_at_ms if member is not None and member.is_current else None
    found = []
    for place in await _list_visible(app, viewer, parent, None, None):
        is_after_joining = joined_at_ms is not None and place.written_at_ms > joined_at_ms
        is_exact = is_after_joining or sees_whole_thread(_seq_of(place), parent.ranges)
        found.append(place if is_exact else place._replace(written_at_ms=0))
    found.sort(key=_order, reverse=True)
    return [place for place in found if after is None or _order(place) < _order(after)]


async def _list_visible(
    app: Confab, viewer: UserId, parent: Access, after: ThreadPosition | None, limit: int | None
) -> list[ThreadPosition]:
    """Return threads under messages that the viewer may read, by their present positions. `limit`: None: all."""
    found: list[ThreadPosition] = []
    while limit is None or len(found) < limit:
        batch = await app.store.thread_lists.list_threads(parent.head.conversation, after, _BATCH)
        found += [place for place in batch if is_visible(_seq_of(place), parent.ranges)]
        if len(batch) < _BATCH:
            break
        app.work.take(viewer, _BATCH)
        after = batch[-1]
    return found[:limit]


def _order(place: ThreadPosition) -> tuple[int, int]:
    return place.written_at_ms, _seq_of(place)


def _seq_of(place: ThreadPosition) -> int:
    """Return the seq of the parent message; 0 if it is not a thread."""
    thread = parse_thread(place.thread)
    return thread.seq if thread is not None else 0


def _decode_position(after: str) -> ThreadPosition:
    parts = decode_page(_CURSOR, after, "after")
    if len(parts) != 2 or not is_number(parts[0]):
        raise InvalidInput("after must be a cursor of this list", field="after")
    return ThreadPosition(int(parts[0]), ConversationId(parts[1]))

"""Lists of sessions, their synchronisation, and totals. Changes are in `session_changes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.checks import check_category, check_sub_biz
from resolvers.base.cursors import decode_page, decode_sync, encode_sync, is_number
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, PageSizes
from store.base.ids import THREADS, ConversationId, UserId, kind_of
from store.sessions.loading.loaded_state import Snapshot
from store.sessions.session import Session
from store.sessions.session_store import Category, list_name
from subscriptions.realtime.mailboxes import Position

SYNC_MARGIN_MS = 5 * 60 * 1000
"""Time before a cursor from which changes are sent again, if the user's state was loaded again since.

A message gets its timestamp when its commit begins. It is applied when the commit has ended, by another server's clock.
"""

OLDEST_CURSOR_MS = 30 * 24 * 3600 * 1000
"""Greatest age of a usable cursor, if the user's state was loaded again since."""

_ALL = 1 << 53


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of the session list. `cursor`: the position to synchronise from after it."""

    page: Page[Session]
    total_unread: int
    cursor: str


@dataclass(frozen=True, slots=True)
class SessionChanges:
    """Sessions that changed since a cursor. `reset`: the cursor could not be used, and the client starts over."""

    sessions: Sequence[Session]
    cursor: Position
    has_more: bool
    total_unread: int
    reset: bool


def sync_cursor(app: Confab, user: UserId, cursor: Position) -> str:
    """Return the cursor text for a position."""
    return encode_sync(app.store.deployment.name, user, cursor)


async def list_sessions(
    app: Confab,
    user: UserId,
    first: int | None,
    after: str | None,
    sub_biz: str | None = None,
    category: str | None = None,
    sizes: PageSizes | None = None,
) -> SessionPage:
    """Return a page of valid sessions: pinned ones first by priority, then by writeTs, newest first.

    The list of a subBiz (THREADS: followed threads), of a category, or of both. Without them: the main list, where a
    gateway represents each subBiz. Raises InvalidInput.
    """
    size = (sizes or PageSizes()).check(first, "first")
    if sub_biz != THREADS:
        check_sub_biz(sub_biz)
    check_category(category)
    name, start = list_name(sub_biz, category), None
    if after is not None:
        parts = decode_page("s", after, "after")
        if len(parts) != 4 or parts[:2] != [user, name] or not is_number(parts[2]):
            raise InvalidInput("after must be a cursor of this list", field="after")
        start = (int(parts[2]), parts[3])
    snapshot = await app.store.sessions.list_page(user, name, size + 1, start)
    return page_from(app, user, name, size, snapshot, has_previous=after is not None)


def page_from(
    app: Confab, user: UserId, name: str, size: int, snapshot: Snapshot, *, has_previous: bool = False
) -> SessionPage:
    """Return a page of a list. snapshot: its sessions, and one more if there are more."""
    edges = [
        Edge(session, ("s", user, name, position, session.conversation))
        for session, position in zip(snapshot.sessions[:size], snapshot.positions, strict=False)
    ]
    page = Page(edges, has_next=len(snapshot.sessions) > size, has_previous=has_previous)
    return SessionPage(page, snapshot.total_unread, sync_cursor(app, user, _now(snapshot)))


async def list_categories(app: Confab, user: UserId) -> list[Category]:
    """Return the categories that have sessions."""
    return await app.store.sessions.list_categories(user)


async def find_session(app: Confab, user: UserId, conversation: str) -> Session | None:
    """Return the user's session of a conversation, even if it is deleted, or None."""
    if kind_of(conversation) is None:
        return None
    found = await app.store.sessions.find_each(user, (ConversationId(conversation),))
    session = next(iter(await app.store.channel_sessions.complete(user, found)), None)
    return session if session is not None and session.exists else None


async def total_unread(app: Confab, user: UserId) -> int:
    """Return the number of unread messages in valid sessions that are not muted."""
    return (await app.store.sessions.read_totals(user)).messages


async def sync_sessions(
    app: Confab, user: UserId, since: str | None, first: int | None, sizes: PageSizes
) -> SessionChanges:
    """Return sessions that changed since a cursor, oldest change first; without a usable cursor all valid ones.

    Raises InvalidInput.
    """
    size = sizes.check(first, "first")
    cursor = decode_sync(app.store.deployment.name, user, since) if since is not None else None
    return await changed_since(app, user, cursor, size, asked=since is not None)


async def changed_since(
    app: Confab, user: UserId, cursor: Position | None, size: int, *, asked: bool
) -> SessionChanges:
    """Like `sync_sessions`, for a decoded cursor. asked: the client gave a cursor, even if it could not be decoded."""
    after, began = (cursor.tick, cursor.began) if cursor else (0, _ALL)
    snapshot = await app.store.sessions.list_changed(user, after, size + 1, valid_until=began)
    if cursor is not None:
        if cursor.epoch != snapshot.epoch:
            if after < app.store.clock.now_ms() - OLDEST_CURSOR_MS:
                return await changed_since(app, user, None, size, asked=True)
            # The state was loaded again. Its ticks come from MongoDB, and are close to the earlier ones.
            after = max(0, min(after, snapshot.clock) - SYNC_MARGIN_MS)
            snapshot = await app.store.sessions.list_changed(user, after, size + 1, valid_until=0)
        elif after > snapshot.clock:
            return await changed_since(app, user, None, size, asked=True)
    listed = [session for session in snapshot.sessions[:size] if session.exists]
    sessions = await app.store.channel_sessions.complete(user, listed)
    has_more = len(snapshot.sessions) > size
    end = _now(snapshot)
    if has_more:
        began = snapshot.clock if cursor is None else began
        end = Position(snapshot.epoch, snapshot.sessions[size - 1].active_ts, began=began)
    reset = asked and cursor is None
    app.hub.resets += reset
    return SessionChanges(sessions, end, has_more, snapshot.total_unread, reset=reset)


def _now(snapshot: Snapshot) -> Position:
    return Position(snapshot.epoch, snapshot.clock)

"""Synchronisation of followed channels: those whose session has changed, and those in which something has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_sync
from resolvers.base.pages import PageSizes
from resolvers.conversations.access import Access, access_conversations
from resolvers.sessions.attention import Attention, attention_from
from resolvers.sessions.session_lists import OLDEST_CURSOR_MS, SYNC_MARGIN_MS
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.channels.channel_sessions import with_head
from store.clocks.shared_clocks import ChangesSince
from store.sessions.session import Session
from subscriptions.realtime.events.shared import RIGHTS_OBJECT
from subscriptions.realtime.mailboxes import Position

MARGIN_MS = 5_000
"""Larger than the differences between users' clocks, those of workspaces, and those of servers."""


_AGAIN = "*"
"""In a cursor: the client pages through all channels, and may have some that are not followed any more."""


@dataclass(frozen=True, slots=True)
class SyncedChannel:
    """A followed channel. `session`: of the user; None: it was not read."""

    access: Access
    session: Session | None


@dataclass(frozen=True, slots=True)
class ChannelChangesSince:
    """Channels that changed since a cursor. `reset`: the cursor could not be used, and the client starts over.

    `gone`: no longer followed, or no longer visible.
    """

    channels: Sequence[SyncedChannel]
    gone: Sequence[ConversationId]
    cursor: Position
    has_more: bool
    attention: Attention
    reset: bool


async def sync_channels(
    app: Confab, user: UserId, since: str | None, first: int | None, sizes: PageSizes
) -> ChannelChangesSince:
    """Return followed channels that changed since a cursor; without a usable cursor all of them.

    Two round trips to Redis if everything is known. Raises InvalidInput.
    """
    size = sizes.check(first, "first")
    cursor = decode_sync(app.store.deployment.name, user, since) if since is not None else None
    if cursor is not None and cursor.began and not cursor.channels_ms:
        # The client is paging through its sessions, and has no channel yet.
        return await _since(app, user, None, size, reset=False)
    return await _since(app, user, cursor, size, reset=since is not None and cursor is None)


async def _since(app: Confab, user: UserId, cursor: Position | None, size: int, *, reset: bool) -> ChannelChangesSince:
    began_ms = app.store.clock.now_ms()
    after = cursor.tick if cursor is not None else 0
    lists_all = cursor is None or cursor.began > 0
    since_ms = began_ms - MARGIN_MS
    if cursor is not None:
        since_ms = cursor.channels_ms or max(0, after - MARGIN_MS)
    done = (since_ms, cursor.channel) if cursor is not None and cursor.channel and not lists_all else None
    # Several channels may have changed at the same tick.
    since_ms -= done is not None
    own, workspaces = await app.store.channel_sync.read(user, after, size + 1, since_ms)
    snapshot = own.snapshot
    if cursor is not None and cursor.epoch != snapshot.epoch:
        # The state was loaded again. Its ticks come from MongoDB, and are close to the earlier ones.
        if lists_all or after < began_ms - OLDEST_CURSOR_MS:
            return await _since(app, user, None, size, reset=not lists_all or cursor.channel == _AGAIN)
        after = max(0, min(after, snapshot.clock) - SYNC_MARGIN_MS)
        own = await app.store.sessions.list_changed_channels(user, after, size + 1)
        snapshot = own.snapshot
    elif cursor is not None and after > snapshot.clock:
        return await _since(app, user, None, size, reset=True)
    changed = {session.conversation: session for session in snapshot.sessions}
    keys = {channel: session.active_ts for channel, session in changed.items()}
    began = cursor.began if cursor is not None and lists_all else snapshot.clock
    end = Position(snapshot.epoch, snapshot.clock, channels_ms=_end_of_pages(cursor, began_ms))
    if not lists_all:
        if any(_is_unclear(changes, since_ms) for changes in workspaces.values()):
            everything = Position(snapshot.epoch, 0, (), snapshot.clock, end.channels_ms, end.channels_ms, _AGAIN)
            return await _since(app, user, everything, size, reset=reset)
        for channel, tick in _happenings(own.followed, workspaces).items():
            if channel not in keys and (done is None or (tick, channel) > done):
                keys[channel] = tick
    is_new = lists_all and (cursor is None or cursor.channel != _AGAIN)
    # A client that begins does not have those that are not followed.
    due = [c for c in keys if not is_new or changed[c].follows or changed[c].active_ts > began]
    ordered = sorted(keys, key=lambda channel: (keys[channel], channel))
    page, has_more = ordered[:size], len(ordered) > size
    wanted = [channel for channel in page if channel in due]
    (channels, gone), attention = await asyncio.gather(
        _split(app, user, wanted, frozenset(own.followed), changed), attention_from(app, user, own.totals)
    )
    if has_more:
        last = keys[page[-1]]
        if lists_all:
            again = "" if is_new else _AGAIN
            end = Position(snapshot.epoch, last, (), began, end.channels_ms, end.channels_ms, again)
        else:
            # Later changes of sessions were not read.
            known = snapshot.sessions[-1].active_ts if len(snapshot.sessions) > size else snapshot.clock
            tick = last if page[-1] in changed else last - 1
            end = Position(snapshot.epoch, min(tick, known), (), 0, last, end.channels_ms, page[-1])
    app.hub.resets += reset
    return ChannelChangesSince(channels, gone, end, has_more, attention, reset)


def _end_of_pages(cursor: Position | None, began_ms: int) -> int:
    """Return the time up to which the client has what happened after the last page: when the first page was read."""
    if cursor is not None and cursor.channels_end_ms:
        return cursor.channels_end_ms
    return began_ms - MARGIN_MS


def _is_unclear(changes: ChangesSince, since_ms: int) -> bool:
    """Return whether any channel of a workspace may have changed, or may have become visible or hidden."""
    # A clock without an event since then is complete.
    is_complete = changes.is_complete or changes.reading.tick < since_ms
    return not is_complete or changes.own > 0 or RIGHTS_OBJECT in changes.changed


def _happenings(
    followed: Iterable[ConversationId], workspaces: Mapping[WorkspaceId, ChangesSince]
) -> dict[ConversationId, int]:
    """Return the followed channels in which something happened, with the tick of the newest."""
    found: dict[ConversationId, int] = {}
    for channel in followed:
        changes = workspaces[workspace_of_channel(channel)]
        tick = max(changes.recent.get(channel, 0), changes.changed.get(channel, 0))
        if tick:
            found[channel] = tick
    return found


async def _split(
    app: Confab,
    user: UserId,
    wanted: Sequence[ConversationId],
    followed: frozenset[ConversationId],
    changed: Mapping[ConversationId, Session],
) -> tuple[list[SyncedChannel], list[ConversationId]]:
    """Return those channels that the user follows and can see, and the others."""
    present = [channel for channel in wanted if channel in followed]
    accesses = await access_conversations(app, user, present) if present else []
    channels = [
        SyncedChannel(
            access,
            with_head(session, access.head) if (session := changed.get(access.head.conversation)) is not None else None,
        )
        for access in accesses
        if access is not None
    ]
    shown = {each.access.head.conversation for each in channels}
    return channels, [channel for channel in wanted if channel not in shown]

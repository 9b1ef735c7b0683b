"""Tells users' devices which channels they follow from now on, or no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from resolvers.base.app import Confab
from store.base.ids import ConversationId, UserId
from store.channels.channel_follows import ChangedFollow
from store.sessions.fields import SyncReason
from store.workspaces.policy import Follow
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.outgoing_events import OutgoingEvents

_AT_ONCE = 16


def follow_entry(channel: ConversationId) -> str:
    """Return the entry in the user's log."""
    return SessionChanged.log_entry(SyncReason.MEMBERSHIP, [channel])


async def publish_follows(app: Confab, user: UserId, changed: Sequence[ChangedFollow]) -> None:
    """Send each change to the user's devices. Of a channel that the user no longer sees, only the clock moves."""
    outgoing = OutgoingEvents()
    for channel, at, result in changed:
        if result.changed:
            shown = tuple(await app.store.channel_sessions.complete(user, result.sessions))
            event = SessionChanged(SyncReason.MEMBERSHIP, shown, result.total_unread) if shown else None
            outgoing.add(event, [(user, result)], stored_at={channel: at})
    app.bus.send(outgoing)


async def refresh_follows(app: Confab, follows: Iterable[Follow]) -> None:
    """Bring users' cached sessions up to date after a change of who follows channels. It may be repeated.

    Raises StoreError.
    """
    by_user: dict[UserId, list[ConversationId]] = {}
    for user, channel, _ in sorted(follows):
        by_user.setdefault(user, []).append(channel)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def refresh(user: UserId, channels: list[ConversationId]) -> None:
        async with limit:
            for channel in channels:
                found = await app.store.channel_follows.refresh(user, (channel,), follow_entry(channel))
                await publish_follows(app, user, found)

    await asyncio.gather(*(refresh(user, channels) for user, channels in by_user.items()))

"""Tells users' devices which channels they follow from now on, or no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from resolvers.base.app import Confab
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
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
    present = [each for each in changed if each.result.changed]
    sessions = [session for each in present for session in each.result.sessions]
    shown = {each.conversation: each for each in await app.store.channel_sessions.complete(user, sessions)}
    for channel, at, result in present:
        found = tuple(shown[each.conversation] for each in result.sessions if each.conversation in shown)
        event = SessionChanged(SyncReason.MEMBERSHIP, found, result.total_unread) if found else None
        outgoing.add(event, [(user, result)], stored_at={channel: at})
    app.bus.send(outgoing)
    app.stale_notifications.add_changed(user, SyncReason.MEMBERSHIP, [channel for channel, _, _ in present])


async def publish_all_follows(
    app: Confab, workspace: WorkspaceId, changed: Mapping[UserId, Sequence[ChangedFollow]]
) -> None:
    """Send changes in one workspace to the devices of each user."""
    present = [user for user, changes in changed.items() if any(each.result.changed for each in changes)]
    # One read for all, instead of one for each user.
    await app.store.policies.find_members(workspace, present)
    await asyncio.gather(*(publish_follows(app, user, changed[user]) for user in present))


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
            await publish_follows(app, user, await app.store.channel_follows.refresh(user, channels, follow_entry))

    await asyncio.gather(*(refresh(user, channels) for user, channels in by_user.items()))

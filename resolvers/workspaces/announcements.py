"""Announces changes of workspaces: as live events, and in channels as SYSTEM messages."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.sessions.follow_events import refresh_follows
from store.base.ids import ConversationId
from store.base.workspace_ids import WorkspaceId
from store.channels.announcements import NewFollowers
from store.workspaces.policy import Follow, PendingChange, Policy
from subscriptions.delivery.announcements.system_messages import send_announcement
from subscriptions.realtime.events.shared import WorkspaceUpdate
from subscriptions.realtime.nicknames import announce_nickname


async def announce_change(app: Confab, policy: Policy, change: PendingChange) -> None:
    """Announce a change that is durable, and in Redis. It may be called again for the same change.

    When this returns, no server shows events under the rights before the change. Raises StoreError: repeat it.
    """
    for user in sorted(change.renamed):
        # First, so that servers drop what they keep before a client can have a rev that includes the change.
        await announce_nickname(app.bus, policy.workspace, user)
    await app.shared_events.announce_policy(policy, change)
    await app.webhook_notes.note_change(policy, change)
    app.memberships.announce(sorted(change.members))
    if not change.only_renames:
        await app.voice.judge(policy.workspace, policy.version)
    await refresh_follows(app, change.follows)
    announcements = app.store.channel_announcements
    for channel, messages, followers in await announcements.list_waiting(policy.workspace, change.channels):
        if followers is not None:
            await _announce_followers(app, policy.workspace, channel, followers)
            await announcements.remove_followers(policy.workspace, channel)
        for message in messages:
            await send_announcement(app.store, app.delivery, message)
            await announcements.remove(policy.workspace, message)


async def _announce_followers(
    app: Confab, workspace: WorkspaceId, channel: ConversationId, followers: NewFollowers
) -> None:
    """Add the session of a new channel to its followers' cached states, and send the events to their devices."""
    # They may have stopped following it meanwhile.
    await refresh_follows(app, (Follow(user, channel, True) for user in followers.users))
    follows = tuple((user, channel, True) for user in followers.users)
    await app.shared_events.append(WorkspaceUpdate(workspace, follows=follows))

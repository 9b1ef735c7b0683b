"""Default channels: users who join a workspace follow them, with everything so far read."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from store.base.ids import UserId
from store.channels.channel_sessions import with_head
from store.channels.default_channels import DefaultChannel
from store.conversations.conversation import Head
from store.sessions.apply_results import parse_result
from store.sessions.changes import Invalidate, logged_change
from store.sessions.fields import SyncReason
from store.workspaces.policy import ChannelKind, Policy
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.outgoing_events import OutgoingEvents

MOST_FOLLOWED = 500
"""Channels that a user follows in one workspace."""

_USERS_AT_ONCE = 500


async def list_default_channels(app: Confab, policy: Policy) -> list[DefaultChannel]:
    """Return the channels that users follow who join now. One round trip to Redis if there are any."""
    channels = sorted(
        (
            channel
            for channel in policy.channels.values()
            if channel.is_default and not channel.is_archived and channel.kind is ChannelKind.PUBLIC
        ),
        key=lambda channel: channel.position,
    )[:MOST_FOLLOWED]
    heads = await app.store.conversations.find_many([channel.id for channel in channels]) if channels else {}
    return [_default_of(heads[channel.id]) for channel in channels if channel.id in heads]


def _default_of(head: Head) -> DefaultChannel:
    newest = head.newest
    return DefaultChannel(head.conversation, newest.seq if newest else 0, newest.n if newest else 0)


async def announce_followed(
    app: Confab, users: Sequence[UserId], channels: Sequence[DefaultChannel], at_ms: int
) -> None:
    """Add the new sessions to the users' cached states, and send them to their devices."""
    heads = await app.store.conversations.find_many([channel.id for channel in channels]) if channels else {}
    for channel in channels:
        entry = SessionChanged.log_entry(SyncReason.MEMBERSHIP, [channel.id])
        change = logged_change(channel.change, at_ms, entry)
        for start in range(0, len(users), _USERS_AT_ONCE):
            part = users[start : start + _USERS_AT_ONCE]
            answers = await app.store.cache.run([app.store.sessions.apply_call(user, change) for user in part])
            events = OutgoingEvents()
            for user, answer in zip(part, answers, strict=True):
                result = parse_result(user, answer)
                sessions = [with_head(session, heads[channel.id]) for session in result.sessions if channel.id in heads]
                event = SessionChanged(SyncReason.MEMBERSHIP, tuple(sessions), result.total_unread)
                events.add(event, [(user, result)], stored_at=at_ms)
            app.bus.send(events)


async def complete_following(app: Confab, user: UserId, policy: Policy) -> None:
    """Have a member's cached state loaded again if it lacks default channels.

    The server that made the user a member may have died before it changed the cached state.
    """
    channels = await list_default_channels(app, policy)
    if channels:
        invalidate = logged_change(Invalidate(unless_cached=channels[0].id), 0, "")
        await app.store.cache.run([app.store.sessions.apply_call(user, invalidate)])

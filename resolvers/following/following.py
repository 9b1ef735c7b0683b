"""Following channels, and leaving PRIVATE ones."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import Archived, LimitReached
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access, access_conversation
from resolvers.sessions.follow_events import follow_entry, publish_follows
from resolvers.workspaces.changes import change_as_member
from resolvers.workspaces.channel_decisions import no_channel, show_channel
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_follows import ChannelClosed, TooManyFollowedChannels
from store.channels.channel_memberships import leave_writes
from store.channels.channel_rights import ChannelRights
from store.conversations.conversation import Head
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.policy import ChannelKind, Follow, MemberFacts, Policy
from subscriptions.realtime.events.shared import WorkspaceUpdate

MAX_FOLLOWED = 500
"""Channels of one workspace that a user may follow."""


async def follow_channel(app: Confab, user: UserId, channel: str, *, follow: bool) -> Access:
    """Let a user follow a channel, with everything so far read, or no longer. Unfollowing a PRIVATE channel leaves it.

    Raises NotFound, Archived, LimitReached and RateLimited: then nothing was changed.
    """
    access = await _access_channel(app, user, channel)
    assert access.rights is not None
    rights = access.rights
    if rights.channel.kind is ChannelKind.PRIVATE:
        # Members follow it.
        return access if follow else await show_channel(app, user, await _leave(app, user, rights))
    check_rate(app.store.rate_limits.workspace_changes, user)
    await _set_follows(app, user, access.head, follow=follow)
    return access


async def follow_for(app: Confab, user: UserId, channel: ConversationId) -> None:
    """Let a user who can see a channel that is not PRIVATE follow it. Raises as `follow_channel` does."""
    head = await app.store.conversations.find(channel)
    if head is None:
        raise no_channel()
    await _set_follows(app, user, head, follow=True)


async def _set_follows(app: Confab, user: UserId, head: Head, *, follow: bool) -> None:
    newest, follows, name = head.newest, app.store.channel_follows, head.conversation
    place = (newest.seq, newest.n) if newest is not None else (0, 0)
    try:
        if follow:
            changed = await follows.follow(user, name, place, MAX_FOLLOWED, follow_entry(name))
        else:
            changed = await follows.unfollow(user, name, follow_entry(name))
    except TooManyFollowedChannels as error:
        raise LimitReached(f"a user can follow at most {MAX_FOLLOWED} channels of a workspace") from error
    except ChannelClosed as error:
        raise await _why_closed(app, user, name) from error
    if changed is not None:
        await publish_follows(app, user, [changed])
        workspace = workspace_of_channel(name)
        await app.shared_events.append(WorkspaceUpdate(workspace, follows=((user, name, follow),)))


async def _access_channel(app: Confab, user: UserId, channel: str) -> Access:
    access = None
    if kind_of(channel) is ConversationKind.CHANNEL:
        access = await access_conversation(app, user, channel)
    if access is None:
        raise no_channel()
    return access


async def _why_closed(app: Confab, user: UserId, channel: ConversationId) -> Exception:
    """Return the error for a channel that nobody can follow at present."""
    workspace = workspace_of_channel(channel)
    version = await app.store.policies.current_version(workspace)
    rights = await app.store.channel_rights.find(user, channel, version or 0)
    if rights is None or not rights.channel.is_archived:
        return no_channel()
    return Archived("this channel is archived: it can't be followed", field="channelId")


async def _leave(app: Confab, user: UserId, seen: ChannelRights) -> ChannelRights:
    """End the user's membership of a PRIVATE channel."""
    channel = seen.channel.id

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        rights = await app.store.channel_rights.judge(policy, facts, channel)
        if rights is None or rights.member is None:
            return None
        head = await app.store.conversations.find(channel)
        if head is None:
            return None
        now_ms = app.store.clock.now_ms()
        return ProposedPolicyChange(
            policy,
            channel_members=frozenset({(channel, user)}),
            follows=frozenset({Follow(user, channel, False)}),
            writes=leave_writes(policy.workspace, channel, [rights.member], head.seq, now_ms),
        )

    await change_as_member(app, user, workspace_of_channel(channel), decide, "channelId")
    return seen

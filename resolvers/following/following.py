"""Following channels, and leaving PRIVATE ones."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.base.errors import Archived
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access, access_conversation
from resolvers.sessions.follow_events import follow_entry, publish_all_follows
from resolvers.workspaces.changes import change_as_member
from resolvers.workspaces.channel_decisions import no_channel, show_channel, too_many_followed
from store.audit.audit_note import AuditNote
from store.base.errors import Superseded
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_follows import ChangedFollow, ChannelArchived, TooManyFollowedChannels
from store.channels.channel_memberships import leave_writes
from store.channels.channel_rights import ChannelRights
from store.channels.follow_rows import ChannelPlace
from store.workspaces.changing.attempts import repeat_while_superseded
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.policy import ChannelKind, Follow, MemberFacts, Policy
from subscriptions.realtime.events.shared import WorkspaceUpdate


async def follow_channel(app: Confab, user: UserId, channel: str, *, follow: bool) -> Access:
    """Let a user follow a channel, with everything so far read, or no longer. Unfollowing a PRIVATE channel leaves it.

    Raises NotFound, Archived, LimitReached, RateLimited and Unreachable.
    """
    is_counted = False

    async def change() -> Access:
        nonlocal is_counted
        access = await _access_channel(app, user, channel)
        assert access.rights is not None
        rights = access.rights
        try:
            if rights.channel.kind is ChannelKind.PRIVATE:
                # Members follow it.
                return access if follow else await show_channel(app, user, await _leave(app, user, rights))
            if not is_counted:
                check_rate(app.store.rate_limits.workspace_changes, user)
                is_counted = True
            if follow:
                await let_follow(app, rights.policy, [user], ChannelPlace.of(access.head))
            else:
                await _unfollow(app, user, rights)
            return access
        except Superseded:
            await app.store.policies.renew(rights.policy.workspace)
            raise

    # The policy may change between the judgement of rights and the transaction.
    return await repeat_while_superseded(change)


async def let_follow(
    app: Confab, policy: Policy, users: Sequence[UserId], place: ChannelPlace, notes: Sequence[AuditNote] = ()
) -> None:
    """Make users follow a channel that is not PRIVATE, and that they can see under a policy.

    notes: entries of the audit log for those targets who do not follow it yet.
    Raises Archived, LimitReached, and Superseded: judge their rights again. Then nothing was changed.
    """
    try:
        rows = zip(notes, app.store.audit.entry_rows(*notes), strict=True)
        audit = {UserId(note.target or ""): row for note, row in rows}
        changed = await app.store.channel_follows.follow(policy, users, place, follow_entry, audit)
    except TooManyFollowedChannels as error:
        raise too_many_followed() from error
    except ChannelArchived as error:
        raise no_new_followers() from error
    await _announce(app, policy, changed, follow=True)


async def _unfollow(app: Confab, user: UserId, rights: ChannelRights) -> None:
    changed = await app.store.channel_follows.unfollow(rights.policy, user, rights.channel.id, follow_entry)
    if changed is not None:
        await _announce(app, rights.policy, {user: changed}, follow=False)


async def _announce(app: Confab, policy: Policy, changed: dict[UserId, ChangedFollow], *, follow: bool) -> None:
    if changed:
        await publish_all_follows(app, policy.workspace, {user: (each,) for user, each in changed.items()})
        follows = tuple((user, each.channel, follow) for user, each in changed.items())
        await app.shared_events.append(WorkspaceUpdate(policy.workspace, follows=follows))


def no_new_followers() -> Archived:
    """Return the error for following an archived channel."""
    return Archived("this channel is archived: it can't be followed", field="channelId")


async def _access_channel(app: Confab, user: UserId, channel: str) -> Access:
    access = None
    if kind_of(channel) is ConversationKind.CHANNEL:
        access = await access_conversation(app, user, channel)
    if access is None:
        raise no_channel()
    return access


async def _leave(app: Confab, user: UserId, seen: ChannelRights) -> ChannelRights:
    """End the user's membership of a PRIVATE channel. Raises Superseded if it is not PRIVATE any more."""
    channel = seen.channel.id

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange | None:
        rights = await app.store.channel_rights.judge(policy, facts, channel)
        if rights is not None and rights.channel.kind is not ChannelKind.PRIVATE:
            raise Superseded("the channel is not PRIVATE any more")
        if rights is None or rights.member is None:
            return None
        head = await app.store.conversations.find(channel)
        if head is None:
            return None
        return ProposedPolicyChange(
            policy,
            channel_members=frozenset({(channel, user)}),
            follows=frozenset({Follow(user, channel, False)}),
            writes=leave_writes(policy, [(channel, rights.member, head.seq)], app.store.clock.now_ms()),
        )

    await change_as_member(app, user, workspace_of_channel(channel), decide, "channelId")
    return seen


async def find_place(app: Confab, channel: ConversationId) -> ChannelPlace:
    """Return the place of a channel's newest message. Raises NotFound."""
    head = await app.store.conversations.find(channel)
    if head is None:
        raise no_channel()
    return ChannelPlace.of(head)

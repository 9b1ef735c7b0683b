"""Lets members of a workspace join PRIVATE channels and follow others, and removes them from PRIVATE channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotAMember
from resolvers.conversations.access import Access
from resolvers.following.following import (
    find_place,
    let_follow,
    no_new_followers,
)
from resolvers.users.users import check_user_ids
from resolvers.workspaces.channel_decisions import change_channel, no_channel, show_channel, too_many_followed
from store.audit.audit_note import AuditNote
from store.base.errors import Superseded
from store.base.ids import UserId
from store.channels.channel_follows import USERS_AT_ONCE
from store.channels.channel_memberships import join_writes, leave_writes
from store.channels.channel_rights import ChannelRights
from store.conversations.conversation import Member
from store.workspaces.changing.attempts import repeat_while_superseded
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import ChannelKind, Follow

MAX_USERS = 1_000


async def add_to_channel(app: Confab, actor: UserId, channel: str, users: Sequence[str]) -> Access:
    """Make users members of a PRIVATE channel, or let them follow another one. Those who do so already are skipped.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, Archived, LimitReached, RateLimited: then nothing was changed,
    unless rights change meanwhile. To a PUBLIC channel users are added in parts. The call may be repeated.
    """
    check_user_ids(users, "userIds")
    wanted = list(dict.fromkeys(map(UserId, users)))
    if len(wanted) > MAX_USERS:
        raise InvalidInput(f"userIds must name at most {MAX_USERS} users", field="userIds")

    async def decide(rights: ChannelRights) -> ProposedPolicyChange | None:
        if rights.channel.is_archived:
            raise no_new_followers()
        found = await app.store.policies.find_members(rights.policy.workspace, wanted, rights.policy.version)
        if len(found) < len(wanted):
            raise NotAMember("userIds must name members of the workspace", field="userIds")
        if rights.channel.kind is ChannelKind.PRIVATE:
            return await _decide_to_add(app, actor, rights, wanted)
        viewers = await app.store.channel_rights.find_viewers(rights.channel.id, wanted, rights.policy.version)
        if len(viewers) < len(wanted):
            raise NotAMember("userIds must name members who can see the channel", field="userIds")
        await _find_new_followers(app, rights, wanted)
        return None

    seen = await change_channel(app, actor, channel, Permission.INVITE_MEMBERS, decide)
    for start in range(0, len(wanted), USERS_AT_ONCE):

        async def add_part(part: Sequence[UserId] = wanted[start : start + USERS_AT_ONCE]) -> None:
            nonlocal seen
            if seen.channel.kind is ChannelKind.PRIVATE:
                # The change to PRIVATE has made all of them members.
                return
            place = await find_place(app, seen.channel.id)
            try:
                await let_follow(app, seen.policy, part, place, _added(actor, seen, part))
            except Superseded:
                seen = await change_channel(app, actor, channel, Permission.INVITE_MEMBERS, decide)
                raise

        await repeat_while_superseded(add_part)
    return await show_channel(app, actor, seen)


async def _find_new_followers(
    app: Confab, rights: ChannelRights, users: Sequence[UserId]
) -> tuple[list[UserId], dict[UserId, Member]]:
    """Return the users who do not follow a channel yet, and the present and former memberships of all.

    Raises LimitReached if a new follower follows as many channels as allowed.
    """
    known = await app.store.channel_follows.read_members(rights.channel.id, users)
    new = [user for user in users if user not in known or not known[user].is_current]
    if await app.store.channel_follows.list_at_limit(rights.policy, new):
        raise too_many_followed("userIds")
    return new, known


def _added(actor: UserId, rights: ChannelRights, users: Sequence[UserId]) -> list[AuditNote]:
    channel = {"channelId": rights.channel.id}
    return [AuditNote(actor, "addToChannel", rights.policy.workspace, user, after=channel) for user in users]


async def _decide_to_add(
    app: Confab, actor: UserId, rights: ChannelRights, users: Sequence[UserId]
) -> ProposedPolicyChange | None:
    channel, policy, now_ms = rights.channel.id, rights.policy, app.store.clock.now_ms()
    new, known = await _find_new_followers(app, rights, users)
    if not new:
        return None
    place = await find_place(app, channel)
    begun = ((place.seq + 1, None),)
    members = [
        replace(known[user], intervals=(*known[user].intervals, *begun), joined_at_ms=now_ms)
        if user in known
        else Member(user, "", begun, now_ms)
        for user in new
    ]
    return ProposedPolicyChange(
        policy,
        channel_members=frozenset((channel, user) for user in new),
        follows=frozenset(Follow(user, channel, True) for user in new),
        writes=join_writes(policy.workspace, place, members, now_ms),
        audit=_added(actor, rights, new),
    )


async def remove_from_channel(app: Confab, actor: UserId, channel: str, user: str) -> Access:
    """End a user's membership of a PRIVATE channel. When this returns, no live event reaches them any more.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, RateLimited: then nothing was changed.
    """
    target = UserId(user)

    async def decide(rights: ChannelRights) -> ProposedPolicyChange:
        if target == actor:
            raise InvalidInput("you can't remove yourself; unfollow the channel to leave it", field="userId")
        if rights.channel.kind is not ChannelKind.PRIVATE:
            raise InvalidInput("users can be removed from PRIVATE channels only", field="channelId")
        name = rights.channel.id
        member = (await app.store.channel_follows.read_members(name, [target])).get(target)
        if member is None or not member.is_current:
            raise NotAMember("this user is not in the channel", field="userId")
        head = await app.store.conversations.find(name)
        if head is None:
            raise no_channel()
        return ProposedPolicyChange(
            rights.policy,
            channel_members=frozenset({(name, target)}),
            follows=frozenset({Follow(target, name, False)}),
            writes=leave_writes(rights.policy, [(name, member, head.seq)], app.store.clock.now_ms()),
            audit=[AuditNote(actor, "removeFromChannel", rights.policy.workspace, target, before={"channelId": name})],
        )

    return await show_channel(app, actor, await change_channel(app, actor, channel, Permission.INVITE_MEMBERS, decide))

"""Changes of groups: members, roles, name, avatar, history, and the end of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url
from resolvers.base.errors import GroupFull, InvalidInput, PrivateCannotDelete
from resolvers.base.metadata import encode_metadata
from resolvers.base.names import accept_name
from resolvers.base.rate_limits import check_rate
from resolvers.blocks.checks import without_blockers
from resolvers.conversations.access import Access, access_conversation, no_conversation
from resolvers.groups.group_decisions import GroupDecision, access_group, carry_out, view_group
from resolvers.groups.group_rules import (
    ADMIN,
    MEMBER,
    OWNER,
    check_leaving,
    check_moderator,
    check_owner,
    check_removal,
    check_target,
)
from resolvers.users.users import access_users
from store.audit.audit_note import AuditNote
from store.base.ids import ConversationId, ConversationKind, UserId, is_user_id, kind_of
from store.conversations.conversation import GroupSnapshot, Member
from store.conversations.group_change import GroupEnd, GroupFields, ProposedChange
from store.messages.system_events import SystemEvent, SystemEventKind

MAX_NAMED = 20
"""Largest number of users that the text of an invitation names."""


async def invite_members(app: Confab, inviter: UserId, group: str, users: Sequence[str]) -> Access:
    """Make users members from now on. Users who are members already, or have blocked the inviter, are ignored.

    Raises NotFound, NotAMember, GroupFull, RateLimited.
    """
    conversation = await access_group(app, inviter, group)
    max_members = app.limits.max_group_members
    if len(set(users)) > max_members:
        raise _group_full(max_members)
    wanted = await access_users(app, users, "userIds")
    joining = set(await without_blockers(app, inviter, wanted))
    names = await _display_names(app, [inviter, *wanted[:MAX_NAMED]])

    def decide(snapshot: GroupSnapshot, _actor: Member) -> GroupDecision | None:
        new = [user for user in wanted if not _is_current(snapshot, user)]
        if not new:
            return None
        if snapshot.head.member_count + len(new) > max_members:
            # Users who are left out count here, so that the error does not reveal them.
            raise _group_full(max_members)
        new = [user for user in new if user in joining]
        if not new:
            return None
        event = SystemEvent(SystemEventKind.MEMBERS_JOINED)
        return GroupDecision(ProposedChange(joining=tuple(new)), event, _invitation_text(names, inviter, new), new)

    await carry_out(app, inviter, conversation, wanted, decide)
    return await view_group(app, inviter, conversation)


async def remove_member(app: Confab, actor: UserId, group: str, user: str) -> Access:
    """End another user's membership. Raises NotFound, NotAMember, Forbidden, InvalidInput, RateLimited."""
    conversation, target = await access_group(app, actor, group), UserId(user)
    names = await _display_names(app, [actor, target])

    def decide(snapshot: GroupSnapshot, member: Member) -> GroupDecision:
        check_removal(member, user, snapshot.members.get(target))
        text = f"{names[actor]} removed {names[target]}"
        before = {"groupId": conversation, "role": snapshot.members[target].role}
        return GroupDecision(
            ProposedChange(leaving=(target,)),
            SystemEvent(SystemEventKind.MEMBER_REMOVED),
            text,
            [target],
            AuditNote(actor, "removeMember", target=target, before=before),
        )

    await carry_out(app, actor, conversation, [target], decide)
    return await view_group(app, actor, conversation)


async def leave_group(app: Confab, user: UserId, group: str) -> None:
    """End the user's own membership. Raises NotFound, NotAMember, OwnerCannotLeave, RateLimited."""
    conversation = await access_group(app, user, group)
    names = await _display_names(app, [user])

    def decide(_snapshot: GroupSnapshot, member: Member) -> GroupDecision:
        check_leaving(member)
        event = SystemEvent(SystemEventKind.MEMBER_LEFT)
        return GroupDecision(ProposedChange(leaving=(user,)), event, f"{names[user]} left", [user])

    await carry_out(app, user, conversation, [], decide)


async def transfer_owner(app: Confab, actor: UserId, group: str, user: str) -> Access:
    """Make another member the OWNER, and the actor a MEMBER.

    Raises NotFound, NotAMember, Forbidden, InvalidInput, RateLimited.
    """
    conversation, target = await access_group(app, actor, group), UserId(user)
    names = await _display_names(app, [actor, target])

    def decide(snapshot: GroupSnapshot, member: Member) -> GroupDecision:
        check_owner(member)
        check_target(member, user, snapshot.members.get(target))
        change = ProposedChange(roles=((actor, MEMBER), (target, OWNER)), fields={"owner": target})
        event = SystemEvent(SystemEventKind.OWNER_CHANGED)
        owners = {"groupId": conversation, "ownerId": actor}, {"groupId": conversation, "ownerId": target}
        note = AuditNote(actor, "transferOwner", None, target, *owners)
        return GroupDecision(change, event, f"{names[actor]} made {names[target]} the owner", [target], note)

    await carry_out(app, actor, conversation, [target], decide)
    return await view_group(app, actor, conversation)


async def set_member_role(app: Confab, actor: UserId, group: str, user: str, role: str) -> Access:
    """Make a member an ADMIN or a MEMBER. Raises NotFound, NotAMember, Forbidden, InvalidInput, RateLimited."""
    conversation, target = await access_group(app, actor, group), UserId(user)

    def decide(snapshot: GroupSnapshot, member: Member) -> GroupDecision | None:
        check_owner(member)
        if role not in (ADMIN, MEMBER):
            raise InvalidInput("role must be ADMIN or MEMBER; use transferOwner to make an owner", field="role")
        changed = check_target(member, user, snapshot.members.get(target))
        if changed.role == role:
            return None
        roles = {"groupId": conversation, "role": changed.role}, {"groupId": conversation, "role": role}
        note = AuditNote(actor, "setMemberRole", None, target, *roles)
        return GroupDecision(ProposedChange(roles=((target, role),)), audit=note)

    await carry_out(app, actor, conversation, [target], decide)
    return await view_group(app, actor, conversation)


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """New values for a group; None: no change. With `sets_avatar`, an `avatar_url` of None removes the avatar."""

    name: str | None = None
    avatar_url: str | None = None
    sets_avatar: bool = False
    full_history: bool | None = None
    metadata: object = None
    """A JSON value."""


async def update_group(app: Confab, actor: UserId, group: str, update: GroupUpdate) -> Access:
    """Change a group's name, its avatar, its metadata, or who may read its history.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, RateLimited.
    """
    if update.name is not None:
        update = replace(update, name=accept_name(update.name, "name"))
    check_avatar_url(update.avatar_url)
    metadata = encode_metadata(update.metadata)
    conversation = await access_group(app, actor, group)
    names = await _display_names(app, [actor])

    def decide(snapshot: GroupSnapshot, member: Member) -> GroupDecision | None:
        check_moderator(member)
        info = snapshot.head.group
        assert info is not None
        fields: GroupFields = {}
        if update.name is not None and update.name != info.name:
            fields["name"] = update.name
        if update.sets_avatar and update.avatar_url != info.avatar_url:
            fields["avatar_url"] = update.avatar_url
        if metadata is not None and metadata != info.metadata:
            fields["metadata"] = metadata
        if update.full_history is not None and update.full_history != info.full_history:
            fields["full_history"] = update.full_history
        note = None
        if "full_history" in fields:
            before, after = _history_values(info.full_history), _history_values(fields["full_history"])
            note = AuditNote(actor, "updateGroup", None, conversation, before, after)
        if "name" not in fields:
            return GroupDecision(ProposedChange(fields=fields), audit=note) if fields else None
        event = SystemEvent(SystemEventKind.RENAMED, update.name)
        text = f"{names[actor]} renamed the group to {update.name}"
        return GroupDecision(ProposedChange(fields=fields), event, text, audit=note)

    await carry_out(app, actor, conversation, [], decide)
    return await view_group(app, actor, conversation)


async def dismiss_group(app: Confab, actor: UserId, group: str) -> None:
    """End a group, which then can't be read by anybody. Raises NotFound, NotAMember, Forbidden, RateLimited."""
    wanted = await access_group(app, actor, group)
    await _end_group(app, actor, wanted, GroupEnd.DISMISSED, "groupId", "dismissGroup")


async def delete_conversation(app: Confab, actor: UserId, conversation: str) -> None:
    """End a group that stays readable to its former members.

    Raises NotFound, NotAMember, Forbidden, PrivateCannotDelete, RateLimited, and InvalidInput for a subBiz, a channel
    or a thread.
    """
    check_rate(app.store.rate_limits.group_changes, actor)
    wanted = ConversationId(conversation)
    if kind_of(conversation) is ConversationKind.SUB_BIZ and await app.store.sessions.find(actor, wanted) is not None:
        raise InvalidInput("a subBiz can't be deleted; name a group", field="conversationId")
    access = await access_conversation(app, actor, conversation)
    if access is None:
        raise no_conversation()
    if access.parent is not None:
        raise InvalidInput("this does not apply to threads; use followThread or lockThread", field="conversationId")
    if access.rights is not None:
        raise InvalidInput("this does not apply to channels; use deleteChannel", field="conversationId")
    if access.member is None:
        raise PrivateCannotDelete("a private conversation can't be deleted; use deleteSession", field="conversationId")
    await _end_group(app, actor, wanted, GroupEnd.DISSOLVED, "conversationId", "deleteConversation")


async def _end_group(
    app: Confab, actor: UserId, group: ConversationId, end: GroupEnd, argument: str, action: str
) -> None:
    def decide(snapshot: GroupSnapshot, member: Member) -> GroupDecision:
        check_owner(member)
        note = AuditNote(actor, action, target=group, before={"memberCount": snapshot.head.member_count})
        return GroupDecision(ProposedChange(fields={"end": end}), audit=note)

    await carry_out(app, actor, group, [], decide, argument)


def _history_values(full_history: bool) -> dict[str, str]:
    return {"historyVisibility": "FULL" if full_history else "SINCE_JOIN"}


def _group_full(max_members: int) -> GroupFull:
    return GroupFull(f"a group has at most {max_members} members", field="userIds")


def _is_current(snapshot: GroupSnapshot, user: UserId) -> bool:
    member = snapshot.members.get(user)
    return member is not None and member.is_current


async def _display_names(app: Confab, users: Sequence[UserId]) -> dict[UserId, str]:
    """Return names for the text of a SYSTEM message. Clients that show their own text use sender and mentions."""
    found = await app.store.users.find_many([user for user in users if is_user_id(user)])
    return {user: found[user].display_name if user in found else user for user in users}


def _invitation_text(names: Mapping[UserId, str], inviter: UserId, users: Sequence[UserId]) -> str:
    named = [names[user] for user in users if user in names]
    more = len(users) - len(named)
    return f"{names[inviter]} added {', '.join(named)}" + (f" and {more} more" if more else "")

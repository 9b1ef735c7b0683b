"""Changes of groups: who is in them and as what, what they are called, their end.

Each is decided on the group as it is at one moment, and made only if it is still so: of changes that conflict, the second one
is decided anew on what the first one left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url, check_name
from resolvers.base.errors import GroupFull, InvalidInput, NotAMember, NotFound, PrivateCannotDelete
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access, access_conversation
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
from store.base.errors import Superseded
from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, is_user_id, kind_of
from store.conversations.conversation_store import Standing
from store.conversations.group_changes import DISMISSED, DISSOLVED
from store.conversations.records import Member
from store.messages.message_store import Refused
from store.messages.records import Message, MessageKind
from store.redis.single_flight import retry_until_true

MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is to become of a group. `moves`: of whom what: join, leave, or a role. `says`: the SYSTEM message that tells of
    it and whom it is about; None: nothing does."""

    moves: Sequence[tuple[UserId, str]] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    says: tuple[str, Sequence[UserId]] | None = None


_Decide = Callable[[Standing, Member], _Decision | None]


async def invite_members(app: Confab, inviter: UserId, group: str, users: Sequence[str]) -> Access:
    """Makes users members from now on; those who are already are passed over. Raises NotFound, NotAMember, GroupFull."""
    conversation = await _access_group(app, inviter, group)
    most = app.limits.max_group_members
    if len(set(users)) > most:
        raise GroupFull(f"a group has at most {most} members", field="userIds")
    wanted = await access_users(app, users, "userIds")
    names = await _names(app, [inviter, *wanted[:MOST_NAMED]])

    def decide(standing: Standing, _actor: Member) -> _Decision | None:
        new = [user for user in wanted if not _is_current(standing, user)]
        if not new:
            return None
        if standing.head.member_count + len(new) > most:
            raise GroupFull(f"a group has at most {most} members", field="userIds")
        return _Decision([(user, "join") for user in new], says=(_invitation(names, inviter, new), new))

    await _change(app, inviter, conversation, wanted, decide)
    return await _seen(app, inviter, conversation)


async def remove_member(app: Confab, actor: UserId, group: str, user: str) -> Access:
    """Ends somebody's membership. Raises NotFound, NotAMember, Forbidden, InvalidInput."""
    conversation, target = await _access_group(app, actor, group), UserId(user)
    names = await _names(app, [actor, target])

    def decide(standing: Standing, by: Member) -> _Decision:
        check_removal(by, user, standing.members.get(target))
        return _Decision([(target, "leave")], says=(f"{names[actor]} removed {names[target]}", [target]))

    await _change(app, actor, conversation, [target], decide)
    return await _seen(app, actor, conversation)


async def leave_group(app: Confab, user: UserId, group: str) -> None:
    """Ends one's own membership. Raises NotFound, NotAMember, OwnerCannotLeave."""
    conversation = await _access_group(app, user, group)
    names = await _names(app, [user])

    def decide(_standing: Standing, by: Member) -> _Decision:
        check_leaving(by)
        return _Decision([(user, "leave")], says=(f"{names[user]} left", [user]))

    await _change(app, user, conversation, [], decide)


async def transfer_owner(app: Confab, actor: UserId, group: str, user: str) -> Access:
    """Makes another member the OWNER, and the actor a MEMBER. Raises NotFound, NotAMember, Forbidden, InvalidInput."""
    conversation, target = await _access_group(app, actor, group), UserId(user)
    names = await _names(app, [actor, target])

    def decide(standing: Standing, by: Member) -> _Decision:
        check_owner(by)
        check_target(by, user, standing.members.get(target))
        says = f"{names[actor]} made {names[target]} the owner", [target]
        return _Decision([(actor, MEMBER), (target, OWNER)], {"own": target}, says)

    await _change(app, actor, conversation, [target], decide)
    return await _seen(app, actor, conversation)


async def set_member_role(app: Confab, actor: UserId, group: str, user: str, role: str) -> Access:
    """Makes a member an ADMIN or a MEMBER. Raises NotFound, NotAMember, Forbidden, InvalidInput."""
    conversation, target = await _access_group(app, actor, group), UserId(user)

    def decide(standing: Standing, by: Member) -> _Decision | None:
        check_owner(by)
        if role not in (ADMIN, MEMBER):
            raise InvalidInput("the role may be ADMIN or MEMBER; transferOwner makes an owner", field="role")
        member = check_target(by, user, standing.members.get(target))
        return _Decision([(target, role)]) if member.role != role else None

    await _change(app, actor, conversation, [target], decide)
    return await _seen(app, actor, conversation)


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """What is to be different. None: as it is. sets_avatar: avatar_url counts, None taking the picture away."""

    name: str | None = None
    avatar_url: str | None = None
    sets_avatar: bool = False
    full_history: bool | None = None


async def update_group(app: Confab, actor: UserId, group: str, update: GroupUpdate) -> Access:
    """Changes what a group says about itself, or who may read what. Raises InvalidInput, NotFound, NotAMember, Forbidden."""
    if update.name is not None:
        check_name(update.name, "name")
    check_avatar_url(update.avatar_url)
    conversation = await _access_group(app, actor, group)
    names = await _names(app, [actor])

    def decide(standing: Standing, by: Member) -> _Decision | None:
        check_moderator(by)
        info = standing.head.group
        assert info is not None
        fields: dict[str, Any] = {}
        if update.name is not None and update.name != info.name:
            fields["name"] = update.name
        if update.sets_avatar and update.avatar_url != info.avatar_url:
            fields["av"] = update.avatar_url
        if update.full_history is not None and update.full_history != info.full_history:
            fields["hv"] = True if update.full_history else None
        says = (f"{names[actor]} renamed the group to {update.name}", ()) if "name" in fields else None
        return _Decision(fields=fields, says=says) if fields else None

    await _change(app, actor, conversation, [], decide)
    return await _seen(app, actor, conversation)


async def dismiss_group(app: Confab, actor: UserId, group: str) -> None:
    """Ends a group for good: nothing of it is to be seen afterwards. Raises NotFound, NotAMember, Forbidden."""
    await _end(app, actor, await _access_group(app, actor, group), DISMISSED, "groupId")


async def delete_conversation(app: Confab, actor: UserId, conversation: str) -> None:
    """Ends a group, which stays readable to those who were in it. Raises NotFound, NotAMember, Forbidden,
    PrivateCannotDelete, InvalidInput for a subBiz."""
    check_rate(app.store.rate_limits.group_changes, actor)
    wanted = ConversationId(conversation)
    if kind_of(conversation) is ConversationKind.SUB_BIZ and await app.store.sessions.find(actor, wanted) is not None:
        raise InvalidInput("this does not apply to a subBiz", field="conversationId")
    access = await access_conversation(app, actor, conversation)
    if access is None:
        raise NotFound("there is no such conversation", field="conversationId")
    if access.member is None:
        raise PrivateCannotDelete("a private conversation can't be deleted", field="conversationId")
    await _end(app, actor, wanted, DISSOLVED, "conversationId")


async def _end(app: Confab, actor: UserId, conversation: ConversationId, how: str, argument: str) -> None:
    def decide(_standing: Standing, by: Member) -> _Decision:
        check_owner(by)
        return _Decision(fields={"st": how})

    await _change(app, actor, conversation, [], decide, argument)


async def _access_group(app: Confab, viewer: UserId, group: str) -> ConversationId:
    """A group that the viewer is or was in, to be changed: others learn nothing of it. Raises NotFound, NotAMember,
    RateLimited."""
    check_rate(app.store.rate_limits.group_changes, viewer)
    access = await access_conversation(app, viewer, group) if kind_of(group) is ConversationKind.GROUP else None
    if access is None:
        raise NotFound("there is no such group", field="groupId")
    if not access.is_current:
        raise _former("groupId")
    return ConversationId(group)


def _former(argument: str) -> NotAMember:
    return NotAMember("you are no longer in this group", field=argument)


async def _change(
    app: Confab,
    actor: UserId,
    group: ConversationId,
    others: Sequence[UserId],
    decide: _Decide,
    argument: str = "groupId",
) -> None:
    """Carries out what is decided on the group as it is.

    decide raises what the actor is to be told, and answers None where there is nothing to do. argument: what names the group.
    Raises Unreachable where others change it all the time.
    """
    attempt = partial(_try_to_change, app, actor, group, others, decide, argument)
    await retry_until_true(attempt, "the group is being changed by many at once")


async def _seen(app: Confab, viewer: UserId, group: ConversationId) -> Access:
    """The group as the viewer sees it afterwards."""
    access = await access_conversation(app, viewer, group)
    if access is None:
        raise NotFound("there is no such group", field="groupId")
    return access


async def _try_to_change(
    app: Confab, actor: UserId, group: ConversationId, others: Sequence[UserId], decide: _Decide, argument: str
) -> bool:
    """Whether the group is as decided now; else it was changed meanwhile, or is being changed."""
    store = app.store
    standing = await store.conversations.find_standing(group, [actor, *(u for u in others if is_user_id(u))])
    by = standing.members.get(actor) if standing is not None else None
    if standing is None or by is None or standing.head.dismissed:
        raise NotFound("there is no such group", field=argument)
    if not by.is_current:
        raise _former(argument)
    decision = decide(standing, by)
    if decision is None:
        return True
    text, about = decision.says or ("", ())
    message = Message(
        id=MessageId(store.ids.next()),
        conversation=group,
        sender=actor,
        kind=MessageKind.SYSTEM,
        text=text,
        mentions=tuple(about),
    )
    # Found out later, it would be made when nobody expects it any more.
    store.mongo.require_primary()
    place = await store.messages.reserve_change(
        message, standing.version, decision.moves, decision.fields, told=decision.says is not None
    )
    if isinstance(place, Refused):
        return False
    try:
        await app.delivery.send(place)
    except Superseded:
        return False
    return True


def _is_current(standing: Standing, user: UserId) -> bool:
    member = standing.members.get(user)
    return member is not None and member.is_current


async def _names(app: Confab, users: Sequence[UserId]) -> dict[UserId, str]:
    """What the text of a SYSTEM message calls people, for clients that show it; others use sender and mentions."""
    found = await app.store.users.find_many([user for user in users if is_user_id(user)])
    return {user: found[user].display_name if user in found else user for user in users}


def _invitation(names: Mapping[UserId, str], inviter: UserId, users: Sequence[UserId]) -> str:
    named = [names[user] for user in users if user in names]
    more = len(users) - len(named)
    return f"{names[inviter]} added {', '.join(named)}" + (f" and {more} more" if more else "")

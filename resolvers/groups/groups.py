"""Groups: making them, who is in them. Changes are in `group_changes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url, check_key, check_name, check_sub_biz
from resolvers.base.cursors import decode_page, encode_page
from resolvers.base.errors import GroupFull, GroupTooSmall, InvalidInput, NotFound, Unavailable
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access, access_conversation
from resolvers.groups.group_rules import MEMBER, OWNER
from resolvers.users.users import access_users, check_user_ids
from store.base.ids import ConversationId, ConversationKind, UserId, group_id, kind_of
from store.conversations.conversation import GroupInfo, Member
from store.sessions.apply_results import parse_result
from store.sessions.changes import Invalidate, Join, logged
from subscriptions.realtime.events.sessions import SessionChanged, SyncReason
from subscriptions.realtime.outgoing_events import OutgoingEvents

SMALLEST_GROUP = 3
_MEMBERS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class NewGroup:
    """What a caller asks to be made."""

    name: str
    avatar_url: str | None
    members: tuple[str, ...]
    full_history: bool
    key: str | None
    sub_biz: str | None = None


async def create_group(app: Confab, creator: UserId, new: NewGroup) -> Access:
    """Makes a group. Everybody's session is ACTIVE at once; the same key of the same creator answers the first group.

    Raises InvalidInput, NotFound, GroupTooSmall, GroupFull, RateLimited: nothing is stored then.
    """
    check_name(new.name, "name")
    check_avatar_url(new.avatar_url)
    check_sub_biz(new.sub_biz)
    check_key(new.key)
    check_user_ids(new.members, "memberIds")
    size = len({creator, *new.members})
    if size < SMALLEST_GROUP:
        raise GroupTooSmall(f"a group begins with at least {SMALLEST_GROUP} people", field="memberIds")
    if size > app.limits.max_group_members:
        raise GroupFull(f"a group has at most {app.limits.max_group_members} members", field="memberIds")
    if new.key is not None and (first := await _find_first(app, creator, new.key)) is not None:
        return first
    check_rate(app.store.rate_limits.group_changes, creator)
    others = await access_users(app, [user for user in new.members if user != creator], "memberIds")
    now = app.store.clock.now_ms()
    conversation = group_id(app.store.ids.next())
    info = GroupInfo(new.name, new.avatar_url, creator, new.full_history, now, new.sub_biz)
    members = [Member(creator, OWNER, ((1, None),), now)] + [Member(u, MEMBER, ((1, None),), now) for u in others]
    shown = False
    try:
        if not await app.store.groups.insert(conversation, info, members, new.key):
            first = await _find_first(app, creator, new.key) if new.key is not None else None
            if first is None:
                raise Unavailable("the group could not be stored")
            shown = True
            return first
        await _announce_members(app, conversation, new.sub_biz, [member.user for member in members], now)
        shown = app.store.cache.is_shared
    finally:
        if not shown:
            # It may be stored, and nothing else tells of that.
            app.store.stale_caches.add_conversation(conversation)
    access = await access_conversation(app, creator, conversation)
    assert access is not None
    return access


async def _find_first(app: Confab, creator: UserId, key: str) -> Access | None:
    """The group that the creator's key stands for, whatever it was made from. Raises NotFound where it is gone."""
    held = await app.store.groups.find_claim(creator, key)
    if held is None:
        return None
    access = await access_conversation(app, creator, held)
    if access is None:
        raise NotFound("the group that this idempotencyKey stands for was dismissed", field="idempotencyKey")
    # Whoever made it may have died before its members' states knew.
    members = [member.user for member in await app.store.conversations.list_members(held)]
    invalidate = logged(Invalidate(unless_cached=held), 0, "")
    for start in range(0, len(members), _MEMBERS_AT_ONCE):
        slice_ = members[start : start + _MEMBERS_AT_ONCE]
        await app.store.cache.run([app.store.sessions.apply(user, invalidate) for user in slice_])
    return access


async def _announce_members(
    app: Confab, conversation: ConversationId, sub_biz: str | None, users: Sequence[UserId], at: int
) -> None:
    """Puts the new session into the state of those who are about, and tells their devices."""
    entry = SessionChanged.log_entry(SyncReason.MEMBERSHIP, [conversation])
    join = logged(Join(conversation, 0, 0, sub_biz), at, entry)
    for start in range(0, len(users), _MEMBERS_AT_ONCE):
        slice_ = users[start : start + _MEMBERS_AT_ONCE]
        answers = await app.store.cache.run([app.store.sessions.apply(user, join) for user in slice_])
        parcel = OutgoingEvents()
        for user, answer in zip(slice_, answers, strict=True):
            outcome = parse_result(user, answer)
            event = SessionChanged(SyncReason.MEMBERSHIP, outcome.sessions, outcome.total_unread)
            parcel.add(event, [(user, outcome)], stored_at=at)
        app.bus.send(parcel)


async def find_group(app: Confab, viewer: UserId, group: str) -> Access | None:
    """A group that the viewer is or was a member of."""
    return await access_conversation(app, viewer, group) if kind_of(group) is ConversationKind.GROUP else None


async def list_groups(app: Confab, viewer: UserId, first: int | None, after: str | None) -> Page[ConversationId]:
    """The groups the viewer is a member of, in order of their ids."""
    size = check_page_size(first, "first")
    start = decode_page("g", after, "after") if after is not None else None
    if start is not None and len(start) != 1:
        raise InvalidInput("after is not a cursor of this list", field="after")
    groups = await app.store.sessions.list_groups(viewer)
    rest = [group for group in groups if start is None or group > start[0]]
    edges = [Edge(group, encode_page("g", group)) for group in rest[:size]]
    return Page(edges, has_next=len(rest) > size, has_previous=start is not None)


async def list_members(app: Confab, access: Access, first: int | None, after: str | None) -> Page[Member] | None:
    """The members of a group in order of their ids. None to those no longer in it."""
    size = check_page_size(first, "first")
    start = decode_page("u", after, "after") if after is not None else None
    if start is not None and len(start) != 1:
        raise InvalidInput("after is not a cursor of this list", field="after")
    if not access.is_current:
        return None
    members = [m for m in await app.store.conversations.list_members(access.head.conversation) if m.is_current]
    rest = [member for member in members if start is None or member.user > start[0]]
    edges = [Edge(member, encode_page("u", member.user)) for member in rest[:size]]
    return Page(edges, has_next=len(rest) > size, has_previous=start is not None)

"""Creation of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url, check_key, check_sub_biz
from resolvers.base.errors import GroupFull, GroupTooSmall, NotFound, Unavailable
from resolvers.base.metadata import encode_metadata
from resolvers.base.names import accept_name
from resolvers.base.rate_limits import check_rate
from resolvers.blocks.checks import without_blockers
from resolvers.conversations.access import Access, access_conversation
from resolvers.groups.group_rules import MEMBER, OWNER
from resolvers.users.users import access_users, check_user_ids
from store.base.ids import ConversationId, UserId, group_id
from store.conversations.conversation import Member
from store.conversations.group_info import GroupInfo
from store.sessions.apply_results import parse_result
from store.sessions.changes import Invalidate, Join, logged_change
from store.sessions.fields import SyncReason
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.outgoing_events import OutgoingEvents

SMALLEST_GROUP = 3
_MEMBERS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A group that a caller wants to create."""

    name: str
    avatar_url: str | None
    members: tuple[str, ...]
    full_history: bool
    key: str | None
    sub_biz: str | None = None
    metadata: object = None
    """A JSON value."""


async def create_group(app: Confab, creator: UserId, new: NewGroup) -> Access:
    """Create a group. All members have an ACTIVE session at once. Users who have blocked the creator are left out.

    If the creator uses a key again, the first group is returned. Raises InvalidInput, NotFound, GroupTooSmall,
    GroupFull
    and RateLimited: then nothing was stored.
    """
    new = replace(new, name=accept_name(new.name, "name"))
    size = _check(app, creator, new)
    metadata = encode_metadata(new.metadata)
    if size > app.limits.max_group_members:
        raise GroupFull(f"a group has at most {app.limits.max_group_members} members", field="memberIds")
    if new.key is not None and (first := await _find_first(app, creator, new.key)) is not None:
        return first
    check_rate(app.store.rate_limits.group_changes, creator)
    wanted = await access_users(app, [user for user in new.members if user != creator], "memberIds")
    others = await without_blockers(app, creator, wanted)
    now = app.store.clock.now_ms()
    conversation = group_id(app.store.ids.next())
    info = GroupInfo(new.name, new.avatar_url, creator, new.full_history, now, new.sub_biz, metadata)
    members = [Member(creator, OWNER, ((1, None),), now)] + [Member(u, MEMBER, ((1, None),), now) for u in others]
    caches_current = False
    try:
        if not await app.store.groups.insert(conversation, info, members, new.key):
            first = await _find_first(app, creator, new.key) if new.key is not None else None
            if first is None:
                raise Unavailable("the group could not be stored; please try again")
            caches_current = True
            return first
        await _announce_members(app, conversation, new.sub_biz, [member.user for member in members], now)
        caches_current = app.store.cache.is_shared
    finally:
        if not caches_current:
            # The group may be stored, and no outbox entry makes other servers notify the members.
            app.store.stale_caches.add_conversation(conversation)
    access = await access_conversation(app, creator, conversation)
    assert access is not None
    return access


def _check(app: Confab, creator: UserId, new: NewGroup) -> int:
    """Check the input. Return the number of members."""
    check_avatar_url(new.avatar_url)
    check_sub_biz(new.sub_biz)
    check_key(new.key)
    check_user_ids(new.members, "memberIds")
    size = len({creator, *new.members})
    if size < SMALLEST_GROUP:
        raise GroupTooSmall(f"a new group needs at least {SMALLEST_GROUP} members, you included", field="memberIds")
    return size


async def _find_first(app: Confab, creator: UserId, key: str) -> Access | None:
    """Return the group that was created with a key, whatever the input was. Raises NotFound if it is dismissed."""
    group = await app.store.groups.find_claim(creator, key)
    if group is None:
        return None
    access = await access_conversation(app, creator, group)
    if access is None:
        raise NotFound("the group created with this idempotencyKey was dismissed", field="idempotencyKey")
    # The server that created it may have died before it updated the members' cached states.
    members = [member.user for member in await app.store.conversations.list_members(group)]
    invalidate = logged_change(Invalidate(unless_cached=group), 0, "")
    for start in range(0, len(members), _MEMBERS_AT_ONCE):
        part = members[start : start + _MEMBERS_AT_ONCE]
        await app.store.cache.run([app.store.sessions.apply_call(user, invalidate) for user in part])
    return access


async def _announce_members(
    app: Confab, conversation: ConversationId, sub_biz: str | None, users: Sequence[UserId], at: int
) -> None:
    """Add the new session to the members' cached states, and send the event to their devices."""
    entry = SessionChanged.log_entry(SyncReason.MEMBERSHIP, [conversation])
    join = logged_change(Join(conversation, 0, 0, sub_biz), at, entry)
    for start in range(0, len(users), _MEMBERS_AT_ONCE):
        part = users[start : start + _MEMBERS_AT_ONCE]
        answers = await app.store.cache.run([app.store.sessions.apply_call(user, join) for user in part])
        events = OutgoingEvents()
        for user, answer in zip(part, answers, strict=True):
            result = parse_result(user, answer)
            event = SessionChanged(SyncReason.MEMBERSHIP, result.sessions, result.total_unread)
            events.add(event, [(user, result)], stored_at=at)
        app.bus.send(events)

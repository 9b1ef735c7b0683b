"""Changes of threads by users: following, and locking. Replies are in `resolvers/messages/replying.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.errors import Archived, Forbidden, LimitReached, NotAMember, NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access
from resolvers.groups.group_rules import is_moderator
from resolvers.threads.threads import find_thread
from store.audit.audit_note import AuditNote
from store.base.errors import Superseded
from store.base.ids import ConversationId, MessageId, UserId, parse_thread
from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from store.conversations.conversation import GroupSnapshot
from store.conversations.conversation_fields import MAX_FOLLOWERS
from store.conversations.group_change import GroupFields, ProposedChange
from store.messages.message import Message, MessageKind
from store.messages.outbox.places import Refusal, ThreadTerms
from store.redis.single_flight import retry_until_true
from store.workspaces.permissions import Permission

_FIELD = "threadId"

Decide = Callable[[Access, GroupSnapshot], ProposedChange | None]
"""Decides on a change of a thread. Raises an error for the caller; returns None if nothing changes."""


async def follow_thread(app: Confab, user: UserId, thread: str, *, follow: bool) -> Access:
    """Let a user follow a thread, with everything so far read, or follow it no longer. Return the thread.

    Raises NotFound, NotAMember, Archived, LimitReached, RateLimited, Unreachable.
    """
    check_rate(app.store.rate_limits.group_changes, user)

    def decide(access: Access, seen: GroupSnapshot) -> ProposedChange | None:
        member = seen.members.get(user)
        follows = member is not None and member.is_current
        if follows == follow:
            return None
        if not follow:
            return ProposedChange(leaving=(user,))
        _check_not_archived(access, "this channel is archived: its threads can't be followed")
        if seen.head.member_count >= MAX_FOLLOWERS:
            raise LimitReached(f"a thread has at most {MAX_FOLLOWERS:,} followers", field=_FIELD)
        return ProposedChange(joining=(user,))

    return await _change(app, user, thread, decide)


async def end_follow(app: Confab, user: UserId, thread: str) -> None:
    """End the follow of a thread, without a check of the user's rate. Raises NotFound, NotAMember, Unreachable."""

    def decide(_access: Access, seen: GroupSnapshot) -> ProposedChange | None:
        member = seen.members.get(user)
        return ProposedChange(leaving=(user,)) if member is not None and member.is_current else None

    await _change(app, user, thread, decide)


async def lock_thread(app: Confab, user: UserId, thread: str, *, locked: bool) -> Access:
    """Let only moderators and the sender of the parent message write in a thread, or everybody again.

    Raises NotFound, NotAMember, Archived, Forbidden, RateLimited, Unreachable.
    """
    check_rate(app.store.rate_limits.group_changes, user)
    access = await _access(app, user, thread)
    sent_parent = not may_manage(access) and await is_parent_sender(app, user, access)

    def decide(access: Access, seen: GroupSnapshot) -> ProposedChange | None:
        _check_not_archived(access, "this channel is archived: its threads can't be locked or unlocked")
        if not may_manage(access) and not sent_parent:
            raise Forbidden("only a moderator or the sender of the thread's message may lock it", field=_FIELD)
        assert seen.head.thread is not None
        if seen.head.thread.is_locked == locked:
            return None
        # Only moderators leave an entry. Senders may lock the threads of their own messages.
        row = _audit_row(app, user, seen.head.conversation, locked=locked) if may_manage(access) else None
        return ProposedChange(fields=GroupFields(locked=locked), audit=row)

    return await _change(app, user, thread, decide, needs_moderator=not sent_parent)


def _audit_row(app: Confab, user: UserId, thread: ConversationId, *, locked: bool) -> Mapping[str, Any]:
    workspace = workspace_of_channel(thread) if is_in_workspace(thread) else None
    note = AuditNote(user, "lockThread", workspace, thread, {"isLocked": not locked}, {"isLocked": locked})
    return app.store.audit.entry_rows(note)[0]


def may_manage(access: Access) -> bool:
    """Return whether a user may lock all threads of a conversation, and write in them while they are locked.

    In a group by role, in a channel with MANAGE_THREADS.
    """
    if access.rights is not None:
        return access.rights.may(Permission.MANAGE_THREADS)
    return access.member is not None and is_moderator(access.member)


def _check_not_archived(access: Access, message: str) -> None:
    if access.rights is not None and access.rights.channel.is_archived:
        raise Archived(message, field=_FIELD)


async def is_parent_sender(app: Confab, user: UserId, access: Access) -> bool:
    """Return whether a user has sent the parent message of a thread. One round trip to MongoDB."""
    place = parse_thread(access.head.conversation)
    assert place is not None
    parent = (await app.store.messages.find_many([place])).get((place.parent, place.seq))
    return parent is not None and parent.sender == user


async def _change(app: Confab, user: UserId, thread: str, decide: Decide, *, needs_moderator: bool = False) -> Access:
    """Make the change that `decide` returns for the present state of the thread. It is durable when this returns."""
    attempt = partial(_try_to_change, app, user, thread, decide, needs_moderator)
    await retry_until_true(attempt, "too many changes of the thread at the same time")
    return await _access(app, user, thread)


async def _try_to_change(app: Confab, user: UserId, thread: str, decide: Decide, needs_moderator: bool) -> bool:
    """Make one attempt. Return False if thread or rights have changed meanwhile, or another change is pending."""
    store, access = app.store, await _access(app, user, thread)
    conversation = ConversationId(thread)
    seen = (await store.conversations.find_snapshots([conversation], [user])).get(conversation)
    if seen is None:
        raise _no_thread()
    change = decide(access, seen)
    if change is None:
        return True
    message = Message(
        id=MessageId(store.ids.next()), conversation=conversation, sender=user, kind=MessageKind.SYSTEM, text=""
    )
    # Without a primary, a reserved change would be made later, when the caller no longer expects it.
    store.mongo.require_primary()
    terms = ThreadTerms(access.rights.policy.version if access.rights is not None else 0, needs_moderator)
    reserved = await store.outbox.reserve_change(message, seen.version, change, announced=False, terms=terms)
    if isinstance(reserved, Refusal):
        return False
    try:
        await app.delivery.send(reserved)
    except Superseded:
        return False
    return True


async def _access(app: Confab, user: UserId, thread: str) -> Access:
    """Return a thread that the user may change. Raises NotFound, NotAMember."""
    access = await find_thread(app, user, thread)
    if access is None:
        raise _no_thread()
    if not access.is_current:
        raise NotAMember("you are no longer in this thread's conversation", field=_FIELD)
    return access


def _no_thread() -> NotFound:
    return NotFound("there is no such thread, or you can't see it", field=_FIELD)

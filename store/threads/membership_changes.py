"""The changes of sessions when users join or leave a group, or begin or end to follow a thread."""

from __future__ import annotations

from collections.abc import Iterator

from store.base.ids import UserId
from store.conversations.group_change import GroupChange
from store.messages.message import Message
from store.sessions.changes import Join, Leave
from store.sessions.threads.thread_changes import FollowThread, UnfollowThread

MembershipChange = Join | Leave | FollowThread | UnfollowThread


def session_changes(message: Message, change: GroupChange) -> Iterator[tuple[UserId, MembershipChange, bool]]:
    """Yield each user who joins or leaves with a change, the change of their session, and whether they join."""
    if change.newest_seq is not None:
        yield from _changes_in_thread(message, change, change.newest_seq)
        return
    conversation = message.conversation
    join = Join(conversation, message.seq, message.n, change.sub_biz)
    leave = Leave(conversation, message.seq - 1, message.n, change.written_at_ms)
    for user in change.joined:
        yield user, join, True
    for user in change.left:
        yield user, leave, False


def _changes_in_thread(
    message: Message, change: GroupChange, newest_seq: int
) -> Iterator[tuple[UserId, MembershipChange, bool]]:
    """Yield the changes of followers: everything before the reply that causes the change is read."""
    thread, version = message.conversation, change.version
    if change.announced:
        follow = FollowThread(thread, newest_seq, message.n - 1, version)
    else:
        follow = FollowThread(thread, newest_seq, message.n, version, change.written_at_ms)
    for user in change.joined:
        yield user, follow, True
    for user in change.left:
        yield user, UnfollowThread(thread, version), False

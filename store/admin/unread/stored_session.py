"""One session as a load from MongoDB gives it, with what it follows from."""

from __future__ import annotations

from typing import NamedTuple

from store.admin.conversation_view import read_stored_head
from store.admin.source import AdminSource, NoSuchObject, View, time_text, without_empty
from store.base.ids import ConversationId, UserId, parse_private, without_thread
from store.base.workspace_ids import is_in_workspace
from store.channels.channel_sessions import with_head
from store.conversations.conversation import Head, Member, member_from
from store.mongo.client import Document
from store.mongo.collections import MEMBERS, SESSIONS, member_row_id, session_row_id
from store.sessions.fields import JOINED_N, JOINED_SEQ
from store.sessions.session import Session


class StoredSession(NamedTuple):
    """A session and what it follows from.

    Attributes:
        head: The head of the conversation.
        row: The row of the session; None: there is none.
        session: The session, with what it takes from the head; None: there is none.
        member: The membership in a group, or what a thread or PRIVATE channel knows of the user.
        sees_channel: Whether the user can see the channel; None: it is not in a channel.
    """

    head: Head
    row: Document | None
    session: Session | None
    member: Member | None
    sees_channel: bool | None


async def read_stored_session(source: AdminSource, user: UserId, conversation: ConversationId) -> StoredSession:
    """Return a session from MongoDB. Reads all sessions of the user. Raises NoSuchObject and StoreError."""
    mongo = source.store.mongo
    stored_head = await read_stored_head(source, conversation)
    if stored_head is None:
        raise NoSuchObject(f"There is no conversation {conversation}.")
    people = parse_private(conversation)
    if people is not None and user not in people[:2]:
        raise NoSuchObject(f"{user} is not one of the two people of {conversation}.")
    head, *_ = stored_head
    channel = without_thread(conversation)
    sees_channel = None
    if is_in_workspace(conversation):
        sees_channel = bool(await source.store.channel_rights.find_many(user, {channel: 0}))
    row = await mongo.find_one(SESSIONS, {"_id": session_row_id(user, conversation)})
    member_row = await mongo.find_one(MEMBERS, {"_id": member_row_id(conversation, user)})
    rows = source.session_rows
    if conversation == channel and sees_channel is not None:
        records = await rows.read_channels_without_ticks(user)
    else:
        records = await rows.read_without_ticks(user)
    session = Session(user, conversation, records[conversation]) if conversation in records else None
    if session is not None and session.comes_from_head and not session.hidden:
        session = with_head(session, head)
    member = member_from(user, member_row) if member_row is not None else None
    if row is None and member is None and await source.store.users.find(user) is None:
        raise NoSuchObject(f"There is no user {user}.")
    return StoredSession(head, row, session, member, sees_channel)


def view_stored(stored: StoredSession) -> View:
    """Return the positions and settings of a session, and the membership."""
    view: View = {"session": view_session(stored.session) if stored.session is not None else None}
    if stored.row is not None:
        view["joined"] = without_empty(seq=stored.row.get(JOINED_SEQ), counted_messages=stored.row.get(JOINED_N))
    if stored.member is not None:
        view["membership"] = {
            "is_current": stored.member.is_current,
            "intervals": [[first, last] for first, last in stored.member.intervals],
        }
    if stored.sees_channel is not None:
        view["can_see_the_channel"] = stored.sees_channel
    head = stored.head
    view["head"] = {
        "newest_seq": head.seq,
        "counted_messages": head.newest_n,
        "expired_up_to_seq": head.floor_seq,
        "expired_counted_messages": head.floor_n,
        "ended_at_seq": head.ended_at,
    }
    return view


def view_session(session: Session) -> View:
    """Return the fields of a session that its unread count follows from, by the names of the API where it has them."""
    return {
        "writeSeq": session.write_seq,
        "counted_messages": session.n,
        "readSeq": session.read_seq,
        "readCount": session.read_count,
        "deliveredSeq": session.delivered_seq,
        "unreadCount": session.unread_count,
        "unreadMentionCount": session.unread_mention_count,
    } | without_empty(
        read_seq_without_deletion=session.acknowledged_seq if session.acknowledged_seq != session.read_seq else None,
        counted_messages_read=session.read_n,
        deleted_at_seq=session.deleted_seq,
        deleted_counted_messages=session.deleted_n,
        last_readable_seq=session.last_readable_seq,
        is_muted=session.muted or None,
        muted_until=time_text(session.muted_until_ms),
        marked_unread_at_seq=session.unread_mark if session.unread_status else None,
        sub_biz=session.sub_biz,
        follows=session.follows or None,
        is_hidden=session.hidden or None,
        group_has_ended=session.dissolved or None,
        is_valid=session.valid,
        mentions=list(session.mentions),
    )

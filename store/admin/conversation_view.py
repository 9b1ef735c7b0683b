"""View of one conversation: what is stored, and what Redis has."""

from __future__ import annotations

from typing import Any

from store.admin.cached_reads import list_waiting_entries, read_head
from store.admin.source import NOT_KNOWN, AdminSource, NoSuchObject, View, seconds_of, time_text, without_empty
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private, parse_thread
from store.base.workspace_ids import workspace_of_channel
from store.conversations.conversation import Head, Member, member_from
from store.conversations.conversation_fields import ConversationField, HeadField
from store.conversations.head_loader import HeadLoader
from store.conversations.head_loader import head_fields as fields_of_row
from store.conversations.heads.head_records import decode_head, head_fields
from store.messages.message import Message
from store.mongo.client import Document
from store.redis.cache import Call

MOST_MEMBERS = 100
"""Members that a view lists."""

_F = ConversationField


async def read_stored_head(
    source: AdminSource, conversation: ConversationId, *, with_members: bool = False
) -> tuple[Head, Document, list[Member]] | None:
    """Return a head as a load from MongoDB gives it, its document, and the memberships of a group or thread.

    None: there is no such conversation. One round trip.
    """
    loader = HeadLoader(source.store.mongo, source.store.cache, source.store.keys)
    rows, members = await loader.read([conversation], with_members)
    if conversation not in rows:
        return None
    row, start = rows[conversation], len(conversation) + 1
    fields = fields_of_row(row)
    values = [fields.get(name) for name in head_fields(conversation)]
    head = decode_head(conversation, [_as_bytes(value) for value in values])
    found = [member_from(UserId(each["_id"][start:]), each) for each in members.get(conversation, ())]
    return head, row, found


async def view_conversation(source: AdminSource, id: str) -> View:
    """Return the view of a conversation. Raises NoSuchObject and StoreError."""
    conversation = check_conversation(id)
    found = await read_stored_head(source, conversation, with_members=True)
    if found is None:
        raise NoSuchObject(f"There is no conversation {id}.")
    head, row, members = found
    view: View = {"conversation": id, "kind": head.kind.value}
    people, thread = parse_private(conversation), parse_thread(conversation)
    if people is not None:
        view["people"] = list(people[:2])
        view |= without_empty(sub_biz=people[2], blocked=sorted(head.blocked))
    if thread is not None:
        view |= {"parent": thread.parent, "parent_seq": thread.seq}
    if head.kind is ConversationKind.CHANNEL:
        view["channel"] = await _view_channel(source, conversation)
    if head.group is not None:
        view["group"] = without_empty(name=head.group.name, owner=head.group.owner, sub_biz=head.group.sub_biz) | {
            "full_history": head.group.full_history,
            "version": head.version,
        }
    if members:
        current = [member for member in members if member.is_current]
        view["members"] = {
            "count_in_head": head.member_count,
            "current": len(current),
            "former": len(members) - len(current),
            "listed": [_view_member(member) for member in sorted(members, key=lambda m: m.user)[:MOST_MEMBERS]],
        }
    view["head"] = _view_head(source, head, row)
    if head.thread is not None:
        view["thread"] = {
            "replies": head.reply_count,
            "recalled_replies": head.thread.recalled_count,
            "participants": head.thread.participant_count,
            "followers": head.member_count,
            "is_locked": head.thread.is_locked,
        }
    else:
        threads = await source.store.thread_lists.sum_threads(conversation)
        view["threads"] = threads._asdict()
    pins = await source.store.pins.find(conversation)
    view["pins"] = {"count": len(pins.items), "changes": pins.version, "seqs": [pin.seq for pin in pins.items]}
    view["retention"] = {
        "messages_up_to_seq_are_expired": head.floor_seq,
        "counted_messages_expired": head.floor_n,
        "oldest_message_not_before": time_text(row.get(_F.OLDEST_AT)),
    }
    return view | await _view_cached(source, conversation)


def check_conversation(id: str) -> ConversationId:
    """Return the id of a conversation. Raises NoSuchObject for one of another form, or of a gateway."""
    kind = kind_of(id)
    if kind is ConversationKind.SUB_BIZ:
        raise NoSuchObject(f"{id} is a gateway: each user has sessions in it, but it is no conversation.")
    if kind is None:
        raise NoSuchObject(f"{id!r} has not the form of a conversation id (p_…, g_…, c_… or t_…).")
    return ConversationId(id)


def _view_member(member: Member) -> View:
    return without_empty(
        user=member.user,
        role=member.role,
        joined_at=time_text(member.joined_at_ms),
        intervals=[[first, last] for first, last in member.intervals],
        stopped_following=member.unfollowed or None,
        is_current=member.is_current or None,
    )


def _view_head(source: AdminSource, head: Head, row: Document) -> View:
    view = {
        "newest_seq": head.seq,
        "counted_messages": head.newest_n,
        "seq_in_document": row[_F.SEQ],
        "counted_in_document": row[_F.N],
        "last_change_at": time_text(row.get(_F.MOVED_AT)),
        "last_counted_message_at": time_text(row.get(_F.WRITTEN_AT)),
        "newest_message": view_message(source, head.newest) if head.newest is not None else None,
    }
    if head.has_ended:
        view["ended"] = {"at_seq": head.ended_at, "is_dismissed": head.dismissed}
    return view


def view_message(source: AdminSource, message: Message) -> View:
    """Return what a view shows of a message: its text only if the source shows texts."""
    view = without_empty(
        id=message.public_id,
        seq=message.seq,
        sender=message.sender,
        kind=message.kind.name,
        sent_at=time_text(message.created_at_ms),
        recalled_at=time_text(message.recalled_at_ms),
    )
    return view | ({"text": message.text} if source.shows_texts else {})


async def _view_channel(source: AdminSource, channel: ConversationId) -> View:
    store, workspace = source.store, workspace_of_channel(channel)
    info = await store.workspaces.find(workspace)
    policy = await store.policies.read(workspace)
    settings = policy.channels.get(channel) if policy is not None else None
    view: View = {"workspace": workspace, "workspace_name": info.name if info is not None else None}
    if policy is not None:
        view |= {"policy_version": policy.version, "incomplete_changes_of_rights": len(policy.pending)}
    if settings is not None:
        view |= {
            "name": settings.name,
            "kind": settings.kind.name,
            "is_archived": settings.is_archived,
            "members_or_followers": settings.member_count,
        }
    if not source.has_redis:
        return view | {"rev": NOT_KNOWN}
    fields = ("epoch", "clock", HeadField.POLICY_VERSION)
    epoch, clock, version = await store.cache.one(Call("HMGET", store.keys.clock(workspace), fields))
    return view | {
        "rev": f"{int(clock)} in epoch {epoch.decode()}" if epoch else "there is no clock yet",
        "cached_policy_version": int(version) if version is not None else None,
    }


async def _view_cached(source: AdminSource, conversation: ConversationId) -> View:
    view: View = {"outbox": NOT_KNOWN, "cached_head": NOT_KNOWN, "redis": source.redis_view()}
    if not source.has_redis:
        return view
    view["outbox"] = [
        {"entry": entry.id, "seq": entry.seq or None, "waits_seconds": seconds_of(entry.age_ms)}
        for entry in await list_waiting_entries(source.store, conversation)
    ]
    cached = await read_head(source.store, conversation)
    view["cached_head"] = (
        without_empty(
            newest_seq=cached.head.seq,
            newest_reserved_seq=cached.reserved_seq,
            counted_messages=cached.head.newest_n,
            version=cached.head.version,
            policy_version=cached.head.policy_version or None,
            pending_change=cached.pending_change,
        )
        if cached is not None
        else None
    )
    return view


def _as_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()

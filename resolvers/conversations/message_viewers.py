"""The users who can read a message now: the members of a conversation, or some of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from resolvers.conversations.channel_access import readable_ranges
from resolvers.conversations.visibility import is_visible, visible_ranges
from store.base.ids import ConversationId, UserId, parse_private, parse_thread
from store.base.workspace_ids import is_in_workspace
from store.messages.message import Message
from store.store import Store


async def list_readers(
    store: Store, conversation: ConversationId, seqs: Sequence[int], *, without_gap: bool = False
) -> list[UserId]:
    """Return the current members of a private conversation or group who can read the messages at some seqs.

    without_gap: Only those who can read all messages after the first of these as well.
    """
    people = parse_private(conversation)
    if people is not None:
        return list(people[:2])
    head = await store.conversations.find(conversation)
    if head is None or head.group is None or head.has_ended:
        return []
    if min(seqs) <= head.floor_seq:
        return []
    members = await store.conversations.find_present_members(conversation)
    if head.group.full_history:
        return members.current_members()
    readers = members.present_at(seqs)
    if without_gap:
        uninterrupted = {user for first, user in members.current if first <= seqs[0]}
        return [user for user in readers if user in uninterrupted]
    return readers


async def list_message_viewers(store: Store, message: Message) -> list[UserId]:
    """Return the users who can read a message and have its events on their own clocks.

    In private conversations and groups the current members, in threads the followers; nobody in a channel.
    """
    if parse_thread(message.conversation) is None:
        return await list_readers(store, message.conversation, [message.seq])
    followers = (await store.conversations.find_present_members(message.conversation)).current_members()
    return await select_viewers(store, message, followers)


async def select_viewers(store: Store, message: Message, users: Collection[UserId]) -> list[UserId]:
    """Return those of some users who are in a conversation now and can read a message there.

    They can read a reply if they can read both its parent message and the seq that the parent conversation had at that
    time. Rights in channels are judged under the present policy. One round trip in a group that is cached.
    """
    if not users:
        return []
    place = parse_thread(message.conversation)
    deciding = place.parent if place is not None else message.conversation
    seqs = (place.seq, message.parent_seq) if place is not None else (message.seq,)
    people = parse_private(deciding)
    if people is not None:
        return [user for user in users if user in people[:2]]
    if is_in_workspace(deciding):
        return await _select_in_channel(store, deciding, seqs, users)
    snapshot = await store.conversations.find_group_snapshot(deciding, list(users))
    if snapshot is None or snapshot.head.group is None:
        return []
    full_history, floor_seq = snapshot.head.group.full_history, snapshot.head.floor_seq
    ranges = {
        user: visible_ranges(member, full_history=full_history, floor_seq=floor_seq)
        for user, member in snapshot.members.items()
        if member.is_current
    }
    return [user for user in users if user in ranges and all(is_visible(seq, ranges[user]) for seq in seqs)]


async def _select_in_channel(
    store: Store, channel: ConversationId, seqs: Sequence[int], users: Collection[UserId]
) -> list[UserId]:
    """Return those of some users who can read the messages at some seqs of a channel."""
    head = await store.conversations.find(channel)
    if head is None:
        return []
    rights = await store.channel_rights.find_viewers(channel, users, head.policy_version)
    ranges = {user: await readable_ranges(store, each, head) for user, each in rights.items()}
    return [user for user in users if user in ranges and all(is_visible(seq, ranges[user]) for seq in seqs)]

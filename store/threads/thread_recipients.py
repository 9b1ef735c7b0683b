"""The users who get replies: followers who can see the parent conversation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import TypeVar

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_thread
from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_rights import ChannelRights, ChannelRightsFinder
from store.conversations.conversation_store import ConversationStore
from store.conversations.recipient_lists import RecipientList
from store.messages.message import ReservedMessage
from store.workspaces.policies import Policies

T = TypeVar("T")

_MAX_KEPT = 2_000
"""Parent conversations and threads for which a process keeps who sees what."""


class ThreadRecipients:
    """Finds the recipients of replies. No round trip if followers and members or rights are known by version."""

    def __init__(self, conversations: ConversationStore, rights: ChannelRightsFinder, policies: Policies) -> None:
        self._conversations = conversations
        self._rights = rights
        self._policies = policies
        self._members: OrderedDict[ConversationId, tuple[RecipientList, Mapping[UserId, int]]] = OrderedDict()
        self._viewers: OrderedDict[ConversationId, tuple[str, int, frozenset[UserId]]] = OrderedDict()

    async def find_followers(self, reserved: ReservedMessage) -> list[UserId]:
        """Return the followers at a reply's place who could see the parent conversation at that moment.

        In a channel they can see it under the policy version of the place, or a later one.
        """
        message = reserved.message
        place = parse_thread(message.conversation)
        assert place is not None
        known = await self._conversations.find_recipient_list(message.conversation, reserved.membership_version)
        followers = known.members_at(message.seq)
        match kind_of(place.parent):
            case ConversationKind.GROUP:
                members = await self._conversations.find_recipient_list(place.parent, reserved.parent_version)
                present = self._select_members(place.parent, members, followers, message.parent_seq)
                if await self._has_full_history(reserved, place.parent):
                    return present
                return self._select_readers(place.parent, members, present, place.seq)
            case ConversationKind.CHANNEL:
                viewers = await self._find_viewers(reserved, place.parent, known)
                return [user for user in followers if user in viewers]
            case _:
                return followers

    async def select_viewers(self, thread: ConversationId, users: Sequence[UserId]) -> list[UserId]:
        """Return those of some users who can see a thread, by the present members or rights of its parent conversation.

        One round trip to Redis if these are known.
        """
        place = parse_thread(thread)
        assert place is not None
        match kind_of(place.parent):
            case ConversationKind.GROUP:
                seen = await self._conversations.find_group_snapshot(place.parent, users)
                if seen is None or seen.head.group is None or seen.head.has_ended:
                    return []
                full_history, members = seen.head.group.full_history, seen.members
                return [
                    user
                    for user in users
                    if user in members and members[user].can_read(place.seq, full_history=full_history)
                ]
            case ConversationKind.CHANNEL:
                version = await self._policies.current_version(workspace_of_channel(place.parent))
                viewers = await self._rights.find_viewers(place.parent, users, version) if version is not None else {}
                return [user for user in users if user in viewers]
            case _:
                return list(users)

    def _select_members(
        self, group: ConversationId, members: RecipientList, users: Sequence[UserId], seq: int
    ) -> list[UserId]:
        """Return the users who were members of a group at a seq. Takes as long as there are users, not members."""
        kept = self._members.get(group)
        if kept is None or kept[0] is not members:
            kept = members, {user: first for first, user in members.current}
            _keep(self._members, group, kept)
        first_seqs = kept[1]
        ended = takewhile(lambda interval: interval[1] >= seq, members.former)
        former = {user for first, _, user in ended if first <= seq}
        return [user for user in users if first_seqs.get(user, seq + 1) <= seq or user in former]

    async def _has_full_history(self, reserved: ReservedMessage, group: ConversationId) -> bool:
        """Return whether members read what came before they joined, as it was at the place of a reply."""
        if reserved.parent_full_history is not None:
            return reserved.parent_full_history
        head = await self._conversations.find(group)
        return head is not None and head.group is not None and head.group.full_history

    def _select_readers(
        self, group: ConversationId, members: RecipientList, users: Sequence[UserId], seq: int
    ) -> list[UserId]:
        """Return those of some members who were in the group when the parent message was sent at a seq."""
        first_seqs = self._members[group][1]
        if all(first_seqs.get(user, seq + 1) <= seq for user in users):
            return list(users)
        earlier = {user for first, last, user in members.former if first <= seq <= last}
        return [user for user in users if first_seqs.get(user, seq + 1) <= seq or user in earlier]

    async def _find_viewers(
        self, reserved: ReservedMessage, channel: ConversationId, followers: RecipientList
    ) -> Collection[UserId]:
        """Return all present and former followers of a thread who can see its channel."""
        thread, workspace = reserved.message.conversation, workspace_of_channel(channel)
        version = reserved.judged_version or await self._policies.current_version(workspace)
        policy = await self._policies.find(workspace, version) if version is not None else None
        if policy is None:
            return ()
        kept = self._viewers.get(thread)
        if kept is not None and followers.version and kept[:2] == (followers.version, policy.version):
            return kept[2]
        users = dict.fromkeys([*(user for _, user in followers.current), *(user for *_, user in followers.former)])
        found = await self._rights.find_viewers(channel, users, policy.version)
        viewers = frozenset(user for user, rights in found.items() if _may_see(rights, thread))
        _keep(self._viewers, thread, (followers.version, policy.version, viewers))
        return viewers


def _may_see(rights: ChannelRights, thread: ConversationId) -> bool:
    """Return whether the parent message of a thread was sent while a user was in the PRIVATE channel, if it is one."""
    place, ranges = parse_thread(thread), rights.whole_history.ranges
    if place is None or ranges is None:
        return True
    return any(first <= place.seq and (last is None or place.seq <= last) for first, last in ranges)


def _keep(kept: OrderedDict[ConversationId, T], key: ConversationId, value: T) -> None:
    """Add to what is kept. If there is too much, the part that was added first is dropped."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > _MAX_KEPT:
        kept.popitem(last=False)

"""The audience of a workspace on one process: the subscribers, and what they may see under one policy version."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.base.snowflakes import first_id_at
from store.base.workspace_ids import WorkspaceId
from store.channels.channel_members import ChannelMembers
from store.conversations.conversation import Member
from store.messages.message import Message
from store.workspaces.permissions import Permission
from store.workspaces.policies import Policies
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Policy
from store.workspaces.rights import rights_in_channel


@dataclass(slots=True)
class _Subscriber:
    """A user with subscriptions to the workspace on this process.

    `facts`: None if the user is not a member. `memberships`: of PRIVATE channels; None for those that the user is not
    in, and absent for those that were not asked for. Both are valid under the policy of the audience.
    """

    subscriptions: int = 0
    channels: Counter[ConversationId] = field(default_factory=Counter)
    """Channels that are looked at."""
    wants_all: int = 0
    """Subscriptions that need all channels."""
    facts: MemberFacts | None = None
    memberships: dict[ConversationId, Member | None] = field(default_factory=dict)
    accesses: dict[ConversationId, ChannelAccess | None] = field(default_factory=dict)
    """Accesses that were judged under the policy of the audience."""


class ChannelAccess(NamedTuple):
    """A subscriber's access to a channel that they see.

    Attributes:
        joined_at_ms: When they joined the workspace.
        intervals: First and last seq of their memberships, if the channel is PRIVATE.
        reads_history: They may read messages from before now.
        full_history: The history includes messages from before they joined.
    """

    joined_at_ms: int
    intervals: Sequence[tuple[int, int | None]]
    reads_history: bool
    full_history: bool

    def continues(self, earlier: ChannelAccess) -> bool:
        """Return whether it has not been interrupted since an earlier moment."""
        if self.joined_at_ms != earlier.joined_at_ms:
            return False
        # In a PUBLIC channel there are no memberships that could end.
        is_member = self.intervals and earlier.intervals
        return not is_member or self.intervals[-1][0] == earlier.intervals[-1][0]

    def may_read(self, message: Message) -> bool:
        """Return whether the history that they may read has a message."""
        if not self.reads_history or self.full_history:
            return self.reads_history
        if self.intervals:
            return any(first <= message.seq and (last is None or message.seq <= last) for first, last in self.intervals)
        return message.id >= first_id_at(self.joined_at_ms)


class Audience:
    """Subscribers of one workspace. Rights are judged without waiting, under the policy of the last `refresh`."""

    def __init__(
        self, workspace: WorkspaceId, policies: Policies, channel_members: ChannelMembers, clock: Clock
    ) -> None:
        """Begin without subscribers."""
        self.workspace = workspace
        self.policy: Policy | None = None
        """None: not read yet, or there is no such workspace any more."""
        self.version = 0
        """Facts are valid under this policy version. All later events have to wait for a refresh."""
        self._policies = policies
        self._channel_members = channel_members
        self._clock = clock
        self._subscribers: dict[UserId, _Subscriber] = {}
        self._lock = asyncio.Lock()

    def __len__(self) -> int:
        """Return the number of users."""
        return len(self._subscribers)

    def has_any(self, users: Iterable[UserId]) -> bool:
        """Return whether one of some users subscribes."""
        return any(user in self._subscribers for user in users)

    def add(self, user: UserId, channels: Collection[ConversationId] | None) -> None:
        """Add a subscription to some channels; None: to all. Call `refresh` before rights are judged."""
        subscriber = self._subscribers.setdefault(user, _Subscriber())
        subscriber.subscriptions += 1
        if channels is None:
            subscriber.wants_all += 1
        else:
            subscriber.channels.update(channels)

    def remove(self, user: UserId, channels: Collection[ConversationId] | None) -> None:
        """Remove a subscription that was added."""
        subscriber = self._subscribers[user]
        subscriber.subscriptions -= 1
        if not subscriber.subscriptions:
            del self._subscribers[user]
            return
        if channels is None:
            subscriber.wants_all -= 1
        else:
            subscriber.channels -= Counter(channels)

    async def refresh(self, at_least: int, users: Iterable[UserId] = ()) -> None:
        """Read what is missing or outdated, until rights are judged under a policy version or a later one.

        Args:
            at_least: The version.
            users: Subscribers who were added, or whose facts were dropped. Others are ignored.

        Raises:
            StoreError: Rights are judged as before.
        """
        added = self._subscribers.keys() & set(users)
        async with self._lock:
            if self.version >= at_least and not added:
                return
            policy = await self._policies.find(self.workspace, max(at_least, self.version))
            if policy is None:
                self.policy, self.version = None, max(at_least, self.version)
                return
            await self._refresh(policy, added)

    async def _refresh(self, policy: Policy, added: set[UserId]) -> None:
        outdated = [
            user
            for user in self._subscribers
            if user in added or self.policy is None or not policy.accepts(MemberFacts(user, self.version))
        ]
        found = await self._policies.find_members(self.workspace, outdated, policy.version) if outdated else {}
        known = self._policies.known(self.workspace)
        if known is not None and known.version > policy.version:
            # Facts and memberships have to be valid under the policy that is used.
            return await self._refresh(known, added)
        private = {channel.id for channel in policy.channels.values() if channel.kind is ChannelKind.PRIVATE}
        places = list[tuple[ConversationId, UserId]]()
        renewed = set(outdated)
        for user, subscriber in self._subscribers.items():
            wanted = private if subscriber.wants_all else private & subscriber.channels.keys()
            missing = wanted if user in renewed else wanted - subscriber.memberships.keys()
            places += [(channel, user) for channel in missing]
        members = await self._channel_members.find_many(policy, places) if places else {}
        # Everything was read: change it in one step.
        for user in renewed & self._subscribers.keys():
            self._subscribers[user].facts = found.get(user)
            self._subscribers[user].memberships = {}
        for channel, user in places:
            if user in self._subscribers:
                self._subscribers[user].memberships[channel] = members.get((channel, user))
        for subscriber in self._subscribers.values():
            subscriber.accesses = {}
        self.policy, self.version = policy, policy.version
        return None

    def accepts(self, version: int) -> bool:
        """Return whether rights are judged under a policy version or a later one."""
        return self.version >= version

    def find_facts(self, user: UserId) -> MemberFacts | None:
        """Return the facts about a subscriber; None if they are not a member."""
        subscriber = self._subscribers.get(user)
        return subscriber.facts if subscriber is not None and self.policy is not None else None

    def find_access(self, user: UserId, channel: ConversationId) -> ChannelAccess | None:
        """Return a subscriber's access to a channel that they subscribed to; None if they can't see it."""
        subscriber = self._subscribers.get(user)
        if subscriber is None or self.policy is None or subscriber.facts is None:
            return None
        if channel not in subscriber.accesses:
            settings, member = self.policy.channels.get(channel), subscriber.memberships.get(channel)
            subscriber.accesses[channel] = (
                self._judge(self.policy, subscriber.facts, settings, member) if settings is not None else None
            )
        return subscriber.accesses[channel]

    def list_visible(self, user: UserId) -> frozenset[ConversationId]:
        """Return the channels that a subscriber to all of them can see."""
        if self.policy is None:
            return frozenset()
        return frozenset(channel for channel in self.policy.channels if self.find_access(user, channel) is not None)

    def _judge(
        self, policy: Policy, facts: MemberFacts, channel: Channel, member: Member | None
    ) -> ChannelAccess | None:
        is_private = channel.kind is ChannelKind.PRIVATE
        if is_private and member is None:
            return None
        # A time-out hides neither a channel nor its history.
        facts = replace(facts, timed_out_until_ms=0) if facts.timed_out_until_ms else facts
        rights = rights_in_channel(policy, facts, channel, member is not None, self._clock.now_ms())
        if Permission.VIEW_CHANNEL not in rights:
            return None
        return ChannelAccess(
            facts.joined_at_ms,
            member.intervals if is_private and member is not None else (),
            Permission.READ_HISTORY in rights,
            channel.full_history,
        )

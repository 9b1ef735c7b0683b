"""The audience of a workspace on one process: the subscribers, and what they may see under one policy version."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeVar

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.channels.channel_history import ChannelHistory, channel_history
from store.channels.channel_members import ChannelMembers
from store.conversations.conversation import Member
from store.workspaces.permissions import Permission
from store.workspaces.policies import Policies
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Policy
from store.workspaces.rights import rights_in_channel
from store.workspaces.visible_channels import NO_CHANNELS, ChannelVisibility, VisibleChannels
from subscriptions.realtime.shared.loop_slices import LoopSlices

_READ_AT_ONCE = 1_000
"""Documents that one query reads."""

T = TypeVar("T")


@dataclass(slots=True)
class _Subscriber:
    """A user with subscriptions to the workspace on this process.

    `facts`: None if the user is not a member. `memberships`: of PRIVATE channels that are looked at, or of all if some
    subscription needs all. Both are valid under the policy of the audience.
    """

    subscriptions: int = 0
    channels: Counter[ConversationId] = field(default_factory=Counter)
    """Channels that are looked at."""
    wants_all: int = 0
    """Subscriptions that need all channels."""
    facts: MemberFacts | None = None
    memberships: dict[ConversationId, Member] = field(default_factory=dict)
    visible: VisibleChannels = NO_CHANNELS
    """Computed if some subscription needs all channels."""
    accesses: dict[ConversationId, ChannelAccess | None] = field(default_factory=dict)
    """Accesses that were judged under the policy of the audience."""


class _Renewed(NamedTuple):
    """Facts that a refresh has found about a subscriber."""

    facts: MemberFacts | None
    memberships: dict[ConversationId, Member]
    visible: VisibleChannels


class ChannelAccess(NamedTuple):
    """A subscriber's access to a channel that they see.

    Attributes:
        joined_at_ms: When they joined the workspace.
        member_since: The first seq of their membership, if the channel is PRIVATE.
        history: What they may read; None: only messages that are sent from now on.
    """

    joined_at_ms: int
    member_since: int | None
    history: ChannelHistory | None

    def continues(self, earlier: ChannelAccess) -> bool:
        """Return whether it has not been interrupted since an earlier moment."""
        if self.joined_at_ms != earlier.joined_at_ms:
            return False
        # In a PUBLIC channel there are no memberships that could end.
        return None in (self.member_since, earlier.member_since) or self.member_since == earlier.member_since


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
        self._added: set[UserId] = set()
        """Users named by calls of `refresh`, until one of the calls begins to read about them."""
        self._lock = asyncio.Lock()
        self._visibility: ChannelVisibility | None = None

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

        Calls that wait for another one share the next reads.

        Args:
            at_least: The version.
            users: Subscribers who were added, or whose facts were dropped. Others are ignored.

        Raises:
            StoreError: Rights are judged as before.
        """
        wanted = set(users)
        self._added |= wanted
        async with self._lock:
            # Users that another call has taken were read after this call began.
            if self.version >= at_least and not wanted & self._added & self._subscribers.keys():
                return
            added, self._added = self._added, set()
            try:
                policy = await self._policies.find(self.workspace, max(at_least, self.version))
                if policy is None:
                    self.policy, self.version = None, max(at_least, self.version)
                    return
                await self._refresh(policy, added & self._subscribers.keys())
            except BaseException:
                self._added |= added
                raise

    async def _refresh(self, policy: Policy, added: set[UserId]) -> None:
        """Judge under a policy, and find out about subscribers who were added. Changes all in one step at the end."""
        is_new = self.policy is None or policy.version > self.version
        outdated = {user for user in self._subscribers if user in added or (is_new and self._is_outdated(policy, user))}
        facts = await self._find_facts(policy, outdated)
        known = self._policies.known(self.workspace)
        if known is not None and known.version > policy.version:
            # Facts and memberships have to be valid under the policy that is used.
            return await self._refresh(known, added)
        visibility = self._visibility
        if is_new or visibility is None:
            visibility = ChannelVisibility(policy, visibility)
        # Some may have left during the read.
        concerned = {user: each for user, each in self._subscribers.items() if is_new or user in outdated}
        places = self._missing_memberships(visibility, concerned, outdated)
        members = await self._find_memberships(policy, places)
        renewed: dict[UserId, _Renewed] = {}
        slices = LoopSlices()
        for user, subscriber in concerned.items():
            await slices.next()
            is_outdated = user in outdated
            own_facts = facts.get(user) if is_outdated else subscriber.facts
            memberships = {} if is_outdated else subscriber.memberships
            if user in places:
                memberships = {name: each for name, each in memberships.items() if name not in places[user]}
                memberships |= members.get(user, {})
            visible = NO_CHANNELS
            if own_facts is not None and subscriber.wants_all:
                visible = visibility.find(own_facts, memberships)
            renewed[user] = _Renewed(own_facts, memberships, visible)
        for user, (own_facts, memberships, visible) in renewed.items():
            if user in self._subscribers:
                subscriber = self._subscribers[user]
                subscriber.facts, subscriber.memberships, subscriber.visible = own_facts, memberships, visible
                subscriber.accesses = {}
        self.policy, self.version, self._visibility = policy, policy.version, visibility
        return None

    def _is_outdated(self, policy: Policy, user: UserId) -> bool:
        return self.policy is None or not policy.accepts(MemberFacts(user, self.version))

    async def _find_facts(self, policy: Policy, users: Collection[UserId]) -> dict[UserId, MemberFacts]:
        found: dict[UserId, MemberFacts] = {}
        for part in _batches(users):
            found |= await self._policies.find_members(self.workspace, part, policy.version)
        return found

    def _missing_memberships(
        self, visibility: ChannelVisibility, subscribers: Mapping[UserId, _Subscriber], outdated: Collection[UserId]
    ) -> dict[UserId, Collection[ConversationId]]:
        """Return the PRIVATE channels for which memberships of subscribers have to be read."""
        private = visibility.private.keys()
        known = self._visibility.private.keys() if self._visibility is not None else frozenset()
        changed = [
            (name, channel.membership_changes)
            for name, channel in visibility.private.items()
            if channel.membership_changes.newest > self.version
        ]
        missing: dict[UserId, Collection[ConversationId]] = {}
        for user, subscriber in subscribers.items():
            channels: Collection[ConversationId] = private
            if user not in outdated:
                renewed = {name for name, changes in changed if not changes.accepts(user, self.version)}
                channels = (private - known) | renewed
            wanted = channels if subscriber.wants_all else subscriber.channels.keys() & channels
            if wanted:
                missing[user] = wanted
        return missing

    async def _find_memberships(
        self, policy: Policy, wanted: Mapping[UserId, Collection[ConversationId]]
    ) -> dict[UserId, dict[ConversationId, Member]]:
        """Read memberships in batches: the number of PRIVATE channels times the number of subscribers is large."""
        found: dict[UserId, dict[ConversationId, Member]] = {}
        places = ((channel, user) for user, channels in wanted.items() for channel in channels)
        for part in _batches(places):
            for (channel, user), member in (await self._channel_members.find_many(policy, part)).items():
                found.setdefault(user, {})[channel] = member
        return found

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

    def find_visible(self, user: UserId) -> VisibleChannels:
        """Return the channels that a subscriber to all of them can see."""
        subscriber = self._subscribers.get(user)
        return subscriber.visible if subscriber is not None and self.policy is not None else NO_CHANNELS

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
        reads_history = Permission.READ_HISTORY in rights
        return ChannelAccess(
            facts.joined_at_ms,
            member.intervals[-1][0] if is_private and member is not None else None,
            channel_history(channel, facts, member if is_private else None) if reads_history else None,
        )


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists that one query can read."""
    left = iter(items)
    while batch := list(islice(left, _READ_AT_ONCE)):
        yield batch

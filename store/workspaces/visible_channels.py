"""The channels that members can see. Members with the same roles share one set, however many channels there are."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from store.base.ids import ConversationId
from store.base.workspace_ids import RoleId
from store.workspaces.permissions import Permission
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, OverwritePlace, Policy
from store.workspaces.rights import rights_in_channel

_NOW_MS = 0
"""A time-out hides no channel. So visible channels do not depend on the time."""


class VisibleChannels(NamedTuple):
    """The channels that one member can see.

    Attributes:
        open: Those that are not PRIVATE. One object for all members who see the same ones.
        private: PRIVATE ones.
    """

    open: frozenset[ConversationId] = frozenset()
    private: frozenset[ConversationId] = frozenset()

    def has(self, channel: ConversationId) -> bool:
        """Return whether a channel is visible."""
        return channel in self.open or channel in self.private

    def all(self) -> frozenset[ConversationId]:
        """Return the visible channels."""
        return self.open | self.private

    def without(self, others: VisibleChannels) -> frozenset[ConversationId]:
        """Return the channels that are visible, and are not among others."""
        if self == others:
            return frozenset()
        return frozenset(
            channel
            for channel in _difference(self.open, others.open) | (self.private - others.private)
            if not others.has(channel)
        )


NO_CHANNELS = VisibleChannels()


@lru_cache(maxsize=256)
def _difference(one: frozenset[ConversationId], other: frozenset[ConversationId]) -> frozenset[ConversationId]:
    """Return `one - other`, computed once for all members with the same sets. Sets keep their hash."""
    return one - other


class ChannelVisibility:
    """Finds the channels that members can see, under one policy."""

    def __init__(self, policy: Policy, earlier: ChannelVisibility | None = None) -> None:
        """Group the channels by the overwrites that apply in them.

        `earlier`: its sets are used again where they are equal, so that comparing them costs nothing.
        """
        self.policy = policy
        self.private: dict[ConversationId, Channel] = {}
        """The PRIVATE channels."""
        places: dict[OverwritePlace, list[Channel]] = {}
        for channel in policy.channels.values():
            if channel.kind is ChannelKind.PRIVATE:
                self.private[channel.id] = channel
            else:
                places.setdefault(policy.overwrite_place(channel), []).append(channel)
        self._places = [(inside[0], frozenset(channel.id for channel in inside)) for inside in places.values()]
        """For each place of overwrites one channel as an example, and all its channels."""
        users = (policy.overwrites_of(example).users for example, _ in self._places)
        self._with_overwrites = {policy.owner}.union(*users)
        """Members whose rights do not only depend on their roles."""
        self._by_roles: dict[frozenset[RoleId], frozenset[ConversationId]] = {}
        self._sets: dict[frozenset[ConversationId], frozenset[ConversationId]] = {}
        """Each set that was computed: one object for all members with equal ones."""
        self._earlier_sets = earlier._sets if earlier is not None else {}

    def find(self, facts: MemberFacts, memberships: Collection[ConversationId]) -> VisibleChannels:
        """Return the channels that a member can see. memberships: the PRIVATE channels that they are a member of."""
        private = frozenset(
            name for name in memberships if name in self.private and self._may_see(facts, self.private[name])
        )
        is_special = facts.user in self._with_overwrites
        return VisibleChannels(self._of_member(facts) if is_special else self._of_roles(facts), private)

    def _of_roles(self, facts: MemberFacts) -> frozenset[ConversationId]:
        visible = self._by_roles.get(facts.roles)
        if visible is None:
            visible = self._by_roles[facts.roles] = self._of_member(facts)
        return visible

    def _of_member(self, facts: MemberFacts) -> frozenset[ConversationId]:
        parts = [channels for example, channels in self._places if self._may_see(facts, example)]
        visible = frozenset[ConversationId]().union(*parts)
        return self._sets.setdefault(visible, self._earlier_sets.get(visible, visible))

    def _may_see(self, facts: MemberFacts, channel: Channel) -> bool:
        return Permission.VIEW_CHANNEL in rights_in_channel(self.policy, facts, channel, True, _NOW_MS)

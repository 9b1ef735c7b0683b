"""Memberships of PRIVATE channels: looked up by user, and never read as a whole."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.conversations.conversation import Member, member_from
from store.mongo.client import Mongo
from store.mongo.collections import MEMBERS, member_row_id
from store.mongo.joined_reads import JoinedReads
from store.workspaces.policy import ChannelKind, Policy

_MAX_MEMBERSHIPS = 100_000
"""Memberships that a process keeps: about 50 MB at most."""


class ChannelMembers:
    """Memberships that this process keeps, each with the policy version under which it was read.

    That a user is not a member is kept too: a membership that begins raises the policy version.
    """

    def __init__(self, mongo: Mongo) -> None:
        """Keep nothing yet."""
        self._rows = JoinedReads(mongo, MEMBERS)
        self._kept: OrderedDict[tuple[ConversationId, UserId], tuple[int, Member | None]] = OrderedDict()

    def find_kept(self, policy: Policy, channel: ConversationId, user: UserId) -> tuple[Member | None] | None:
        """Return what is kept about a user in a channel and valid under a policy, without waiting; None: nothing.

        The value is their present membership, or None if they are not a member.
        """
        kept = self._kept.get((channel, user))
        if kept is None or not policy.accepts_membership(channel, user, kept[0]):
            return None
        self._kept.move_to_end((channel, user))
        return (kept[1],)

    async def find_many(
        self, policy: Policy, places: Iterable[tuple[ConversationId, UserId]]
    ) -> dict[tuple[ConversationId, UserId], Member]:
        """Return the present memberships of users in channels of a workspace, valid under its policy.

        One round trip to MongoDB for those that are not kept, which concurrent calls share.
        """
        found: dict[tuple[ConversationId, UserId], Member] = {}
        missing: list[tuple[ConversationId, UserId]] = []
        for channel, user in places:
            kept = self.find_kept(policy, channel, user)
            if kept is None:
                missing.append((channel, user))
            elif kept[0] is not None:
                found[channel, user] = kept[0]
        return found | await self.read(policy, missing) if missing else found

    async def read(
        self, policy: Policy, places: Iterable[tuple[ConversationId, UserId]]
    ) -> dict[tuple[ConversationId, UserId], Member]:
        """Like `find_many`, always with a round trip to MongoDB. Channels that do not exist take the same time."""
        found: dict[tuple[ConversationId, UserId], Member] = {}
        wanted = {member_row_id(channel, user): (channel, user) for channel, user in places}
        rows = await self._rows.find(policy.workspace, wanted)
        for id, place in wanted.items():
            member = member_from(place[1], rows[id]) if id in rows else None
            if member is not None and not member.is_current:
                member = None
            channel = policy.channels.get(place[0])
            # Users can ask for any number of channels that do not exist.
            if channel is not None and channel.kind is ChannelKind.PRIVATE:
                # The policy was known before this read, so the row has the changes up to its version.
                self._keep(policy.version, place, member)
                if member is not None:
                    found[place] = member
        return found

    async def list_followed(
        self, workspace: WorkspaceId, user: UserId, channels: Iterable[ConversationId]
    ) -> set[ConversationId]:
        """Return the channels of a workspace that a user follows at present.

        One round trip to MongoDB, which concurrent calls share.

        A follower of a PUBLIC channel has a row as a member of a PRIVATE one does (ADR 56).
        """
        rows = {member_row_id(channel, user): channel for channel in channels}
        found = await self._rows.find(workspace, rows)
        return {rows[id] for id, row in found.items() if member_from(user, row).is_current}

    def _keep(self, version: int, place: tuple[ConversationId, UserId], member: Member | None) -> None:
        kept = self._kept.get(place)
        if kept is not None and kept[0] > version:
            return
        self._kept[place] = (version, member)
        self._kept.move_to_end(place)
        if len(self._kept) > _MAX_MEMBERSHIPS:
            self._kept.popitem(last=False)

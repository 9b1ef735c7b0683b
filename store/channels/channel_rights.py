"""Rights of users in channels, judged under policy versions that the caller names."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from store.base.clock import Clock
from store.base.ids import ConversationId, MessageId, UserId, parse_thread
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.channels.channel_history import ChannelHistory, channel_history
from store.channels.channel_members import ChannelMembers
from store.conversations.conversation import Member
from store.messages.message_store import MessageStore
from store.mongo.client import Mongo
from store.workspaces.permissions import Permission
from store.workspaces.policies import Policies
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Policy
from store.workspaces.rights import rights_in_channel

_MAX_STARTS = 50_000
_MAX_PARENTS = 50_000


@dataclass(frozen=True, slots=True)
class ChannelRights:
    """The permissions of one user in a channel that they can see, and the facts that decided them.

    `member`: their membership, if the channel is PRIVATE.
    """

    policy: Policy
    channel: Channel
    facts: MemberFacts
    member: Member | None
    permissions: Permission

    def may(self, permission: Permission) -> bool:
        """Return whether the user has a permission in the channel."""
        return permission in self.permissions

    @property
    def history(self) -> ChannelHistory | None:
        """Messages of the channel that the user may read; None without READ_HISTORY."""
        return self.whole_history if self.may(Permission.READ_HISTORY) else None

    @property
    def whole_history(self) -> ChannelHistory:
        """Messages of the channel that the user may read with READ_HISTORY."""
        return channel_history(self.channel, self.facts, self.member)

    @property
    def slow_mode_ms(self) -> int:
        """Time that the user has to wait between two messages; 0: none."""
        exempt = Permission.BYPASS_SLOW_MODE | Permission.MANAGE_MESSAGES
        return 0 if self.permissions & exempt else self.channel.slow_mode_seconds * 1000


class ChannelRightsFinder:
    """Judges rights. No round trip if policy, facts and memberships are kept and new enough."""

    def __init__(self, mongo: Mongo, policies: Policies, messages: MessageStore, clock: Clock) -> None:
        self._policies = policies
        self._messages = messages
        self._clock = clock
        self.members = ChannelMembers(mongo)
        self._starts: OrderedDict[tuple[ConversationId, int], int] = OrderedDict()
        self._parents: OrderedDict[ConversationId, MessageId] = OrderedDict()

    async def find_many(
        self, user: UserId, channels: Mapping[ConversationId, int]
    ) -> dict[ConversationId, ChannelRights]:
        """Return the rights of a user in the channels that they can see.

        channels: For each the smallest policy version to judge under.
        """
        found: dict[ConversationId, ChannelRights] = {}
        for workspace, inside in _by_workspace(channels).items():
            at_least = max(channels[channel] for channel in inside)
            rights = await self._judge(workspace, [(channel, user) for channel in inside], at_least)
            found |= {channel: judged for (channel, _), judged in rights.items()}
        return found

    async def judge(self, policy: Policy, facts: MemberFacts, channel: ConversationId) -> ChannelRights | None:
        """Return a member's rights in a channel under a policy that accepts the facts; None if they can't see it."""
        place = (channel, facts.user)
        return (await self._judge_places(policy, {facts.user: facts}, [place])).get(place)

    async def list_visible(self, policy: Policy, facts: MemberFacts) -> list[ChannelRights]:
        """Return the rights of a member in all channels that they can see, under a policy that accepts the facts."""
        private = [c.id for c in policy.channels.values() if c.kind is ChannelKind.PRIVATE]
        places = [(channel, facts.user) for channel in private]
        members = await self.members.find_many(policy, places) if places else {}
        found = [
            self._rights(policy, facts, channel, members.get((channel.id, facts.user)))
            for channel in policy.channels.values()
        ]
        return [rights for rights in found if rights is not None]

    async def find(self, user: UserId, channel: ConversationId, at_least: int = 0) -> ChannelRights | None:
        """Return the rights of a user in a channel; None if they can't see it."""
        return (await self.find_many(user, {channel: at_least})).get(channel)

    async def find_present(self, user: UserId, channel: ConversationId) -> ChannelRights | None:
        """Return the rights of a user in a channel at present; None if they can't see it.

        One round trip to Redis, which calls about the same workspace share.
        """
        version = await self._policies.versions.find_joined(workspace_of_channel(channel))
        return await self.find(user, channel, version) if version is not None else None

    async def find_visible(self, user: UserId, channels: Collection[ConversationId]) -> set[ConversationId]:
        """Return those channels that a user can see at present. No round trip for none, else one to Redis or more."""
        workspaces = list({workspace_of_channel(channel) for channel in channels})
        versions = await asyncio.gather(*map(self._policies.current_version, workspaces))
        present = dict(zip(workspaces, versions, strict=True))
        known = {channel: present[workspace_of_channel(channel)] for channel in channels}
        return set(
            await self.find_many(user, {name: at_least for name, at_least in known.items() if at_least is not None})
        )

    async def select_visible(self, user: UserId, channels: Sequence[ConversationId]) -> set[ConversationId]:
        """Return those channels that a user can see at present, before anything else is read about them.

        No round trip if all are known to be visible; else one to Redis and one to MongoDB, whether the others exist or
        not.
        """
        visible = set(await self._find_kept(user, channels))
        hidden = [channel for channel in channels if channel not in visible]
        if hidden:
            # They may have become visible since this process has read the policies.
            workspaces = list({workspace_of_channel(channel) for channel in hidden})
            found = await asyncio.gather(*map(self._policies.current_version, workspaces))
            versions = dict(zip(workspaces, found, strict=True))
            present = {channel: versions[workspace_of_channel(channel)] for channel in hidden}
            visible |= set(await self.find_many(user, {c: v for c, v in present.items() if v is not None}))
        return visible

    async def _find_kept(self, user: UserId, channels: Iterable[ConversationId]) -> list[ConversationId]:
        """Return those channels that a user can see, as far as memberships are kept."""
        visible: list[ConversationId] = []
        for workspace, inside in _by_workspace(channels).items():
            policy = await self._policies.find(workspace)
            member = await self._policies.find_member(workspace, user, policy.version) if policy is not None else None
            if member is not None:
                visible += [channel for channel in inside if self.known(user, channel) is not None]
        return visible

    async def find_viewers(
        self, channel: ConversationId, users: Iterable[UserId], at_least: int = 0
    ) -> dict[UserId, ChannelRights]:
        """Return the rights of those users who can see a channel."""
        rights = await self._judge(workspace_of_channel(channel), [(channel, user) for user in users], at_least)
        return {user: judged for (_, user), judged in rights.items()}

    def known(self, user: UserId, channel: ConversationId) -> ChannelRights | None:
        """Return the rights of a user in a channel as far as this process knows them, without waiting."""
        workspace = workspace_of_channel(channel)
        policy, facts = self._policies.known(workspace), self._policies.known_member(workspace, user)
        return self._judge_kept(policy, facts, channel) if policy is not None and facts is not None else None

    def is_known_hidden(self, user: UserId, channel: ConversationId) -> bool:
        """Return whether this process knows that a user can't see a channel, without waiting."""
        workspace = workspace_of_channel(channel)
        policy, facts = self._policies.known(workspace), self._policies.known_member(workspace, user)
        if policy is None:
            return False
        settings = policy.channels.get(channel)
        if settings is None or facts is None:
            return settings is None
        is_private = settings.kind is ChannelKind.PRIVATE
        kept = self.members.find_kept(policy, channel, user) if is_private else (None,)
        return kept is not None and self._rights(policy, facts, settings, kept[0]) is None

    def may_have_gaps(self, channel: ConversationId) -> bool:
        """Return whether a user may be able to read a message of a channel, but not all later ones.

        As far as this process knows, without waiting.
        """
        policy = self._policies.known(workspace_of_channel(channel))
        settings = policy.channels.get(channel) if policy is not None else None
        return settings is None or (settings.kind is ChannelKind.PRIVATE and not settings.full_history)

    def may_read(self, user: UserId, channel: ConversationId, seq: int) -> bool:
        """Return whether a user may read a channel's message, as far as this process knows, without waiting."""
        rights = self.known(user, channel)
        history = rights.history if rights is not None else None
        return history is not None and history.has_seq(seq, self._starts.get((channel, history.since_ms)))

    async def _judge(
        self, workspace: WorkspaceId, places: list[tuple[ConversationId, UserId]], at_least: int
    ) -> dict[tuple[ConversationId, UserId], ChannelRights]:
        policy = await self._policies.find(workspace, at_least)
        if policy is None:
            return {}
        users = {user for _, user in places}
        facts = await self._policies.find_members(workspace, users, policy.version) if users else {}
        return await self._judge_places(policy, facts, places)

    async def _judge_places(
        self,
        policy: Policy,
        facts: Mapping[UserId, MemberFacts],
        places: Iterable[tuple[ConversationId, UserId]],
    ) -> dict[tuple[ConversationId, UserId], ChannelRights]:
        # The policy may have been read again meanwhile: facts and memberships have to be valid under the one used.
        rights: dict[tuple[ConversationId, UserId], ChannelRights] = {}
        hidden = []
        for channel, user in places:
            judged = self._judge_kept(policy, facts[user], channel) if user in facts else None
            if judged is not None:
                rights[channel, user] = judged
            elif user in facts:
                hidden.append((channel, user))
        if hidden:
            # All take the same time: channels that do not exist, PRIVATE ones, and those hidden by an overwrite.
            for (channel, user), member in (await self.members.read(policy, hidden)).items():
                judged = self._rights(policy, facts[user], policy.channels[channel], member)
                if judged is not None:
                    rights[channel, user] = judged
        return rights

    def _judge_kept(self, policy: Policy, facts: MemberFacts, channel: ConversationId) -> ChannelRights | None:
        """Judge with the membership that is kept. None: the channel is not known to be visible."""
        settings = policy.channels.get(channel)
        if settings is None:
            return None
        is_private = settings.kind is ChannelKind.PRIVATE
        kept = self.members.find_kept(policy, channel, facts.user) if is_private else None
        return self._rights(policy, facts, settings, kept[0] if kept is not None else None)

    def _rights(
        self, policy: Policy, facts: MemberFacts, channel: Channel, member: Member | None
    ) -> ChannelRights | None:
        permissions = rights_in_channel(policy, facts, channel, member is not None, self._clock.now_ms())
        if Permission.VIEW_CHANNEL not in permissions:
            return None
        return ChannelRights(policy, channel, facts, member, permissions)

    async def find_start(self, rights: ChannelRights, newest_seq: int) -> int:
        """Return the first seq of a PUBLIC channel's messages that were sent after the user joined the workspace.

        newest_seq: Newest seq of the channel. About 20 round trips to MongoDB for a long channel; none later.
        """
        key = (rights.channel.id, rights.facts.joined_at_ms)
        start = self._starts.get(key)
        if start is None:
            start = self._starts[key] = await self._messages.find_first_since(*key, newest_seq)
            if len(self._starts) > _MAX_STARTS:
                self._starts.popitem(last=False)
        return start

    async def find_parents(self, threads: Iterable[ConversationId]) -> dict[ConversationId, MessageId]:
        """Return the ids of the parent messages of threads; none for a message that does not exist.

        One round trip to MongoDB for those that are not kept. They never change.
        """
        found: dict[ConversationId, MessageId] = {}
        missing: dict[tuple[ConversationId, int], ConversationId] = {}
        for thread in threads:
            place = parse_thread(thread)
            if thread in self._parents:
                found[thread] = self._parents[thread]
            elif place is not None:
                missing[place] = thread
        if missing:
            for parent, message in (await self._messages.find_many(missing)).items():
                thread = missing[parent]
                found[thread] = self._parents[thread] = message.id
                if len(self._parents) > _MAX_PARENTS:
                    self._parents.popitem(last=False)
        return found


def _by_workspace(channels: Iterable[ConversationId]) -> dict[WorkspaceId, list[ConversationId]]:
    found: dict[WorkspaceId, list[ConversationId]] = {}
    for channel in channels:
        found.setdefault(workspace_of_channel(channel), []).append(channel)
    return found

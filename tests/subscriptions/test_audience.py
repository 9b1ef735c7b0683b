"""The audience of a workspace reads what a change of rights has made outdated, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, channel_id
from store.channels.channel_members import ChannelMembers
from store.conversations.conversation import Member
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.policies import Policies
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Policy
from subscriptions.realtime.shared import audience as audience_module
from subscriptions.realtime.shared.audience import Audience
from tests.clock import ManualClock
from tests.store.workspaces import GENERAL, STAFF, W, sample_policy

Places = set[tuple[ConversationId, UserId]]
OTHER = channel_id(W, 50)
USERS = [UserId(f"u{number}") for number in range(5)]


class World:
    """A workspace in memory. It counts what is read."""

    def __init__(self) -> None:
        policy = sample_policy()
        other = Channel(OTHER, "other", ChannelKind.PRIVATE, 9, 0)
        self.policy = replace(policy, channels={**policy.channels, OTHER: other})
        self.members: Places = set()
        self.facts_read: list[UserId] = []
        self.places_read: list[tuple[ConversationId, UserId]] = []
        self.largest_read = 0
        self.reads = 0
        self.release: asyncio.Event | None = None
        self.failure: Exception | None = None

    def known(self, _workspace: WorkspaceId) -> Policy:
        return self.policy

    async def find(self, _workspace: WorkspaceId, at_least: int = 0) -> Policy:
        return self.policy

    async def find_members(
        self, _workspace: WorkspaceId, users: Iterable[UserId], _at_least: int
    ) -> dict[UserId, MemberFacts]:
        users = list(users)
        self.facts_read += users
        self.reads += 1
        if self.release is not None:
            await self.release.wait()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return {user: MemberFacts(user, self.policy.version) for user in users}

    async def find_many(self, _policy: Policy, places: Iterable[tuple[ConversationId, UserId]]) -> object:
        places = list(places)
        self.places_read += places
        self.largest_read = max(self.largest_read, len(places))
        return {place: Member(place[1], "", ((1, None),), 1) for place in places if place in self.members}

    async def change(self, audience: Audience, *members: tuple[ConversationId, UserId]) -> tuple[list[UserId], Places]:
        """Change memberships. Return what is read then."""
        self.facts_read, self.places_read = [], []
        proposed = ProposedPolicyChange(self.policy, channel_members=frozenset(members))
        self.policy = proposed.result(self.policy, "a", 1)
        await audience.refresh(self.policy.version)
        return self.facts_read, set(self.places_read)


async def make_audience(world: World) -> Audience:
    """Return an audience with subscribers to all channels, and one to GENERAL."""
    audience = Audience(W, cast(Policies, world), cast(ChannelMembers, world), ManualClock())
    for user in USERS[:4]:
        audience.add(user, None)
    audience.add(USERS[4], [GENERAL])
    await audience.refresh(0, USERS)
    return audience


async def test_a_change_of_memberships_reads_only_these() -> None:
    world = World()
    audience = await make_audience(world)
    everybody = {(channel, user) for channel in (STAFF, OTHER) for user in USERS[:4]}
    assert set(world.places_read) == everybody and set(world.facts_read) == set(USERS)
    world.members = {(OTHER, USERS[0])}
    assert await world.change(audience, (OTHER, USERS[0])) == ([], {(OTHER, USERS[0])})
    assert audience.find_visible(USERS[0]).private == {OTHER}
    world.members = {(OTHER, USERS[1])}
    many = [(OTHER, UserId(f"new{number}")) for number in range(200)]
    assert await world.change(audience, *many) == ([], {(OTHER, user) for user in USERS[:4]})
    assert [bool(audience.find_visible(user).private) for user in USERS] == [False, True, False, False, False]
    assert await world.change(audience, (OTHER, UserId("somebody"))) == ([], set())


async def test_many_memberships_are_read_in_batches() -> None:
    at_once = audience_module._READ_AT_ONCE
    world = World()
    audience = Audience(W, cast(Policies, world), cast(ChannelMembers, world), ManualClock())
    users = [UserId(f"user{number}") for number in range(at_once)]
    for user in users:
        audience.add(user, None)
    await audience.refresh(0, users)
    assert len(world.places_read) == 2 * len(users) and world.largest_read == at_once


async def test_a_new_subscriber_reads_nothing_about_the_others() -> None:
    world = World()
    audience = await make_audience(world)
    world.facts_read, world.places_read = [], []
    new = UserId("new")
    audience.add(new, None)
    await audience.refresh(0, [new])
    assert world.facts_read == [new] and set(world.places_read) == {(STAFF, new), (OTHER, new)}


async def _join(world: World, audience: Audience, users: Iterable[UserId]) -> list[asyncio.Task[None]]:
    """Let users subscribe one after the other, while the read about the first one waits."""
    world.release, world.reads, world.facts_read = asyncio.Event(), 0, []
    tasks = []
    for user in users:
        audience.add(user, None)
        tasks.append(asyncio.create_task(audience.refresh(0, [user])))
        await asyncio.sleep(0)
    return tasks


async def test_subscribers_who_come_during_a_read_share_the_next_one() -> None:
    world = World()
    audience = await make_audience(world)
    new = [UserId(f"new{number}") for number in range(20)]
    tasks = await _join(world, audience, new)
    assert world.facts_read == new[:1]
    # A second subscription of the first one: what is being read may be out of date.
    again = asyncio.create_task(audience.refresh(0, new[:1]))
    await asyncio.sleep(0)
    assert world.release is not None
    world.release.set()
    await asyncio.gather(*tasks, again)
    assert world.reads == 2 and sorted(world.facts_read[1:]) == sorted(new)
    assert all(audience.find_facts(user) is not None for user in new)


async def test_a_subscriber_who_leaves_during_a_read_does_not_stop_the_others() -> None:
    world = World()
    audience = await make_audience(world)
    first, second, third = (UserId(name) for name in ("first", "second", "third"))
    tasks = await _join(world, audience, (first, second, third))
    assert world.release is not None
    waiting, world.release = world.release, asyncio.Event()
    waiting.set()
    await tasks[0]
    for _ in range(3):
        await asyncio.sleep(0)
    assert world.reads == 2
    # The read of the second call is about the third one too.
    audience.remove(third, None)
    tasks[2].cancel()
    world.release.set()
    await tasks[1]
    assert audience.find_facts(second) is not None and audience.find_facts(third) is None


async def test_after_a_failed_read_the_next_call_reads_about_all() -> None:
    world = World()
    audience = await make_audience(world)
    first, second = UserId("first"), UserId("second")
    tasks = await _join(world, audience, (first, second))
    world.failure = ValueError("lost")
    assert world.release is not None
    world.release.set()
    failure, _ = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(failure, ValueError)
    assert sorted(world.facts_read[1:]) == [first, second] and audience.find_facts(second) is not None

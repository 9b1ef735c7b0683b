"""Watchers: users who look at a conversation are listed in it, and can resume as long as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from resolvers.live import channel_sources
from store.base.ids import ConversationId
from store.conversations.watchers import WATCH_MS
from store.redis.cache import Call
from tests.api.channels.channel_subscriber import live, look_at
from tests.api.client import Api, private_id
from tests.api.conftest import OpenApi
from tests.clock import DAY_MS, ManualClock


@pytest.fixture
async def timed(open_api: OpenApi) -> AsyncIterator[tuple[Api, ManualClock]]:
    clock = ManualClock()
    async with open_api("watchers", clock) as api:
        yield api, clock


async def watchers(api: Api, conversation: str) -> list[str]:
    return [*await api.services.app.store.watchers.list(ConversationId(conversation))]


async def is_reset(api: Api, user: str, group: str, rev: int) -> bool:
    """Resume, and return whether the client has to fetch the group again."""
    subscriber = await look_at(api, user, (group, rev))
    while (event := await subscriber.next())["__typename"] != "ChannelCaughtUp":
        pass
    await subscriber.stop()
    return bool(event["reset"])


async def test_users_who_look_at_a_group_are_its_watchers(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, bob)
    assert await watchers(api, group) == []
    await live(api, alice, group, private_id(alice, bob))
    await live(other_api, bob, group)
    assert sorted(await watchers(api, group)) == [alice, bob]
    assert await watchers(api, private_id(alice, bob)) == []


async def test_a_watch_lasts_some_minutes_longer_than_the_subscription(
    timed: tuple[Api, ManualClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_sources, "LARGEST_GROUP", 2)
    api, clock = timed
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    subscriber, rev = await live(api, bob, group)
    await api.advance_days(clock, (WATCH_MS - 1) / DAY_MS)
    await api.services.app.watches.renew()
    await subscriber.stop()
    await api.send(alice, group)
    await api.advance_days(clock, (WATCH_MS - 1) / DAY_MS)
    assert not await is_reset(api, bob, group, rev)
    await api.advance_days(clock, (WATCH_MS + 1) / DAY_MS)
    await api.services.app.watches.renew()
    assert await watchers(api, group) == []
    assert await is_reset(api, bob, group, rev)


async def test_a_rev_from_before_the_watch_is_a_reset_in_large_groups_only(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group, another = await api.create_group(alice, bob, carol, dave), await api.create_group(alice, bob, carol)
    subscriber, rev = await live(api, bob, another)
    await subscriber.stop()
    await api.send(alice, group)
    monkeypatch.setattr(channel_sources, "LARGEST_GROUP", 4)
    assert not await is_reset(api, bob, group, rev)
    store = api.services.app.store
    await store.cache.one(Call("DEL", store.keys.watchers(ConversationId(group))))
    await api.data(
        alice, "mutation ($g: ID!, $u: ID!) { removeMember(groupId: $g, userId: $u) { id } }", g=group, u=dave
    )
    monkeypatch.setattr(channel_sources, "LARGEST_GROUP", 3)
    # The group had more members when something may have happened.
    assert await is_reset(api, bob, group, rev)


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_lost_key_makes_all_watchers_start_over(api: Api, other_api: Api, lost: int) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    devices = [(await live(process, alice, group))[0] for process in (api, other_api)]
    store = api.services.app.store
    await store.cache.one(Call("DEL", (store.keys.watchers(ConversationId(group))[lost],)))
    for process, device in zip((api, other_api), devices, strict=True):
        await process.services.app.watches.renew()
        caught_up = await device.next()
        assert (caught_up["__typename"], caught_up["reset"]) == ("ChannelCaughtUp", True)
    assert await watchers(api, group) == [alice]
    for process, device in zip((api, other_api), devices, strict=True):
        await process.services.app.watches.renew()
        await device.expect_no_event()
        await device.stop()

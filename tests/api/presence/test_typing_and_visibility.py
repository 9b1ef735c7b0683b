"""startTyping and stopTyping: an INVISIBLE user counts as absent, gets the events of others, and sends none."""

from __future__ import annotations

import pytest

from store.base.ids import UserId
from store.conversations.typing_store import WINDOW_MS
from store.presence.presence_record import PresenceSetting
from tests.api.channels.channel_subscriber import live
from tests.api.client import Api, private_id
from tests.api.conftest import OpenApi
from tests.api.live.test_typing import LIVE_TYPING, SHORT, TwoProcesses, pair, stop_in, two_processes, type_in
from tests.api.sample_channels import create_sample_channels

__all__ = ["pair", "two_processes"]

SIZES = pytest.mark.parametrize("most_named", [200, 1], ids=["few members", "many members"])


async def set_presence(api: Api, user: str, value: PresenceSetting, until_ms: int | None = None) -> None:
    await api.services.app.store.presence.set_presence(UserId(user), value, until_ms)


@SIZES
async def test_an_invisible_user_counts_as_absent_and_gets_typing(
    pair: TwoProcesses, most_named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.realtime.ephemeral_delivery.MAX_NAMED", most_named)
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    device = await pair.second.listen(bob, LIVE_TYPING)
    await set_presence(pair.second, bob, PresenceSetting.INVISIBLE)
    assert not await type_in(pair.first, alice, group)
    assert await device.next() == pair.event(group, alice)
    # Not more often than others get it.
    assert not await type_in(pair.first, alice, group)
    assert not await stop_in(pair.first, alice, group)
    assert await device.next() == pair.event(group, alice, "TypingStopped")
    await device.expect_no_event(SHORT)


@SIZES
async def test_typing_of_an_invisible_user_is_sent_to_nobody_with_the_same_answers(
    pair: TwoProcesses, most_named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.realtime.ephemeral_delivery.MAX_NAMED", most_named)
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    await set_presence(pair.first, alice, PresenceSetting.INVISIBLE)
    assert not await type_in(pair.first, alice, group)
    device = await pair.second.listen(bob, LIVE_TYPING)
    pair.clock.ms += WINDOW_MS
    assert await type_in(pair.first, alice, group)
    assert not await type_in(pair.first, alice, group)
    assert await stop_in(pair.first, alice, group)
    await device.expect_no_event(SHORT)


async def test_an_unseen_announcement_is_repeated_for_the_first_visible_user(pair: TwoProcesses) -> None:
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    hidden = await pair.second.listen(bob, LIVE_TYPING)
    await set_presence(pair.second, bob, PresenceSetting.INVISIBLE)
    assert not await type_in(pair.first, alice, group)
    await pair.first.wait_until_idle()
    visible = await pair.second.listen(carol, LIVE_TYPING)
    assert await type_in(pair.first, alice, group)
    assert not await type_in(pair.second, alice, group)
    assert await visible.next() == pair.event(group, alice)
    assert [event["__typename"] for event in await hidden.take(2)] == ["TypingStarted"] * 2


async def test_a_user_is_visible_at_the_end_of_the_setting(pair: TwoProcesses) -> None:
    alice, bob = await pair.first.create_users("alice", "bob")
    await pair.first.send(alice, bob)
    await pair.second.listen(bob, LIVE_TYPING)
    await set_presence(pair.second, bob, PresenceSetting.INVISIBLE, pair.clock.ms + 2 * WINDOW_MS)
    for answer in (False, False, True):
        assert await type_in(pair.first, alice, private_id(alice, bob)) is answer
        await pair.first.wait_until_idle()
        pair.clock.ms += WINDOW_MS


@pytest.mark.parametrize("place", ["here", "there"])
async def test_an_invisible_user_who_looks_at_a_channel_counts_as_absent(open_api: OpenApi, place: str) -> None:
    async with open_api("main") as api, open_api("main") as other_api:
        server = api if place == "here" else other_api
        server.subscribers_are_devices = True
        sample = await create_sample_channels(api)
        looking, _ = await live(server, sample.owner, sample.general)
        await set_presence(api, sample.owner, PresenceSetting.INVISIBLE)
        assert not await type_in(api, sample.member, sample.general)
        assert (await looking.next())["__typename"] == "TypingStarted"
        await set_presence(api, sample.owner, PresenceSetting.ONLINE)
        assert await type_in(api, sample.member, sample.general)

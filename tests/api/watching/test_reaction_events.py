"""The events of reactions: who gets them, what they show, and that they can be resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from resolvers.live import channel_sources
from store.redis.cache import Cache, Call
from subscriptions.delivery.coalescing import reaction_events
from tests.api.channels.conftest import workspace as workspace  # a fixture
from tests.api.client import Api, gather_all
from tests.api.reactions.calls import react, take_back
from tests.api.sample_channels import SampleChannels
from tests.api.watching.events import counts, listen, look, missed, published, set_interval, until

SESSION = """query ($id: ID!) { session(conversationId: $id) {
    unreadCount writeTs activeTs writeSeq conversation { id } } sessions { totalUnread edges { node { id } } } }"""


@pytest.fixture
def large_from_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat groups of three members as large ones."""
    monkeypatch.setattr(reaction_events, "LARGEST_GROUP", 2)
    monkeypatch.setattr(channel_sources, "LARGEST_GROUP", 2)


async def test_both_people_get_the_reactions_and_no_session_moves(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]
    first, second = await listen(api, alice), await listen(other_api, bob)
    before = [await api.data(user, SESSION, id=sent["conversationId"]) for user in (alice, bob)]
    await react(other_api, bob, sent["id"])
    shown = [(await subscriber.next())["reactions"][0] for subscriber in (first, second)]
    assert [(each["emoji"], each["count"], each["viewerReacted"]) for each in shown] == [
        ("👍", 1, False),
        ("👍", 1, True),
    ]
    assert shown[0]["users"] == [{"id": bob}]
    assert [await api.data(user, SESSION, id=sent["conversationId"]) for user in (alice, bob)] == before
    await react(other_api, bob, sent["id"])
    await published(api, other_api)
    for subscriber in (first, second):
        await subscriber.expect_no_event()


async def test_a_resumed_subscription_gets_the_present_state_once(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]
    subscriber = await listen(api, alice)
    another = (await api.send(alice, bob))["message"]
    cursor = (await subscriber.next())["cursor"]
    await subscriber.stop()
    for emoji in ("👍", "🎉"):
        await react(other_api, bob, sent["id"], emoji)
        await published(other_api)
    await react(other_api, alice, another["id"])
    await published(other_api)
    await take_back(api, bob, sent["id"])
    await published(api)
    again = await listen(other_api, alice, cursor)
    events, is_reset = await missed(again)
    assert not is_reset
    assert sorted((event["messageId"], counts(event)) for event in events) == sorted(
        [(sent["id"], {"🎉": 1}), (another["id"], {"👍": 1})]
    )
    await react(api, alice, sent["id"], "🎉")
    assert counts(await again.next()) == {"🎉": 2}


@pytest.mark.parametrize("where", ["private", "channel"])
async def test_an_event_shows_what_was_written_after_it_took_its_tick(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """So of two events, in any order of their writes, the last one shows the present state."""
    to = workspace.general if where == "channel" else workspace.other
    sent = (await api.send(workspace.member, to))["message"]
    subscriber, _ = await look(api, workspace.member, sent["conversationId"])
    run_in_background = Cache.run_in_background

    async def react_after_tick(self: Cache, calls: Sequence[Call]) -> list[Any]:
        answers = await run_in_background(self, calls)
        if self is api.services.app.store.cache and calls[0].name in ("fan_out", "clock_append"):
            late.undo()
            await react(other_api, workspace.owner if where == "channel" else workspace.member, sent["id"])
        return answers

    with monkeypatch.context() as late:
        late.setattr(Cache, "run_in_background", react_after_tick)
        await react(api, workspace.other, sent["id"])
        assert counts(await subscriber.next()) == {"👍": 2}
    await published(api, other_api)


async def test_channels_show_reactions_on_their_own_clock(api: Api, other_api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.member, workspace.general))["message"]
    here, rev = await look(api, workspace.member, workspace.general)
    there, _ = await look(other_api, workspace.other, workspace.general)
    own = await listen(api, workspace.member)
    await react(api, workspace.other, sent["id"])
    events = [await subscriber.next() for subscriber in (here, there)]
    assert [event["reactions"][0]["viewerReacted"] for event in events] == [False, True]
    await there.stop()
    await react(api, workspace.member, sent["id"])
    await until(here, {"👍": 2})
    await react(api, workspace.member, sent["id"], "🎉")
    await until(here, {"👍": 2, "🎉": 1})
    again, _ = await look(other_api, workspace.other, workspace.general, rev)
    missed_events, is_reset = await missed(again)
    assert not is_reset and [counts(event) for event in missed_events] == [{"👍": 2, "🎉": 1}]
    await own.expect_no_event()


async def test_in_large_groups_only_those_who_look_get_reactions(
    api: Api, other_api: Api, large_from_three: None
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group))["message"]
    pushed = [await listen(api, alice), await listen(other_api, bob)]
    looking, rev = await look(other_api, bob, group)
    await react(api, alice, sent["id"])
    assert counts(await looking.next()) == {"👍": 1}
    await published(api)
    for subscriber in pushed:
        await subscriber.expect_no_event()
    await looking.stop()
    for emoji in ("🎉", "❤️"):
        await react(api, alice, sent["id"], emoji)
        await published(api)
    again, _ = await look(api, bob, group, rev)
    events, is_reset = await missed(again)
    assert not is_reset and [counts(event) for event in events] == [{"👍": 1, "🎉": 1, "❤️": 1}]
    # Carol did not look, so her log has none of it.
    _, is_reset = await missed((await look(api, carol, group, rev))[0])
    assert is_reset


async def test_a_group_is_large_from_the_member_after_the_two_hundredth(api: Api) -> None:
    alice, bob, late = await api.create_users("alice", "bob", "late")
    others = await api.create_many_users(alice, 198)
    group = await api.create_group(alice, bob, *others)
    sent = (await api.send(alice, group))["message"]
    pushed, (looking, rev) = await listen(api, bob), await look(api, bob, group)
    await react(api, alice, sent["id"])
    assert counts(await pushed.next()) == counts(await looking.next()) == {"👍": 1}
    await published(api)
    await api.invite(alice, group, late)
    assert (await pushed.next())["__typename"] == "MessageCreated"
    assert (await looking.next())["__typename"] == "ChannelMessage"
    await react(api, alice, sent["id"], "🎉")
    assert counts(await looking.next()) == {"👍": 1, "🎉": 1}
    await published(api)
    await pushed.expect_no_event()
    assert not (await missed((await look(api, bob, group, rev))[0]))[1]
    assert (await missed((await look(api, alice, group, rev))[0]))[1]


async def test_members_get_no_reactions_to_what_they_may_not_read(api: Api, large_from_three: None) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group))["message"]
    await api.invite(alice, group, dave, erin)
    subscribers = [(await look(api, user, group))[0] for user in (bob, dave, erin)]
    await api.data(
        alice, "mutation ($g: ID!, $u: ID!) { removeMember(groupId: $g, userId: $u) { id } }", g=group, u=erin
    )
    for subscriber in subscribers:
        await subscriber.next()
    newer = (await api.send(alice, group))["message"]
    for subscriber in subscribers[:2]:
        await subscriber.next()
    await react(api, alice, sent["id"])
    assert counts(await subscribers[0].next()) == {"👍": 1}
    await react(api, alice, newer["id"])
    for subscriber in subscribers[:2]:
        assert (await subscriber.next())["messageId"] == newer["id"]
    await published(api)
    for subscriber in subscribers:
        await subscriber.expect_no_event()


async def test_in_small_groups_late_members_get_no_reactions_to_earlier_messages(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group))["message"]
    await api.invite(alice, group, dave)
    late, early = await listen(api, dave), await listen(api, bob)
    await react(api, alice, sent["id"])
    assert counts(await early.next()) == {"👍": 1}
    await published(api)
    await late.expect_no_event()


@pytest.mark.parametrize("where", ["private", "large group", "channel"])
async def test_two_servers_send_few_events_and_the_last_one_shows_all(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(reaction_events, "LARGEST_GROUP", 2)
    for process in (api, other_api):
        set_interval(process, reaction_events.INTERVAL_MS, monkeypatch)
    users = [workspace.owner, workspace.member, workspace.other]
    to = {"private": users[1], "channel": workspace.general}.get(where) or await api.create_group(*users)
    sent = (await api.send(users[0], to))["message"]
    subscribers = [(await look(process, users[0], sent["conversationId"]))[0] for process in (api, other_api)]
    emoji = ["👍", "🎉", "❤️", "😀", "🚀", "👀"]
    loop = asyncio.get_running_loop()
    began = loop.time()
    for each in emoji:
        await gather_all(react(api, users[0], sent["id"], each), react(other_api, users[1], sent["id"], each))
    reacted = loop.time() - began
    for subscriber in subscribers:
        events = await until(subscriber, dict.fromkeys(emoji, 2))
        # The first one at once, one at the end, and one for each interval that has ended meanwhile.
        assert len(events) <= 2 + reacted / 0.5
    await published(api, other_api)
    for subscriber in subscribers:
        await subscriber.expect_no_event()

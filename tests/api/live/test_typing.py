"""Typing: told to those who are there, now and then, and never kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from store.conversations.typing_store import WINDOW_MS
from tests.api.client import SYNC, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.sample_group import create_sample_group
from tests.api.state_snapshot import take_snapshot
from tests.clock import ManualClock

TYPING = "mutation ($id: ID!) { startTyping(conversationId: $id) }"
LIVE_TYPING = """subscription ($id: ID) { messageEvents(conversationId: $id) {
    __typename ... on TypingStarted { conversationId user { id } at } ... on CaughtUp { reset } } }"""
SHORT = 0.03


async def type_in(api: Api, user: str, conversation: str) -> bool:
    told = (await api.data(user, TYPING, id=conversation))["startTyping"]
    assert isinstance(told, bool)
    return told


@dataclass
class Two:
    """Two processes whose time stands still."""

    one: Api
    other: Api
    clock: ManualClock

    def event(self, conversation: str, user: str) -> Json:
        return {
            "__typename": "TypingStarted",
            "conversationId": conversation,
            "user": {"id": user},
            "at": self.clock.ms,
        }


@pytest.fixture(scope="module")
async def two(open_api: OpenApi) -> AsyncIterator[Two]:
    clock = ManualClock()
    async with open_api("still", clock) as one, open_api("still", clock) as other:
        yield Two(one, other, clock)


@pytest.fixture
async def pair(two: Two) -> AsyncIterator[Two]:
    """The two processes. Subscriptions end with the test."""
    yield two
    for api in (two.one, two.other):
        await api.wait_until_idle()
        await api.stop_subscriptions()


async def test_all_devices_of_the_others_hear_on_whichever_server_they_are_and_ones_own_do_not(pair: Two) -> None:
    alice, bob, carol = await pair.one.create_users("alice", "bob", "carol")
    group = await pair.one.create_group(alice, bob, carol)
    await pair.one.send(alice, bob)
    of_bob = [await api.listen(bob, LIVE_TYPING) for api in (pair.one, pair.one, pair.other)]
    of_carol = await pair.other.listen(carol, LIVE_TYPING)
    own = [await api.listen(alice, LIVE_TYPING) for api in (pair.one, pair.other)]
    for api, typist, conversation in ((pair.one, alice, group), (pair.other, alice, private_id(alice, bob))):
        assert await type_in(api, typist, conversation)
        for device in of_bob:
            assert await device.next() == pair.event(conversation, typist)
    assert await of_carol.next() == pair.event(group, alice)
    await gather_all(*(device.expect_no_event(SHORT) for device in (*own, *of_bob, of_carol)))


async def test_it_is_told_once_in_three_seconds_for_each_user_and_conversation(pair: Two) -> None:
    alice, bob, carol = await pair.one.create_users("alice", "bob", "carol")
    group = await pair.one.create_group(alice, bob, carol)
    await pair.one.send(alice, bob)
    device = await pair.one.listen(bob, LIVE_TYPING)
    assert await type_in(pair.one, alice, group)
    pair.clock.ms += WINDOW_MS - 1
    # Neither the server that told it tells it again, nor one that has only heard of it.
    for api in (pair.one, pair.other):
        assert not await type_in(api, alice, group)
    assert await type_in(pair.one, carol, group)
    assert await type_in(pair.one, alice, private_id(alice, bob))
    pair.clock.ms += 1
    assert sorted(await gather_all(*(type_in(api, alice, group) for api in (pair.one, pair.other) * 3))) == [
        False
    ] * 5 + [True]
    events = await device.take(4)
    assert [(event["conversationId"], event["user"]["id"]) for event in events] == [
        (group, alice),
        (group, carol),
        (private_id(alice, bob), alice),
        (group, alice),
    ]
    await device.expect_no_event(SHORT)


@pytest.mark.parametrize("most_named", [200, 1], ids=["few members", "many"])
async def test_with_nobody_there_it_is_told_nobody_and_may_be_told_as_soon_as_somebody_is(
    pair: Two, most_named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.realtime.ephemeral_delivery.MOST_NAMED", most_named)
    alice, bob, carol = await pair.one.create_users("alice", "bob", "carol")
    group = await pair.one.create_group(alice, bob, carol)
    own = await pair.one.listen(alice, LIVE_TYPING)
    assert not await type_in(pair.one, alice, group)
    await pair.one.wait_until_idle()
    device = await pair.one.listen(bob, LIVE_TYPING)
    assert await type_in(pair.one, alice, group)
    assert await device.next() == pair.event(group, alice)
    await device.stop()
    pair.clock.ms += WINDOW_MS
    assert not await type_in(pair.one, alice, group)
    await own.expect_no_event(SHORT)


async def test_in_a_large_group_every_server_tells_the_members_it_knows(
    pair: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.realtime.ephemeral_delivery.MOST_NAMED", 1)
    alice, bob, carol, dave, erin = await pair.one.create_users("alice", "bob", "carol", "dave", "erin")
    group = await pair.one.create_group(alice, bob, carol, dave)
    of_members = [await pair.other.listen(user, LIVE_TYPING) for user in (bob, carol)]
    outsider = await pair.other.listen(erin, LIVE_TYPING)
    assert await type_in(pair.one, alice, group)
    for device in of_members:
        assert await device.next() == pair.event(group, alice)
    await pair.one.remove(alice, group, carol)
    assert (await of_members[0].next())["__typename"] == "MessageCreated"
    pair.clock.ms += WINDOW_MS
    assert await type_in(pair.one, alice, group)
    assert not await type_in(pair.other, alice, group)
    assert await of_members[0].next() == pair.event(group, alice)
    await gather_all(*(device.expect_no_event(SHORT) for device in (*of_members, outsider)))


async def test_who_was_removed_hears_nothing_from_then_on(pair: Two) -> None:
    alice, bob, carol = await pair.one.create_users("alice", "bob", "carol")
    group = await pair.one.create_group(alice, bob, carol)
    of_all = await pair.other.listen(bob, LIVE_TYPING)
    of_group = await pair.other.listen(bob, LIVE_TYPING, id=group)
    stays = await pair.other.listen(carol, LIVE_TYPING)
    assert await type_in(pair.other, alice, group)
    for device in (of_all, of_group, stays):
        assert await device.next() == pair.event(group, alice)
    await pair.one.remove(alice, group, bob)
    pair.clock.ms += WINDOW_MS
    assert await type_in(pair.other, alice, group)
    assert (await stays.next())["__typename"] == "MessageCreated"
    assert await stays.next() == pair.event(group, alice)
    for device in (of_all, of_group):
        await device.expect_no_event(SHORT)


async def test_who_follows_one_conversation_hears_of_typing_in_that_one_alone(pair: Two) -> None:
    alice, bob, carol = await pair.one.create_users("alice", "bob", "carol")
    group = await pair.one.create_group(alice, bob, carol)
    await pair.one.send(alice, bob)
    device = await pair.one.listen(bob, LIVE_TYPING, id=group)
    assert await type_in(pair.one, alice, private_id(alice, bob))
    assert await type_in(pair.one, alice, group)
    assert await device.next() == pair.event(group, alice)
    await device.expect_no_event(SHORT)


async def test_a_warm_call_waits_for_two_round_trips_to_redis_and_none_to_mongodb(pair: Two) -> None:
    people = await pair.one.create_users(*(f"u{number}" for number in range(20)))
    group = await pair.one.create_group(*people)
    await pair.one.send(people[0], people[1])
    await pair.one.listen(people[1], LIVE_TYPING)
    store = pair.one.services.app.store
    for conversation in (group, private_id(*people[:2])):
        for told, redis in ((True, None), (False, 1), (True, 2)):
            await pair.one.wait_until_idle()
            before = store.mongo.trips, store.cache.trips
            assert await type_in(pair.one, people[0], conversation) is told
            spent = store.mongo.trips - before[0], store.cache.trips - before[1]
            assert redis is None or spent == (0, redis)
            pair.clock.ms += 1 if told and redis is None else WINDOW_MS


# --- whose it is to type


async def refused_to_type(api: Api, user: str | None, conversation: str) -> Refusal:
    return await api.expect_refusal(user, TYPING, id=conversation)


async def test_only_members_type_and_who_may_not_has_told_nobody(pair: Two, deployments: Deployments) -> None:
    api = pair.one
    sample = await create_sample_group(api)
    await api.send(sample.owner, sample.member)
    between = private_id(sample.owner, sample.member)
    watch = await take_snapshot(api, sample.group, sample.owner, sample.member, sample.left, sample.outsider)
    refusals = {
        "NOT_FOUND": [
            (sample.outsider, sample.group),
            (sample.outsider, between),
            (sample.owner, private_id(sample.owner, sample.outsider)),
            *(
                (sample.owner, nonsense)
                for nonsense in ("g_1", "", "m_1", "c_1", "p_a", "\0", private_id(sample.owner, "nobody"))
            ),
        ],
        "NOT_A_MEMBER": [(sample.left, sample.group), (sample.removed, sample.group)],
        "INVALID_INPUT": [(sample.owner, "b_shop")],
    }
    for code, tries in refusals.items():
        for user, conversation in tries:
            assert await refused_to_type(api, user, conversation) == Refusal(code, "conversationId"), conversation
    assert await refused_to_type(api, None, sample.group) == Refusal("UNAUTHENTICATED")
    await watch.assert_unchanged()
    for user in sample.users:
        assert deployments.keys("still", f"*{{u:{user}}}:typing:*") == []


@pytest.mark.parametrize(("end", "code"), [("dismiss", "NOT_FOUND"), ("dissolve", "NOT_A_MEMBER")])
async def test_in_a_group_that_has_ended_nobody_types(pair: Two, deployments: Deployments, end: str, code: str) -> None:
    api = pair.one
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await getattr(api, end)(alice, group)
    device = await api.listen(bob, LIVE_TYPING)
    for user in (alice, carol):
        assert await refused_to_type(api, user, group) == Refusal(code, "conversationId")
    await device.expect_no_event(SHORT)
    assert deployments.keys("still", f"*:typing:{group}") == []


async def test_typing_is_kept_nowhere(pair: Two, deployments: Deployments) -> None:
    api = pair.one
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    device = await pair.other.listen(bob, LIVE_TYPING)
    stored, clock = await api.stored_documents(), await api.data(bob, SYNC)
    assert await type_in(api, alice, private_id(alice, bob))
    assert (await device.next())["user"] == {"id": alice}
    assert (await api.stored_documents(), await api.data(bob, SYNC)) == (stored, clock)
    (key,) = deployments.keys("still", f"*{{u:{alice}}}:typing:*")
    assert 0 < (await api.remaining_hours(key.decode()))[0] * 3600 <= 2 * WINDOW_MS / 1000

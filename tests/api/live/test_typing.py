"""startTyping and stopTyping: who is notified, how often, and that nothing is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from store.conversations.typing_store import SHOWN_MS, WINDOW_MS
from tests.api.client import SYNC, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.sample_group import create_sample_group
from tests.api.state_snapshot import take_snapshot
from tests.clock import ManualClock

TYPING = "mutation ($id: ID!) { startTyping(conversationId: $id) }"
STOP = "mutation ($id: ID!) { stopTyping(conversationId: $id) }"
LIVE_TYPING = """subscription ($id: ID) { messageEvents(conversationId: $id) {
    __typename ... on TypingStarted { conversationId user { id } at }
    ... on TypingStopped { conversationId user { id } at } ... on CaughtUp { reset } } }"""
SHORT = 0.03


async def type_in(api: Api, user: str, conversation: str) -> bool:
    notified = (await api.data(user, TYPING, id=conversation))["startTyping"]
    assert isinstance(notified, bool)
    return notified


async def stop_in(api: Api, user: str, conversation: str) -> bool:
    notified = (await api.data(user, STOP, id=conversation))["stopTyping"]
    assert isinstance(notified, bool)
    return notified


@dataclass
class TwoProcesses:
    """Two processes whose clock stands still."""

    first: Api
    second: Api
    clock: ManualClock

    def event(self, conversation: str, user: str, kind: str = "TypingStarted") -> Json:
        return {
            "__typename": kind,
            "conversationId": conversation,
            "user": {"id": user},
            "at": self.clock.ms,
        }


@pytest.fixture(scope="module")
async def two_processes(open_api: OpenApi) -> AsyncIterator[TwoProcesses]:
    clock = ManualClock()
    async with open_api("still", clock) as first, open_api("still", clock) as second:
        first.subscribers_are_devices = second.subscribers_are_devices = True
        yield TwoProcesses(first, second, clock)


@pytest.fixture
async def pair(two_processes: TwoProcesses) -> AsyncIterator[TwoProcesses]:
    """The two processes. Their subscriptions end with the test."""
    for api in (two_processes.first, two_processes.second):
        # Tests move the clock further than a lease lasts.
        await api.services.housekeeper._lease()
    yield two_processes
    for api in (two_processes.first, two_processes.second):
        await api.wait_until_idle()
        await api.stop_subscriptions()


async def test_typing_reaches_all_devices_of_others_at_every_server(pair: TwoProcesses) -> None:
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    await pair.first.send(alice, bob)
    bobs_devices = [await api.listen(bob, LIVE_TYPING) for api in (pair.first, pair.first, pair.second)]
    carols_device = await pair.second.listen(carol, LIVE_TYPING)
    own_devices = [await api.listen(alice, LIVE_TYPING) for api in (pair.first, pair.second)]
    for api, typist, conversation in ((pair.first, alice, group), (pair.second, alice, private_id(alice, bob))):
        assert await type_in(api, typist, conversation)
        for device in bobs_devices:
            assert await device.next() == pair.event(conversation, typist)
    assert await carols_device.next() == pair.event(group, alice)
    await gather_all(*(device.expect_no_event(SHORT) for device in (*own_devices, *bobs_devices, carols_device)))


async def test_typing_is_sent_once_per_three_seconds_user_and_conversation(pair: TwoProcesses) -> None:
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    await pair.first.send(alice, bob)
    device = await pair.first.listen(bob, LIVE_TYPING)
    assert await type_in(pair.first, alice, group)
    pair.clock.ms += WINDOW_MS - 1
    # Neither the server that sent the event sends it again, nor one that received it.
    for api in (pair.first, pair.second):
        assert not await type_in(api, alice, group)
    assert await type_in(pair.first, carol, group)
    assert await type_in(pair.first, alice, private_id(alice, bob))
    pair.clock.ms += 1
    assert sorted(await gather_all(*(type_in(api, alice, group) for api in (pair.first, pair.second) * 3))) == [
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


@pytest.mark.parametrize("most_named", [200, 1], ids=["few members", "many members"])
async def test_typing_without_listeners_is_not_counted_as_sent(
    pair: TwoProcesses, most_named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.realtime.ephemeral_delivery.MAX_NAMED", most_named)
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    own_devices = await pair.first.listen(alice, LIVE_TYPING)
    assert not await type_in(pair.first, alice, group)
    await pair.first.wait_until_idle()
    device = await pair.first.listen(bob, LIVE_TYPING)
    assert await type_in(pair.first, alice, group)
    assert await device.next() == pair.event(group, alice)
    await device.stop()
    pair.clock.ms += WINDOW_MS
    assert not await type_in(pair.first, alice, group)
    await own_devices.expect_no_event(SHORT)


async def test_in_a_large_group_every_server_notifies_its_own_members(
    pair: TwoProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.realtime.ephemeral_delivery.MAX_NAMED", 1)
    alice, bob, carol, dave, erin = await pair.first.create_users("alice", "bob", "carol", "dave", "erin")
    group = await pair.first.create_group(alice, bob, carol, dave)
    member_devices = [await pair.second.listen(user, LIVE_TYPING) for user in (bob, carol)]
    outsider = await pair.second.listen(erin, LIVE_TYPING)
    assert await type_in(pair.first, alice, group)
    for device in member_devices:
        assert await device.next() == pair.event(group, alice)
    await pair.first.remove(alice, group, carol)
    assert (await member_devices[0].next())["__typename"] == "MessageCreated"
    pair.clock.ms += WINDOW_MS
    assert await type_in(pair.first, alice, group)
    assert not await type_in(pair.second, alice, group)
    assert await member_devices[0].next() == pair.event(group, alice)
    await gather_all(*(device.expect_no_event(SHORT) for device in (*member_devices, outsider)))


async def test_a_removed_member_receives_no_typing(pair: TwoProcesses) -> None:
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    all_listener = await pair.second.listen(bob, LIVE_TYPING)
    group_listener = await pair.second.listen(bob, LIVE_TYPING, id=group)
    remaining_member = await pair.second.listen(carol, LIVE_TYPING)
    assert await type_in(pair.second, alice, group)
    for device in (all_listener, group_listener, remaining_member):
        assert await device.next() == pair.event(group, alice)
    await pair.first.remove(alice, group, bob)
    pair.clock.ms += WINDOW_MS
    assert await type_in(pair.second, alice, group)
    assert (await remaining_member.next())["__typename"] == "MessageCreated"
    assert await remaining_member.next() == pair.event(group, alice)
    for device in (all_listener, group_listener):
        await device.expect_no_event(SHORT)


async def test_a_subscription_to_one_conversation_receives_only_its_typing(pair: TwoProcesses) -> None:
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    await pair.first.send(alice, bob)
    device = await pair.first.listen(bob, LIVE_TYPING, id=group)
    assert await type_in(pair.first, alice, private_id(alice, bob))
    assert await type_in(pair.first, alice, group)
    assert await device.next() == pair.event(group, alice)
    await device.expect_no_event(SHORT)


async def test_typing_costs_at_most_two_round_trips_to_redis(pair: TwoProcesses) -> None:
    users = await pair.first.create_users(*(f"u{number}" for number in range(20)))
    group = await pair.first.create_group(*users)
    await pair.first.send(users[0], users[1])
    await pair.first.listen(users[1], LIVE_TYPING)
    store = pair.first.services.app.store
    for conversation in (group, private_id(*users[:2])):
        assert await type_in(pair.first, users[0], conversation)
        trips: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        # Housekeeping may add to a single run, so the least of several runs counts.
        for _ in range(4):
            for notified, wait_ms in ((False, 1), (True, WINDOW_MS)):
                pair.clock.ms += wait_ms
                await pair.first.wait_until_idle()
                before = store.mongo.trips, store.cache.trips
                assert await type_in(pair.first, users[0], conversation) is notified
                trips[notified].append((store.mongo.trips - before[0], store.cache.trips - before[1]))
        assert (min(trips[False]), min(trips[True])) == ((0, 1), (0, 2))


@pytest.mark.parametrize("most_named", [200, 1], ids=["few members", "many members"])
async def test_the_end_of_typing_is_sent_once_to_those_who_saw_its_start(
    pair: TwoProcesses, most_named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.realtime.ephemeral_delivery.MAX_NAMED", most_named)
    alice, bob, carol, dave = await pair.first.create_users("alice", "bob", "carol", "dave")
    group = await pair.first.create_group(alice, bob, carol)
    devices = [await api.listen(user, LIVE_TYPING) for api in (pair.first, pair.second) for user in (bob, carol)]
    others = [await pair.second.listen(user, LIVE_TYPING) for user in (alice, dave)]
    assert not await stop_in(pair.first, alice, group)
    assert await type_in(pair.first, alice, group)
    pair.clock.ms += WINDOW_MS - 1
    for device in devices:
        assert (await device.next())["__typename"] == "TypingStarted"
    # Any server may be asked to end it.
    assert await stop_in(pair.second, alice, group)
    for device in devices:
        assert await device.next() == pair.event(group, alice, "TypingStopped")
    for api in (pair.first, pair.second):
        assert not await stop_in(api, alice, group)
        # The limit of one announcement in three seconds stays.
        assert not await type_in(api, alice, group)
    pair.clock.ms += 1
    # The bus may reorder frames, so the start has to arrive before the end is sent.
    for call, kind in ((type_in, "TypingStarted"), (stop_in, "TypingStopped")):
        assert await call(pair.second, alice, group)
        for device in devices:
            assert (await device.next())["__typename"] == kind
    await gather_all(*(device.expect_no_event(SHORT) for device in (*devices, *others)))


async def test_typing_that_clients_no_longer_show_is_not_ended(pair: TwoProcesses) -> None:
    alice, bob, carol = await pair.first.create_users("alice", "bob", "carol")
    group = await pair.first.create_group(alice, bob, carol)
    device = await pair.first.listen(bob, LIVE_TYPING)
    for waited_ms, is_sent in ((SHOWN_MS - 1, True), (SHOWN_MS, False)):
        assert await type_in(pair.first, alice, group)
        pair.clock.ms += waited_ms
        assert not await stop_in(pair.first, carol, group)
        assert await stop_in(pair.first, alice, group) is is_sent
    assert [event["__typename"] for event in await device.take(3)] == [
        "TypingStarted",
        "TypingStopped",
        "TypingStarted",
    ]
    await device.stop()
    pair.clock.ms += SHOWN_MS
    assert not await type_in(pair.first, alice, group)
    assert not await stop_in(pair.first, alice, group)


async def test_the_end_of_typing_costs_at_most_two_round_trips_to_redis(pair: TwoProcesses) -> None:
    users = await pair.first.create_users(*(f"u{number}" for number in range(20)))
    group = await pair.first.create_group(*users)
    await pair.first.listen(users[1], LIVE_TYPING)
    store, trips = pair.first.services.app.store, []
    for _ in range(4):
        pair.clock.ms += WINDOW_MS
        assert await type_in(pair.first, users[0], group)
        await pair.first.wait_until_idle()
        before = store.mongo.trips, store.cache.trips
        assert await stop_in(pair.first, users[0], group)
        trips.append((store.mongo.trips - before[0], store.cache.trips - before[1]))
    assert min(trips) == (0, 2)


async def expect_typing_refusal(api: Api, user: str | None, conversation: str) -> Refusal:
    refusal = await api.expect_refusal(user, TYPING, id=conversation)
    assert await api.expect_refusal(user, STOP, id=conversation) == refusal
    return refusal


async def test_only_members_can_send_typing(pair: TwoProcesses, deployments: Deployments) -> None:
    api = pair.first
    sample = await create_sample_group(api)
    await api.send(sample.owner, sample.member)
    private_conversation = private_id(sample.owner, sample.member)
    snapshot = await take_snapshot(api, sample.group, sample.owner, sample.member, sample.left, sample.outsider)
    refusals = {
        "NOT_FOUND": [
            (sample.outsider, sample.group),
            (sample.outsider, private_conversation),
            (sample.owner, private_id(sample.owner, sample.outsider)),
            *(
                (sample.owner, invalid_id)
                for invalid_id in ("g_1", "", "m_1", "c_1", "p_a", "\0", private_id(sample.owner, "nobody"))
            ),
        ],
        "NOT_A_MEMBER": [(sample.left, sample.group), (sample.removed, sample.group)],
        "INVALID_INPUT": [(sample.owner, "b_shop")],
    }
    for code, attempts in refusals.items():
        for user, conversation in attempts:
            assert await expect_typing_refusal(api, user, conversation) == Refusal(code, "conversationId"), conversation
    assert await expect_typing_refusal(api, None, sample.group) == Refusal("UNAUTHENTICATED")
    await snapshot.assert_unchanged()
    for user in sample.users:
        assert deployments.keys("still", f"*{{u:{user}}}:typing:*") == []


@pytest.mark.parametrize(("ending", "code"), [("dismiss", "NOT_FOUND"), ("dissolve", "NOT_A_MEMBER")])
async def test_typing_in_an_ended_group_is_refused(
    pair: TwoProcesses, deployments: Deployments, ending: str, code: str
) -> None:
    api = pair.first
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await getattr(api, ending)(alice, group)
    device = await api.listen(bob, LIVE_TYPING)
    for user in (alice, carol):
        assert await expect_typing_refusal(api, user, group) == Refusal(code, "conversationId")
    await device.expect_no_event(SHORT)
    assert deployments.keys("still", f"*:typing:{group}") == []


async def test_typing_is_not_stored(pair: TwoProcesses, deployments: Deployments) -> None:
    api = pair.first
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    device = await pair.second.listen(bob, LIVE_TYPING)

    async def read_everything() -> tuple[list[Json], Json]:
        # Rows of other users are written by the background work of earlier tests.
        stored = await api.stored_documents()
        rows = [row for name in stored for row in stored[name].values() if alice in str(row) or bob in str(row)]
        return rows, await api.data(bob, SYNC)

    before = await read_everything()
    assert before[0]
    assert await type_in(api, alice, private_id(alice, bob))
    assert (await device.next())["user"] == {"id": alice}
    assert await stop_in(api, alice, private_id(alice, bob))
    assert (await device.next())["__typename"] == "TypingStopped"
    assert await read_everything() == before
    (key,) = deployments.keys("still", f"*{{u:{alice}}}:typing:*")
    assert 0 < (await api.remaining_hours(key.decode()))[0] * 3600 <= 2 * SHOWN_MS / 1000

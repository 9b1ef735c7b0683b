"""Round trips to MongoDB and Redis that a warm request waits for, beside what the design allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from tests.api.client import HISTORY, SYNC, Api, gather_all, message_input, private_id
from tests.api.session_calls import SESSIONS

RUNS = 4

Request = Callable[[], Awaitable[object]]

# What a client needs at the least. A last message or a title asked for beside it is read like any other.
LEAN_SEND = """mutation ($input: SendMessageInput!) { sendMessage(input: $input) {
    replayed message { id seq createdAt sender { displayName } } session { writeSeq readSeq unreadCount activeTs } } }"""
LEAN_READ = (
    "mutation ($id: ID!, $seq: Int) { markRead(conversationId: $id, upToSeq: $seq) { readSeq unreadCount activeTs } }"
)


@dataclass(frozen=True)
class Trips:
    mongo: int
    redis: int


@dataclass(frozen=True)
class Meter:
    api: Api

    async def spent(self, request: Request, prepare: Request | None) -> Trips:
        """What a request waits for once everything is warm. What goes on after its answer may add to a single run, so the
        cheapest of some is taken."""
        store = self.api.services.app.store
        runs = []
        for _ in range(RUNS + 1):
            if prepare is not None:
                await prepare()
            await self.api.wait_until_idle()
            mongo, redis = store.mongo.trips, store.cache.trips
            await request()
            runs.append((store.mongo.trips - mongo, store.cache.trips - redis))
        return Trips(min(mongo for mongo, _ in runs[1:]), min(redis for _, redis in runs[1:]))

    async def send(self, sender: str, to: str, **more: Any) -> None:
        await self.api.data(sender, LEAN_SEND, input=message_input(to, **more))

    async def costs(
        self, name: str, request: Request, mongo: int, redis: int, *, prepare: Request | None = None
    ) -> None:
        """Asserts what a request costs: exactly, so that a saving is noticed too."""
        assert await self.spent(request, prepare) == Trips(mongo, redis), name


@pytest.fixture
def meter(api: Api) -> Meter:
    return Meter(api)


@pytest.fixture(scope="module")
async def alice(process: Api) -> str:
    """Somebody with 60 sessions, half of them groups, each with a last message of somebody else."""
    alice, *others = await process.create_users("alice", *(f"u{number}" for number in range(30)))
    await gather_all(*(process.send(other, alice) for other in others))
    groups = await gather_all(*(process.create_group(other, alice, others[0], others[1]) for other in others[2:]))
    groups += await gather_all(*(process.create_group(others[0], others[1], alice) for _ in range(2)))
    await gather_all(*(process.send(others[0], group) for group in groups))
    await process.sessions(alice)
    await process.wait_until_idle()
    return alice


@pytest.mark.parametrize("members", [3, 40])
async def test_sending_to_a_group_of_any_size(meter: Meter, members: int) -> None:
    people = await meter.api.create_users(*(f"u{number}" for number in range(members)))
    group = await meter.api.create_group(*people)
    for user in people[:3]:
        await meter.api.sessions(user)
    await meter.costs(f"sendMessage, group of {members}", lambda: meter.send(people[0], group), 1, 2)


async def test_sending_to_a_person(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    await meter.costs("sendMessage, private", lambda: meter.send(alice, bob), 1, 2)


async def test_sending_with_a_key_asks_once_more_whose_it_is(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    keys = count()
    await meter.costs(
        "sendMessage, with idempotencyKey", lambda: meter.send(alice, bob, idempotencyKey=f"{next(keys)}"), 1, 3
    )
    await meter.costs("sendMessage, replayed", lambda: meter.send(alice, bob, idempotencyKey="0"), 1, 2)


async def test_many_messages_in_flight_share_their_writes(meter: Meter) -> None:
    alice, *others = await meter.api.create_users("alice", *(f"u{number}" for number in range(50)))
    await gather_all(*(meter.api.send(alice, other) for other in others))
    store = meter.api.services.app.store
    before = store.mongo.trips
    await gather_all(*(meter.send(alice, other) for other in others))
    # One for who came first, one for all who came meanwhile, and a few for stragglers.
    assert store.mongo.trips - before <= 10


async def test_reading(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    conversation = private_id(alice, bob)

    async def read(seq: int | None = None) -> None:
        await meter.api.data(alice, LEAN_READ, id=conversation, seq=seq)

    await meter.costs("markRead, lock included", read, 1, 2, prepare=lambda: meter.send(bob, alice))
    await meter.costs("markRead of what is read, lock included", read, 0, 2)
    for _ in range(RUNS + 2):
        await meter.send(bob, alice)
    seqs = count(RUNS + 2)
    # Where it stops in the middle, it counts up to there.
    await meter.costs("markRead with upToSeq, lock included", lambda: read(next(seqs)), 2, 2)


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_acknowledging_delivery(meter: Meter, kind: str) -> None:
    alice, bob, carol = await meter.api.create_users("alice", "bob", "carol")
    to = alice if kind == "private" else await meter.api.create_group(alice, bob, carol)
    conversation = private_id(alice, bob) if kind == "private" else to
    query = "mutation ($id: ID!, $seq: Int!) { ackDelivered(conversationId: $id, upToSeq: $seq) { deliveredSeq } }"

    async def ack(seq: int = 1_000) -> None:
        await meter.api.data(alice, query, id=conversation, seq=seq)

    await meter.costs("ackDelivered, lock included", ack, 1, 2, prepare=lambda: meter.send(bob, to))
    await meter.costs("ackDelivered of what is known, lock included", ack, 0, 2)
    for _ in range(RUNS + 2):
        await meter.send(bob, to)
    seqs = count(RUNS + 2)
    await meter.costs("ackDelivered in part, lock included", lambda: ack(next(seqs)), 2, 2)


async def test_changing_a_session(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    await meter.send(bob, alice)
    numbers = count(1)
    calls = {
        "pinSession": lambda n: f"pinSession(conversationId: $id, priority: {n})",
        "muteSession": lambda n: f'muteSession(conversationId: $id, muted: true, until: "2090-01-01T00:00:{n:02}Z")',
        "assignCategory": lambda n: f'assignCategory(conversationIds: [$id], categoryId: "{n}")',
    }
    for name, call in calls.items():

        async def change(call: Callable[[int], str] = call) -> None:
            query = f"mutation ($id: ID!) {{ {call(next(numbers))} {{ activeTs }} }}"
            await meter.api.data(alice, query, id=private_id(alice, bob))

        await meter.costs(f"{name}, lock included", change, 1, 2)


async def test_marking_unread_and_deleting(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for name in ("setUnread", "deleteSession"):
        query = f"mutation ($id: ID!) {{ {name}(conversationId: $id) {{ activeTs }} }}"

        async def change(query: str = query) -> None:
            await meter.api.data(alice, query, id=conversation)

        async def prepare() -> None:
            await meter.send(bob, alice)
            await meter.api.mark_read(alice, conversation)

        await meter.costs(f"{name}, lock included", change, 1, 2, prepare=prepare)


async def test_reading_a_whole_sub_biz(meter: Meter) -> None:
    alice, *others = await meter.api.create_users("alice", *(f"u{number}" for number in range(10)))

    async def prepare() -> None:
        await gather_all(*(meter.send(other, alice, subBiz="shop") for other in others))

    async def read() -> None:
        await meter.api.data(alice, LEAN_READ, id="b_shop")

    await meter.costs("markRead of a subBiz, lock included", read, 1, 4, prepare=prepare)


async def test_a_page_of_sessions_with_all_that_a_list_shows(meter: Meter, alice: str) -> None:
    page = (await meter.api.data(alice, SESSIONS, first=50))["sessions"]["edges"]
    assert len(page) == 50
    assert {edge["node"]["conversation"]["type"] for edge in page} == {"PRIVATE", "GROUP"}
    await meter.costs("sessions, first page of 50", lambda: meter.api.data(alice, SESSIONS, first=50), 0, 2)


async def test_synchronising(meter: Meter, alice: str) -> None:
    bob, carol = await meter.api.create_users("bob", "carol")
    few_cursor = (await meter.api.data(bob, SYNC))["syncSessions"]["cursor"]
    many_cursor = (await meter.api.data(alice, SYNC))["syncSessions"]["cursor"]
    for user in (bob, alice):
        await meter.api.send(carol, user)
    for name, user, since in (("2", bob, few_cursor), ("60", alice, many_cursor)):
        delta = (await meter.api.data(user, SYNC, since=since))["syncSessions"]
        assert len(delta["sessions"]) == 1

        async def synchronise(user: str = user, since: str = since) -> None:
            await meter.api.data(user, SYNC, since=since)

        await meter.costs(f"syncSessions, 1 change of about {name} sessions", synchronise, 0, 2)


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_a_page_of_messages(meter: Meter, kind: str) -> None:
    alice, bob, carol = await meter.api.create_users("alice", "bob", "carol")
    to = bob if kind == "private" else await meter.api.create_group(alice, bob, carol)
    conversation = private_id(alice, bob) if kind == "private" else to
    await gather_all(*(meter.api.send(alice, to) for _ in range(50)))
    assert len(await meter.api.history(bob, conversation)) == 50
    await meter.costs(
        f"messages, page of 50, {kind}", lambda: meter.api.data(bob, HISTORY, id=conversation, first=50), 1, 1
    )


async def test_ticks_of_a_page_of_messages_cost_one_look_more(meter: Meter) -> None:
    alice, bob, carol = await meter.api.create_users("alice", "bob", "carol")
    group = await meter.api.create_group(alice, bob, carol)
    for to in (group, bob):
        await gather_all(*(meter.api.send(alice, to) for _ in range(30)))
    query = """query ($id: ID!) { messages(conversationId: $id, last: 30) { edges { node {
        seq delivery { status recipientCount } } } } }"""
    for conversation in (group, private_id(alice, bob)):
        page = (await meter.api.data(alice, query, id=conversation))["messages"]["edges"]
        assert [edge["node"]["delivery"]["status"] for edge in page] == ["SENT"] * 30

        async def look(conversation: str = conversation) -> None:
            await meter.api.data(alice, query, id=conversation)

        await meter.costs("messages with delivery, page of 30", look, 2, 1)


@pytest.mark.parametrize("members", [2, 120])
async def test_receipts_of_a_message_are_one_look_in_groups_of_any_size(meter: Meter, members: int) -> None:
    alice, *_ = await meter.api.create_users("alice")
    crowd = await meter.api.create_many_users(f"receipts{members}", members)
    group = await meter.api.create_group(alice, *crowd)
    messages = [(await meter.api.send(alice, to))["message"] for to in (group, crowd[0])]
    query = "query ($id: ID!) { message(id: $id) { receipts(first: 100) { edges { node { status readAt } } } } }"
    for message in messages:

        async def look(message: Any = message) -> None:
            await meter.api.data(alice, query, id=message["id"])

        # The message is looked for, and whether it is the viewer's to see, as ever.
        await meter.costs(f"receipts, group of {members}", look, 2, 1)


async def test_the_offline_queue(meter: Meter, alice: str) -> None:
    query = "{ offlineMessages(first: 50) { edges { node { id seq content } } } }"
    await meter.costs("offlineMessages, 60 sessions", lambda: meter.api.data(alice, query), 1, 1)
    (nobody,) = await meter.api.create_users("nobody")
    await meter.costs("offlineMessages, nothing waits", lambda: meter.api.data(nobody, query), 0, 1)


async def test_small_reads(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    await meter.api.send(bob, alice)
    await meter.costs("me", lambda: meter.api.data(alice, "{ me { id displayName } }"), 0, 0)
    await meter.costs("totalUnread", lambda: meter.api.data(alice, "{ totalUnread }"), 0, 1)
    await meter.costs("session", lambda: meter.api.session(alice, private_id(alice, bob)), 0, 2)


async def test_delivering_costs_the_same_however_many_listen(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    store = api.services.app.store

    async def all_trips() -> tuple[int, int]:
        best = []
        for _ in range(RUNS):
            mongo, redis = store.mongo.trips, store.cache.trips + store.cache.background_trips
            await api.send(alice, bob)
            await api.wait_until_idle()
            await asyncio.sleep(0.03)
            best.append((store.mongo.trips - mongo, store.cache.trips + store.cache.background_trips - redis))
        return min(best)

    await api.send(alice, bob)
    first = await api.listen(bob)
    one = await all_trips()
    others = [await api.listen(bob) for _ in range(20)]
    assert await all_trips() == one
    assert len(first.pop_events()) == 2 * RUNS
    for listener in others:
        assert len(listener.pop_events()) == RUNS


async def test_equal_selections_share_one_execution(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    engine = api.services.engine
    execute, executed = engine.execute_event, list[object]()

    async def counting(executor: Any, shown: object, viewer: Any) -> bytes:
        executed.append(shown)
        return await execute(executor, shown, viewer)

    monkeypatch.setattr(engine, "execute_event", counting)
    query = """subscription ($since: Cursor) { messageEvents(since: $since) {
        __typename ... on MessageCreated { cursor message { content editCount sender { id } } } ... on CaughtUp { reset } } }"""
    # Another name of the operation, other white space: the same selection.
    spellings = [query, query.replace("subscription", "subscription Other"), " ".join(query.split())]
    first = await api.listen(bob, query)
    listeners = [await api.listen(user, spelling) for user in (bob, carol) for spelling in spellings]
    executed.clear()
    await api.send(alice, group)
    events = [await listener.next() for listener in [first, *listeners]]
    assert len(executed) == 1
    assert all(event["message"] == events[0]["message"] for event in events)
    assert len({event["cursor"] for event in events}) == 2

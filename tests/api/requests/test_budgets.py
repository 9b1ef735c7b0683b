"""Round trips to MongoDB and Redis that a request waits for when everything is cached, compared with the budgets."""

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

# The smallest selections that clients need. A last message or a title in addition would be read like any other.
MINIMAL_SEND = """mutation ($input: SendMessageInput!) { sendMessage(input: $input) {
    replayed message { id seq createdAt sender { displayName } } session { writeSeq readSeq unreadCount
    activeTs } } }"""
MINIMAL_READ = (
    "mutation ($id: ID!, $seq: Int) { markRead(conversationId: $id, upToSeq: $seq) { readSeq unreadCount activeTs } }"
)


@dataclass(frozen=True)
class Trips:
    mongo: int
    redis: int


@dataclass(frozen=True)
class Meter:
    api: Api

    async def measure(self, request: Request, prepare: Request | None) -> Trips:
        """Return the round trips that a request waits for.

        Work after the answer may add to a single run, so the least of several runs counts.
        """
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

    async def send(self, sender: str, to: str, **fields: Any) -> None:
        await self.api.data(sender, MINIMAL_SEND, input=message_input(to, **fields))

    async def expect(
        self, name: str, request: Request, mongo: int, redis: int, *, prepare: Request | None = None
    ) -> None:
        """Assert the exact round trips of a request, so that savings are noticed too."""
        assert await self.measure(request, prepare) == Trips(mongo, redis), name


@pytest.fixture
def meter(api: Api) -> Meter:
    return Meter(api)


@pytest.fixture(scope="module")
async def alice(process: Api) -> str:
    """A user with 60 sessions, half of them groups, each with a last message of another user."""
    alice, *others = await process.create_users("alice", *(f"u{number}" for number in range(30)))
    await gather_all(*(process.send(other, alice) for other in others))
    groups = await gather_all(*(process.create_group(other, alice, others[0], others[1]) for other in others[2:]))
    groups += await gather_all(*(process.create_group(others[0], others[1], alice) for _ in range(2)))
    await gather_all(*(process.send(others[0], group) for group in groups))
    await process.sessions(alice)
    await process.wait_until_idle()
    return alice


@pytest.mark.parametrize("members", [3, 40])
async def test_budget_of_sending_to_a_group_of_any_size(meter: Meter, members: int) -> None:
    users = await meter.api.create_users(*(f"u{number}" for number in range(members)))
    group = await meter.api.create_group(*users)
    for user in users[:3]:
        await meter.api.sessions(user)
    await meter.expect(f"sendMessage, group of {members}", lambda: meter.send(users[0], group), 1, 2)


async def test_budget_of_sending_to_a_user(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    await meter.expect("sendMessage, private", lambda: meter.send(alice, bob), 1, 2)


async def test_budget_of_sending_with_an_idempotency_key(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    keys = count()
    await meter.expect(
        "sendMessage, with idempotencyKey", lambda: meter.send(alice, bob, idempotencyKey=f"{next(keys)}"), 1, 3
    )
    await meter.expect("sendMessage, replayed", lambda: meter.send(alice, bob, idempotencyKey="0"), 1, 2)


async def test_messages_in_flight_share_their_writes(meter: Meter) -> None:
    alice, *others = await meter.api.create_users("alice", *(f"u{number}" for number in range(50)))
    await gather_all(*(meter.api.send(alice, other) for other in others))
    store = meter.api.services.app.store
    before = store.mongo.trips
    await gather_all(*(meter.send(alice, other) for other in others))
    # One for the first message, one for all messages that arrived meanwhile, and a few for late ones.
    assert store.mongo.trips - before <= 10


async def test_budget_of_mark_read(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    conversation = private_id(alice, bob)

    async def read(seq: int | None = None) -> None:
        await meter.api.data(alice, MINIMAL_READ, id=conversation, seq=seq)

    await meter.expect("markRead, lock included", read, 1, 2, prepare=lambda: meter.send(bob, alice))
    await meter.expect("markRead of what is read, lock included", read, 0, 2)
    for _ in range(RUNS + 2):
        await meter.send(bob, alice)
    seqs = count(RUNS + 2)
    # An upToSeq before the newest message needs a query that counts up to it.
    await meter.expect("markRead with upToSeq, lock included", lambda: read(next(seqs)), 2, 2)


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_budget_of_acknowledging_delivery(meter: Meter, kind: str) -> None:
    alice, bob, carol = await meter.api.create_users("alice", "bob", "carol")
    to = alice if kind == "private" else await meter.api.create_group(alice, bob, carol)
    conversation = private_id(alice, bob) if kind == "private" else to
    query = "mutation ($id: ID!, $seq: Int!) { ackDelivered(conversationId: $id, upToSeq: $seq) { deliveredSeq } }"

    async def ack(seq: int = 1_000) -> None:
        await meter.api.data(alice, query, id=conversation, seq=seq)

    await meter.expect("ackDelivered, lock included", ack, 1, 2, prepare=lambda: meter.send(bob, to))
    await meter.expect("ackDelivered of what is known, lock included", ack, 0, 2)
    for _ in range(RUNS + 2):
        await meter.send(bob, to)
    seqs = count(RUNS + 2)
    await meter.expect("ackDelivered in part, lock included", lambda: ack(next(seqs)), 2, 2)


async def test_budget_of_changing_a_session(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    await meter.send(bob, alice)
    numbers = count(1)
    levels = ("NONE", "MENTIONS")
    calls = {
        "pinSession": lambda n: f"pinSession(conversationId: $id, priority: {n}) {{ activeTs }}",
        "muteSession": lambda n: (
            f'muteSession(conversationId: $id, muted: true, until: "2090-01-01T00:00:{n:02}Z") {{ activeTs }}'
        ),
        "assignCategory": lambda n: f'assignCategory(conversationIds: [$id], categoryId: "{n}") {{ activeTs }}',
        "setNotificationLevel": lambda n: f"setNotificationLevel(id: $id, level: {levels[n % 2]})",
    }
    for name, call in calls.items():

        async def change(call: Callable[[int], str] = call) -> None:
            query = f"mutation ($id: ID!) {{ {call(next(numbers))} }}"
            await meter.api.data(alice, query, id=private_id(alice, bob))

        await meter.expect(f"{name}, lock included", change, 1, 2)


async def test_budget_of_marking_unread_and_deleting(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for name in ("setUnread", "deleteSession"):
        query = f"mutation ($id: ID!) {{ {name}(conversationId: $id) {{ activeTs }} }}"

        async def change(query: str = query) -> None:
            await meter.api.data(alice, query, id=conversation)

        async def prepare() -> None:
            await meter.send(bob, alice)
            await meter.api.mark_read(alice, conversation)

        await meter.expect(f"{name}, lock included", change, 1, 2, prepare=prepare)


async def test_budget_of_reading_a_whole_sub_biz(meter: Meter) -> None:
    alice, *others = await meter.api.create_users("alice", *(f"u{number}" for number in range(10)))

    async def prepare() -> None:
        await gather_all(*(meter.send(other, alice, subBiz="shop") for other in others))

    async def read() -> None:
        await meter.api.data(alice, MINIMAL_READ, id="b_shop")

    await meter.expect("markRead of a subBiz, lock included", read, 1, 3, prepare=prepare)


@pytest.mark.parametrize("number", [2, 12])
async def test_budget_of_marking_many(meter: Meter, number: int) -> None:
    alice, *others = await meter.api.create_users("alice", *(f"u{each}" for each in range(number)))
    ids = [private_id(alice, other) for other in others]
    read_query = "mutation ($ids: [ID!]) { markManyRead(conversationIds: $ids) { readSeq activeTs } }"
    ack_query = "mutation ($marks: [DeliveryMark!]!) { ackManyDelivered(marks: $marks) { deliveredSeq } }"

    async def prepare() -> None:
        await gather_all(*(meter.send(other, alice) for other in others))

    async def read(ids: list[str] | None = ids) -> None:
        await meter.api.data(alice, read_query, ids=ids)

    async def ack(seq: int = 1_000) -> None:
        await meter.api.data(alice, ack_query, marks=[{"conversationId": id, "upToSeq": seq} for id in ids])

    await meter.expect(f"markManyRead of {number}, lock included", read, 1, 2, prepare=prepare)
    await meter.expect(f"markManyRead of all, {number} unread", lambda: read(None), 1, 3, prepare=prepare)
    await meter.expect("markManyRead of nothing unread", lambda: read(None), 0, 1)
    await meter.expect(f"ackManyDelivered of {number}, lock included", ack, 1, 2, prepare=prepare)
    before = (await meter.api.own_session(alice, ids[0]))["writeSeq"]
    for _ in range(RUNS + 2):
        await prepare()
    seqs = count(before + 1)
    await meter.expect("ackManyDelivered in part, lock included", lambda: ack(next(seqs)), 2, 2)


async def test_budget_of_a_page_of_sessions(meter: Meter, alice: str) -> None:
    page = (await meter.api.data(alice, SESSIONS, first=50))["sessions"]["edges"]
    assert len(page) == 50
    assert {edge["node"]["conversation"]["type"] for edge in page} == {"PRIVATE", "GROUP"}
    await meter.expect("sessions, first page of 50", lambda: meter.api.data(alice, SESSIONS, first=50), 0, 2)


async def test_budget_of_synchronising(meter: Meter, alice: str) -> None:
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

        await meter.expect(f"syncSessions, 1 change of about {name} sessions", synchronise, 0, 2)


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_budget_of_a_page_of_messages(meter: Meter, kind: str) -> None:
    alice, bob, carol = await meter.api.create_users("alice", "bob", "carol")
    to = bob if kind == "private" else await meter.api.create_group(alice, bob, carol)
    conversation = private_id(alice, bob) if kind == "private" else to
    await gather_all(*(meter.api.send(alice, to) for _ in range(50)))
    assert len(await meter.api.history(bob, conversation)) == 50
    await meter.expect(
        f"messages, page of 50, {kind}", lambda: meter.api.data(bob, HISTORY, id=conversation, first=50), 1, 1
    )
    for name in ("aroundSeq", "fromSeq"):
        for seq in (1, 25, 1_000):

            async def read(name: str = name, seq: int = seq) -> None:
                await meter.api.data(bob, HISTORY, id=conversation, **{name: seq})

            await meter.expect(f"messages, {name} {seq}, {kind}", read, 1, 1)


async def test_budget_of_a_page_of_messages_with_delivery(meter: Meter) -> None:
    alice, bob, carol = await meter.api.create_users("alice", "bob", "carol")
    group = await meter.api.create_group(alice, bob, carol)
    for to in (group, bob):
        await gather_all(*(meter.api.send(alice, to) for _ in range(30)))
    query = """query ($id: ID!) { messages(conversationId: $id, last: 30) { edges { node {
        seq delivery { status recipientCount } } } } }"""
    for conversation in (group, private_id(alice, bob)):
        page = (await meter.api.data(alice, query, id=conversation))["messages"]["edges"]
        assert [edge["node"]["delivery"]["status"] for edge in page] == ["SENT"] * 30

        async def read(conversation: str = conversation) -> None:
            await meter.api.data(alice, query, id=conversation)

        await meter.expect("messages with delivery, page of 30", read, 2, 1)


@pytest.mark.parametrize("members", [2, 120])
async def test_budget_of_receipts_in_groups_of_any_size(meter: Meter, members: int) -> None:
    alice, *_ = await meter.api.create_users("alice")
    recipients = await meter.api.create_many_users(f"receipts{members}", members)
    group = await meter.api.create_group(alice, *recipients)
    messages = [(await meter.api.send(alice, to))["message"] for to in (group, recipients[0])]
    query = "query ($id: ID!) { message(id: $id) { receipts(first: 100) { edges { node { status readAt } } } } }"
    for message in messages:

        async def read(message: Any = message) -> None:
            await meter.api.data(alice, query, id=message["id"])

        # In addition, reading the message and the viewer's access to it.
        await meter.expect(f"receipts, group of {members}", read, 2, 1)


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_the_receipts_of_a_page_of_messages_are_read_together(meter: Meter, kind: str) -> None:
    alice, bob, carol = await meter.api.create_users("alice", "bob", "carol")
    to = bob if kind == "private" else await meter.api.create_group(alice, bob, carol)
    conversation = private_id(alice, bob) if kind == "private" else to
    for _ in range(40):
        await meter.send(alice, to)
    query = """query ($id: ID!) { messages(conversationId: $id, last: 40) { edges { node {
        all: receipts { edges { node { status } } }
        sent: receipts(status: SENT) { edges { node { status } } } } } } }"""

    async def read() -> None:
        found = await meter.api.data(alice, query, id=conversation)
        receipts = [edge["node"]["sent"]["edges"] for edge in found["messages"]["edges"]]
        assert receipts == [[{"node": {"status": "SENT"}}] * (1 if kind == "private" else 2)] * 40

    # In addition, reading the messages.
    await meter.expect(f"messages with receipts, page of 40, {kind}", read, 2, 1)


async def test_budget_of_the_offline_queue(meter: Meter, alice: str) -> None:
    query = "{ offlineMessages(first: 50) { edges { node { id seq content } } } }"
    await meter.expect("offlineMessages, 60 sessions", lambda: meter.api.data(alice, query), 1, 1)
    (other,) = await meter.api.create_users("nobody")
    await meter.expect("offlineMessages, empty", lambda: meter.api.data(other, query), 0, 1)


async def test_budget_of_small_reads(meter: Meter) -> None:
    alice, bob = await meter.api.create_users("alice", "bob")
    await meter.api.send(bob, alice)
    await meter.expect("me", lambda: meter.api.data(alice, "{ me { id displayName } }"), 0, 0)
    await meter.expect("attention", lambda: meter.api.data(alice, "{ attention { unread mentions threads } }"), 0, 1)
    await meter.expect("totalUnread", lambda: meter.api.data(alice, "{ totalUnread }"), 0, 1)
    await meter.expect("session", lambda: meter.api.session(alice, private_id(alice, bob)), 0, 2)


async def test_delivering_costs_the_same_for_any_number_of_listeners(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    store = api.services.app.store

    async def count_trips() -> tuple[int, int]:
        trips = []
        for _ in range(RUNS):
            mongo, redis = store.mongo.trips, store.cache.trips + store.cache.background_trips
            await api.send(alice, bob)
            await api.wait_until_idle()
            await asyncio.sleep(0.03)
            trips.append((store.mongo.trips - mongo, store.cache.trips + store.cache.background_trips - redis))
        return min(trips)

    await api.send(alice, bob)
    first = await api.listen(bob)
    single = await count_trips()
    others = [await api.listen(bob) for _ in range(20)]
    assert await count_trips() == single
    for listener, expected in ((first, 2 * RUNS), *((other, RUNS) for other in others)):
        await listener.take(expected)
        assert listener.pop_events() == []


async def test_equal_selections_share_one_execution(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    engine = api.services.engine
    execute, executed = engine.execute_event, list[object]()

    def count_and_execute(executor: Any, event: object, viewer: Any, user: Any) -> Any:
        executed.append(event)
        return execute(executor, event, viewer, user)

    monkeypatch.setattr(engine, "execute_event", count_and_execute)
    query = """subscription ($since: Cursor) { messageEvents(since: $since) {
        __typename ... on MessageCreated { cursor message { content editCount sender { id } } } ... on CaughtUp
        { reset } } }"""
    # Another operation name and other white space are the same selection.
    spellings = [query, query.replace("subscription", "subscription Other"), " ".join(query.split())]
    first = await api.listen(bob, query)
    listeners = [await api.listen(user, spelling) for user in (bob, carol) for spelling in spellings]
    executed.clear()
    await api.send(alice, group)
    events = [await listener.next() for listener in [first, *listeners]]
    assert len(executed) == 1
    assert all(event["message"] == events[0]["message"] for event in events)
    assert len({event["cursor"] for event in events}) == 2

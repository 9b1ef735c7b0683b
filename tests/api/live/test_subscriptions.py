"""Live subscriptions: which subscribers receive which events, once and in order; and slow readers."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from store.base.ids import UserId
from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLRequest,
    RequestRefused,
)
from tests.api.client import (
    LIVE_MESSAGES,
    LIVE_SESSIONS,
    TIMEOUT_SECONDS,
    Api,
    Json,
    Refusal,
    gather_all,
    make_caller,
    parse_refusal,
    private_id,
)
from tests.api.stream_responses import iterate_responses


class UnreadSubscription:
    """A subscription that is read only when the test reads it."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self._responses = iterate_responses(stream)

    async def next(self) -> Json:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            (value,) = orjson.loads(await anext(self._responses))["data"].values()
        assert isinstance(value, dict)
        return value


async def start_subscription(api: Api, user: str, query: str, room: int = 1_000) -> UnreadSubscription:
    request = GraphQLRequest(query)
    context = ConnectionContext(make_caller(user), "test", queue_budget=QueueBudget(room))
    engine = api.services.engine
    return UnreadSubscription(await engine.subscribe(await engine.prepare(request, context.caller), request, context))


async def test_a_message_reaches_every_device_of_both_users_once(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    devices = [await api.listen(user) for user in (alice, alice, bob)]
    sent = await api.send(alice, bob, "hello", idempotencyKey="k")
    events = [await device.next() for device in devices]
    assert [event["__typename"] for event in events] == ["MessageCreated"] * 3
    assert [event["message"] for event in events] == [
        sent["message"],
        sent["message"],
        sent["message"] | {"idempotencyKey": None},
    ]
    assert events[0]["cursor"] == events[1]["cursor"] != events[2]["cursor"]
    for device in devices:
        await device.expect_no_event(0.05)


async def test_a_message_sends_no_session_event(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    listeners = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob)]
    await api.send(alice, bob)
    await api.send(bob, group)
    for listener in listeners:
        await listener.expect_no_event()


async def test_a_live_subscription_starts_with_caught_up(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    live = await api.subscribe(alice, LIVE_MESSAGES)
    first = await live.next()
    assert (first["__typename"], first["reset"]) == ("CaughtUp", False)
    session_listener = await api.subscribe(alice, LIVE_SESSIONS)
    first = await session_listener.next()
    assert first.pop("cursor")
    assert first == {"reason": "CATCH_UP", "hasMore": False, "reset": False, "sessions": [], "totalUnread": 1}
    await live.expect_no_event(0.03)
    await session_listener.expect_no_event(0.03)


@pytest.mark.parametrize("query", [LIVE_MESSAGES, LIVE_SESSIONS], ids=["messages", "sessions"])
async def test_events_before_the_first_read_are_not_missed(api: Api, query: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    stream = await start_subscription(api, alice, query)
    await api.mark_read(alice, private_id(alice, bob))
    await api.send(bob, alice, "early")
    values = [await stream.next() for _ in range(2 if query == LIVE_SESSIONS else 3)]
    stream.stream.close()
    if query == LIVE_SESSIONS:
        assert [value["reason"] for value in values] == ["CATCH_UP", "READ"]
    else:
        assert [value["__typename"] for value in values] == ["CaughtUp", "ReceiptAdvanced", "MessageCreated"]


async def test_a_subscription_can_be_limited_to_one_conversation(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, bob, "opens it")
    group_listener = await api.listen(alice, id=group)
    bob_listener = await api.listen(alice, id=private_id(alice, bob))
    await api.send(carol, alice, "elsewhere")
    await api.send(bob, group, "in the group")
    await api.send(bob, alice, "to alice")
    await api.mark_read(carol, group)
    await api.mark_read(alice, group)
    await api.wait_until_idle()
    events = await group_listener.take(2)
    assert events[0]["message"]["content"] == "in the group"
    assert (events[1]["__typename"], events[1]["user"]["id"]) == ("ReceiptAdvanced", alice)
    # The receipt for carol's reading is sent only to bob, who wrote the message.
    await group_listener.expect_no_event(0.03)
    kinds = {event.get("status") or event["message"]["content"] for event in await bob_listener.take(2)}
    assert kinds == {"to alice", "READ"}
    await bob_listener.expect_no_event(0.03)
    assert await api.invite(bob, group, dave)
    assert (await group_listener.next())["message"]["contentType"] == "SYSTEM"


async def test_an_unknown_conversation_cannot_be_subscribed_to(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for conversation in (private_id(alice, bob), private_id(alice, "nobody"), "g_1", ""):
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(alice, LIVE_MESSAGES, id=conversation)
        assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")
    await api.send(bob, alice)
    assert await api.listen(alice, id=private_id(alice, bob))


async def test_subscriptions_need_a_token(api: Api) -> None:
    for query in (LIVE_MESSAGES, LIVE_SESSIONS):
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(None, query)
        assert parse_refusal(caught.value.errors[0]) == Refusal("UNAUTHENTICATED")


@pytest.mark.parametrize("variables", [{"since": 5.5}, {"since": []}, {"id": {}}], ids=str)
async def test_variables_of_the_wrong_type_refuse_the_subscription(api: Api, variables: Json) -> None:
    (alice,) = await api.create_users("alice")
    with pytest.raises(RequestRefused) as caught:
        await api.subscribe(alice, LIVE_MESSAGES, **variables)
    assert parse_refusal(caught.value.errors[0]).code == "INVALID_INPUT"


async def test_messages_of_one_sender_arrive_in_order(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    devices = [await api.listen(user) for user in (alice, bob, carol)]
    for number in range(10):
        await api.send(alice, group, f"{number}")
    for device in devices:
        assert [event["message"]["content"] for event in await device.take(10)] == [f"{n}" for n in range(10)]


async def test_an_event_has_exactly_the_selected_fields(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    small = await api.subscribe(alice, "subscription { messageEvents { ... on MessageCreated { message { seq } } } }")
    aliased = await api.subscribe(
        alice,
        "subscription { it: messageEvents { kind: __typename ... on MessageCreated { message { sender { id } } } } }",
    )
    assert await small.next() == {}
    assert await aliased.next() == {"kind": "CaughtUp"}
    await api.send(bob, alice)
    assert await small.next() == {"message": {"seq": 1}}
    assert await aliased.next() == {"kind": "MessageCreated", "message": {"sender": {"id": bob}}}


async def test_events_can_be_selected_as_deeply_as_queries(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, name="Deep")
    first = (await api.send(alice, group, "first"))["message"]["id"]
    live = await api.listen(bob)
    session_listener = await api.subscribe(
        bob,
        """subscription { syncSession { reason sessions { conversation { title ... on Group { memberCount viewerRole
        owner { displayName } members(first: 1) { edges { node { role } } } } session { readSeq } } } } }""",
    )
    await session_listener.next()
    await api.send(carol, group, "second", replyToId=first, mentions=[bob])
    message = (await live.next())["message"]
    assert (message["replyTo"]["content"], message["mentions"]) == ("first", [{"id": bob}])
    await api.mark_read(bob, group)
    (session,) = (await session_listener.next())["sessions"]
    assert session["conversation"] == {
        "title": "Deep",
        "memberCount": 3,
        "viewerRole": "MEMBER",
        "owner": {"displayName": alice},
        "members": {"edges": [{"node": {"role": "OWNER"}}]},
        "session": {"readSeq": 2},
    }


async def test_an_ended_subscription_leaves_no_feed(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    hub = api.services.app.hub
    subscriber = await api.listen(alice)
    never_read = await start_subscription(api, alice, LIVE_SESSIONS)
    await api.send(bob, alice)
    assert UserId(alice) in hub._feeds
    await subscriber.stop()
    assert UserId(alice) in hub._feeds
    never_read.stream.close()
    assert UserId(alice) not in hub._feeds
    await api.send(bob, alice)
    new_subscriber = await api.listen(alice)
    await api.send(bob, alice, "third")
    assert (await new_subscriber.next())["message"]["content"] == "third"


async def test_short_subscriptions_during_messages_receive_each_once(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)

    async def device() -> list[int]:
        subscriber = await api.listen(alice)
        while True:
            events = [await subscriber.next() for _ in range(3)]
            await subscriber.stop()
            return [event["message"]["seq"] for event in events]

    async def writer() -> None:
        for _ in range(20):
            await api.send(bob, alice)

    *received, _ = await gather_all(*(device() for _ in range(5)), writer())
    for seqs in received:
        assert seqs == list(range(seqs[0], seqs[0] + 3))


async def test_a_slow_reader_of_messages_is_reset(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    stream = await start_subscription(api, alice, LIVE_MESSAGES, room=5)
    assert (await stream.next())["reset"] is False
    for _ in range(12):
        await api.send(bob, alice)
    events = [await stream.next()]
    assert (events[0]["__typename"], events[0]["reset"]) == ("CaughtUp", True)
    await api.send(bob, alice, "the last")
    while events[-1].get("message", {}).get("content") != "the last":
        events.append(await stream.next())
    stream.stream.close()
    seqs = [event["message"]["seq"] for event in events[1:]]
    assert seqs == list(range(14 - len(seqs), 14))
    # A client that starts over after the reset and continues from its cursor misses nothing.
    resumed = await api.subscribe(alice, LIVE_MESSAGES, since=events[0]["cursor"])
    assert [event["message"]["seq"] for event in await resumed.take(len(seqs))] == seqs


async def test_a_slow_reader_of_sessions_receives_all_of_them_again(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(8)))
    stream = await start_subscription(api, alice, LIVE_SESSIONS, room=6)
    assert (await stream.next())["reset"] is False
    await gather_all(*(api.send(other, alice) for other in others))
    for other in others:
        await api.mark_read(alice, private_id(alice, other))
    event = await stream.next()
    assert (event["reason"], event["reset"], event["hasMore"], event["totalUnread"]) == ("CATCH_UP", True, False, 0)
    fresh = await api.sessions(alice)
    assert sorted(event["sessions"], key=lambda s: str(s["id"])) == sorted(fresh, key=lambda s: str(s["id"]))
    await api.send(others[0], alice)
    session = await api.mark_read(alice, private_id(alice, others[0]))
    event = await stream.next()
    assert (event["reason"], event["sessions"]) == ("READ", [session])
    stream.stream.close()


async def test_a_slow_reader_delays_no_other_reader(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    slow_reader = await start_subscription(api, alice, LIVE_MESSAGES, room=5)
    fast_reader = await api.listen(alice)
    for number in range(12):
        await api.send(bob, alice, f"{number}")
        assert (await fast_reader.next())["message"]["content"] == f"{number}"
    slow_reader.stream.close()

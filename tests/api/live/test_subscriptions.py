"""Subscriptions while they last: who is told what, once, and in which order."""

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
    iterate_responses,
)
from tests.api.client import (
    LIVE_MESSAGES,
    LIVE_SESSIONS,
    Api,
    Json,
    Refusal,
    gather_all,
    make_caller,
    parse_refusal,
    private_id,
)


class Unread:
    """A subscription that is read when the test says so."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self._responses = iterate_responses(stream)

    async def next(self) -> Json:
        async with asyncio.timeout(5):
            (value,) = orjson.loads(await anext(self._responses))["data"].values()
        assert isinstance(value, dict)
        return value


async def started(api: Api, user: str, query: str, room: int = 1_000) -> Unread:
    request = GraphQLRequest(query)
    context = ConnectionContext(make_caller(user), "test", queue_budget=QueueBudget(room))
    return Unread(await api.services.engine.subscribe(api.services.engine.prepare(request), request, context))


async def test_a_message_reaches_every_device_of_everybody_once(api: Api) -> None:
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


async def test_a_message_is_no_change_of_a_session(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    listeners = [await api.listen(user, LIVE_SESSIONS) for user in (alice, bob)]
    await api.send(alice, bob)
    await api.send(bob, group)
    for listener in listeners:
        await listener.expect_no_event()


async def test_what_is_live_begins_with_word_of_it(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    live = await api.subscribe(alice, LIVE_MESSAGES)
    first = await live.next()
    assert (first["__typename"], first["reset"]) == ("CaughtUp", False)
    synced = await api.subscribe(alice, LIVE_SESSIONS)
    first = await synced.next()
    assert first.pop("cursor")
    assert first == {"reason": "CATCH_UP", "hasMore": False, "reset": False, "sessions": [], "totalUnread": 1}
    await live.expect_no_event(0.03)
    await synced.expect_no_event(0.03)


@pytest.mark.parametrize("query", [LIVE_MESSAGES, LIVE_SESSIONS], ids=["messages", "sessions"])
async def test_nothing_is_missed_between_subscribing_and_the_first_read(api: Api, query: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    stream = await started(api, alice, query)
    await api.mark_read(alice, private_id(alice, bob))
    await api.send(bob, alice, "early")
    values = [await stream.next() for _ in range(2 if query == LIVE_SESSIONS else 3)]
    stream.stream.close()
    if query == LIVE_SESSIONS:
        assert [value["reason"] for value in values] == ["CATCH_UP", "READ"]
    else:
        assert [value["__typename"] for value in values] == ["CaughtUp", "ReceiptAdvanced", "MessageCreated"]


async def test_one_conversation_can_be_followed_alone(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, bob, "opens it")
    of_group = await api.listen(alice, id=group)
    of_bob = await api.listen(alice, id=private_id(alice, bob))
    await api.send(carol, alice, "elsewhere")
    await api.send(bob, group, "in the group")
    await api.send(bob, alice, "to alice")
    await api.mark_read(carol, group)
    await api.mark_read(alice, group)
    await api.wait_until_idle()
    events = await of_group.take(2)
    assert events[0]["message"]["content"] == "in the group"
    assert (events[1]["__typename"], events[1]["user"]["id"]) == ("ReceiptAdvanced", alice)
    # Carol read what bob wrote: that is bob's to know.
    await of_group.expect_no_event(0.03)
    kinds = {event.get("status") or event["message"]["content"] for event in await of_bob.take(2)}
    assert kinds == {"to alice", "READ"}
    await of_bob.expect_no_event(0.03)
    assert await api.invite(bob, group, dave)
    assert (await of_group.next())["message"]["contentType"] == "SYSTEM"


async def test_a_conversation_that_is_not_there_yet_can_not_be_followed(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for conversation in (private_id(alice, bob), private_id(alice, "nobody"), "g_1", ""):
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(alice, LIVE_MESSAGES, id=conversation)
        assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")
    await api.send(bob, alice)
    assert await api.listen(alice, id=private_id(alice, bob))


async def test_without_a_token_nothing_is_subscribed_to(api: Api) -> None:
    for query in (LIVE_MESSAGES, LIVE_SESSIONS):
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(None, query)
        assert parse_refusal(caught.value.errors[0]) == Refusal("UNAUTHENTICATED")


@pytest.mark.parametrize("variables", [{"since": 5.5}, {"since": []}, {"id": {}}], ids=str)
async def test_variables_of_another_type_are_refused_before_anything_begins(api: Api, variables: Json) -> None:
    (alice,) = await api.create_users("alice")
    with pytest.raises(RequestRefused) as caught:
        await api.subscribe(alice, LIVE_MESSAGES, **variables)
    assert parse_refusal(caught.value.errors[0]).code == "INVALID_INPUT"


async def test_what_one_sends_one_after_the_other_comes_in_that_order(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    devices = [await api.listen(user) for user in (alice, bob, carol)]
    for number in range(10):
        await api.send(alice, group, f"{number}")
    for device in devices:
        assert [event["message"]["content"] for event in await device.take(10)] == [f"{n}" for n in range(10)]


async def test_a_subscription_shows_just_what_was_selected(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    small = await api.subscribe(alice, "subscription { messageEvents { ... on MessageCreated { message { seq } } } }")
    named = await api.subscribe(
        alice,
        "subscription { it: messageEvents { kind: __typename ... on MessageCreated { message { sender { id } } } } }",
    )
    assert await small.next() == {}
    assert await named.next() == {"kind": "CaughtUp"}
    await api.send(bob, alice)
    assert await small.next() == {"message": {"seq": 1}}
    assert await named.next() == {"kind": "MessageCreated", "message": {"sender": {"id": bob}}}


async def test_events_go_as_deep_as_queries(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, name="Deep")
    first = (await api.send(alice, group, "first"))["message"]["id"]
    live = await api.listen(bob)
    synced = await api.subscribe(
        bob,
        """subscription { syncSession { reason sessions { conversation { title ... on Group { memberCount viewerRole
        owner { displayName } members(first: 1) { edges { node { role } } } } session { readSeq } } } } }""",
    )
    await synced.next()
    await api.send(carol, group, "second", replyToId=first, mentions=[bob])
    message = (await live.next())["message"]
    assert (message["replyTo"]["content"], message["mentions"]) == ("first", [{"id": bob}])
    await api.mark_read(bob, group)
    (session,) = (await synced.next())["sessions"]
    assert session["conversation"] == {
        "title": "Deep",
        "memberCount": 3,
        "viewerRole": "MEMBER",
        "owner": {"displayName": alice},
        "members": {"edges": [{"node": {"role": "OWNER"}}]},
        "session": {"readSeq": 2},
    }


async def test_a_subscription_that_ended_leaves_nothing_behind(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    hub = api.services.app.hub
    subscriber = await api.listen(alice)
    never_read = await started(api, alice, LIVE_SESSIONS)
    await api.send(bob, alice)
    assert UserId(alice) in hub._feeds
    await subscriber.stop()
    assert UserId(alice) in hub._feeds
    never_read.stream.close()
    assert UserId(alice) not in hub._feeds
    await api.send(bob, alice)
    again = await api.listen(alice)
    await api.send(bob, alice, "third")
    assert (await again.next())["message"]["content"] == "third"


async def test_devices_that_come_and_go_while_messages_flow_get_each_once(api: Api) -> None:
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

    *seen, _ = await gather_all(*(device() for _ in range(5)), writer())
    for seqs in seen:
        assert seqs == list(range(seqs[0], seqs[0] + 3))


# --- a reader that is too slow


async def test_a_slow_reader_of_messages_is_told_that_it_missed_some(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    stream = await started(api, alice, LIVE_MESSAGES, room=5)
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
    # Whoever starts anew from what the reset tells, and goes on from its cursor, holds everything.
    resumed = await api.subscribe(alice, LIVE_MESSAGES, since=events[0]["cursor"])
    assert [event["message"]["seq"] for event in await resumed.take(len(seqs))] == seqs


async def test_a_slow_reader_of_sessions_is_given_all_of_them_anew(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(8)))
    stream = await started(api, alice, LIVE_SESSIONS, room=6)
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


async def test_a_slow_reader_delays_nobody_else(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    slow = await started(api, alice, LIVE_MESSAGES, room=5)
    quick = await api.listen(alice)
    for number in range(12):
        await api.send(bob, alice, f"{number}")
        assert (await quick.next(within=2))["message"]["content"] == f"{number}"
    slow.stream.close()

"""Users see the presence of those who share something with them; of all others they see OFFLINE."""

from __future__ import annotations

import pytest

from resolvers.presence.audience import find_visible_lately
from store.base.ids import UserId
from store.presence.presence_record import Activity, ActivityType, DeviceType
from tests.api.client import Api, Refusal
from tests.api.presence.calls import (
    PRESENCE_OF,
    PRESENCES,
    offline,
    own_presence,
    presences,
    set_presence,
    set_status,
    status_of,
)
from tests.api.presence.conftest import TimedApi
from tests.api.requests.test_budgets import Meter

GAME = Activity(ActivityType.PLAYING, "Chess", "blitz", "in a match", 1_700_000_000_000, 1_700_000_600_000)


async def test_a_connected_user_is_online_with_status_and_activities(timed: TimedApi) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await timed.connect(bob, type=DeviceType.MOBILE, activities=(GAME,))
    await set_status(api, bob, text="on a train", emoji=":train:", expiresAt=timed.at(3_600))
    shown = {
        "user": {"id": bob, "displayName": bob},
        "status": "ONLINE",
        "isMobile": True,
        "customStatus": {"text": "on a train", "emoji": ":train:", "expiresAt": timed.at(3_600)},
        "activities": [
            {
                "type": "PLAYING",
                "name": "Chess",
                "details": "blitz",
                "state": "in a match",
                "startedAt": "2023-11-14T22:13:20.000Z",
                "endsAt": "2023-11-14T22:23:20.000Z",
            }
        ],
        "lastActiveAt": timed.minute(),
    }
    assert await presences(api, alice, bob) == [shown]
    assert (await api.data(alice, PRESENCE_OF, id=bob))["user"]["presence"] == shown
    await timed.pass_time(3_600)
    assert (await presences(api, alice, bob))[0]["customStatus"] is None
    assert (await own_presence(api, bob))["customStatus"] is None


async def test_the_answer_has_one_entry_for_each_id_in_its_order(timed: TimedApi) -> None:
    api = timed.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    await api.create_group(alice, bob, carol)
    for user in (alice, bob, dave):
        await timed.connect(user)
    asked = [carol, bob, dave, "nobody", bob, alice]
    found = await presences(api, alice, *asked)
    assert [each["user"]["id"] for each in found] == asked
    assert [each["status"] for each in found] == ["OFFLINE", "ONLINE", "OFFLINE", "OFFLINE", "ONLINE", "ONLINE"]
    assert await presences(api, alice) == []


async def test_strangers_are_shown_like_users_who_were_never_there(timed: TimedApi) -> None:
    api = timed.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, carol)
    await timed.connect(bob, type=DeviceType.MOBILE, activities=(GAME,))
    await set_status(api, bob, text="busy")
    assert await presences(api, alice, bob, carol, "nobody") == [offline(bob), offline(carol), offline("nobody")]
    assert (await api.data(alice, PRESENCE_OF, id=bob))["user"] == {"presence": None}
    assert (await api.data(alice, PRESENCE_OF, id=carol))["user"]["presence"] == offline(carol)
    # They are no strangers to others.
    await api.send(bob, carol)
    assert await status_of(api, carol, bob) == "ONLINE"


async def test_access_begins_and_ends_with_what_is_shared(timed: TimedApi) -> None:
    api = timed.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await timed.connect(bob)
    assert await status_of(api, alice, bob) == "OFFLINE"
    group = await api.create_group(alice, bob, carol)
    assert await status_of(api, alice, bob) == "ONLINE"
    await api.remove(alice, group, bob)
    assert await presences(api, alice, bob) == [offline(bob)]
    assert (await api.data(alice, PRESENCE_OF, id=bob))["user"] == {"presence": None}


async def test_an_invisible_user_is_shown_like_one_who_has_gone(timed: TimedApi) -> None:
    api = timed.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    for user in (bob, carol):
        await timed.connect(user, activities=(GAME,))
        await set_status(api, user, text="here")
    await set_presence(api, bob, "INVISIBLE")
    await timed.connect(carol, activities=(GAME,), is_gone=True)
    for seconds in (0, 14.999, 0.001, 60, 3_600):
        await timed.pass_time(seconds)
        # A device that connects, or is used, while the user is INVISIBLE shows nothing.
        await timed.connect(bob, "laptop", type=DeviceType.MOBILE)
        shown = await presences(api, alice, bob, carol)
        assert [each.pop("user")["id"] for each in shown] == [bob, carol]
        assert shown[0] == shown[1]
        nested = [(await api.data(alice, PRESENCE_OF, id=user))["user"]["presence"] for user in (bob, carol)]
        assert [each.pop("user")["id"] for each in nested] == [bob, carol]
        assert nested == shown
    assert shown[0]["status"] == "OFFLINE" and shown[0]["activities"] == []


@pytest.mark.parametrize(("status", "shown"), [("IDLE", "IDLE"), ("DND", "DND"), ("ONLINE", "ONLINE")])
async def test_what_is_set_is_shown_while_a_device_is_there(timed: TimedApi, status: str, shown: str) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await set_presence(api, bob, status)
    assert await status_of(api, alice, bob) == "OFFLINE"
    await timed.connect(bob)
    assert await status_of(api, alice, bob) == shown
    await timed.connect(bob, is_idle=True)
    assert await status_of(api, alice, bob) == ("DND" if status == "DND" else "IDLE")
    await timed.connect(bob, is_gone=True)
    await timed.pass_time(14.999)
    assert await status_of(api, alice, bob) != "OFFLINE"
    await timed.pass_time(0.001)
    assert await status_of(api, alice, bob) == "OFFLINE"


@pytest.mark.parametrize("users", [["x"] * 201, [""], ["bob", "a b"], ["\t"], ["x" * 129], ["\u200b"]])
async def test_too_many_or_malformed_ids_are_refused(api: Api, users: list[str]) -> None:
    (alice,) = await api.create_users("alice")
    assert await api.expect_refusal(alice, PRESENCES, users=users) == Refusal("INVALID_INPUT", "userIds")


async def test_200_users_are_answered(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    users = [f"nobody{number}" for number in range(200)]
    found = (await api.data(alice, PRESENCES, users=users))["presences"]
    assert [each["user"]["id"] for each in found] == users and {each["status"] for each in found} == {"OFFLINE"}


async def test_presence_needs_a_token(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    assert await api.expect_refusal(None, PRESENCES, users=[alice]) == Refusal("UNAUTHENTICATED")


async def test_the_presence_of_all_senders_of_a_page_is_read_together(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(8)))
    group = await api.create_group(alice, *others)
    for other in others:
        await api.send(other, group)
    page = "query ($id: ID!) { messages(conversationId: $id) { edges { node { sender { id %s } } } } }"
    found = await api.data(alice, page % "presence { status }", id=group)
    senders = [edge["node"]["sender"] for edge in found["messages"]["edges"]]
    assert [each["presence"] for each in senders if each["id"] in others] == [{"status": "OFFLINE"}] * 8
    meter = Meter(api)
    without = await meter.measure(lambda: api.data(alice, page % "", id=group), None)
    with_presence = await meter.measure(lambda: api.data(alice, page % "presence { status }", id=group), None)
    assert (with_presence.mongo - without.mongo, with_presence.redis - without.redis) == (3, 1)


async def test_presences_take_a_fixed_number_of_round_trips(timed: TimedApi) -> None:
    api = timed.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob)
    await api.create_group(alice, bob, carol)
    meter = Meter(api)
    for users, mongo in (([alice], 0), ([bob], 1), ([carol], 3), ([alice, bob, carol], 3)):
        await meter.expect("presences", lambda users=users: presences(api, alice, *users), mongo, 1)
    await meter.expect("strangers", lambda: presences(api, alice, "nobody"), 3, 0)


async def test_an_event_shows_each_subscriber_the_presence_that_they_may_see(timed: TimedApi) -> None:
    api = timed.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    await api.send(carol, dave)
    await timed.connect(dave)
    live = """subscription { messageEvents { __typename ... on CaughtUp { reset }
        ... on MessageCreated { message { systemEvent { targets { id presence { status } } } } } } }"""
    subscribers = {user: await api.listen(user, live) for user in (bob, carol)}
    await api.remove(alice, group, dave)
    for user, presence in ((bob, None), (carol, {"status": "ONLINE"})):
        message = (await subscribers[user].next())["message"]
        assert message["systemEvent"]["targets"] == [{"id": dave, "presence": presence}]


async def test_events_may_show_a_user_for_a_minute_after_the_last_shared_conversation(timed: TimedApi) -> None:
    api = timed.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    viewer, app = UserId(alice), api.services.app

    async def seen_in_events() -> set[UserId]:
        return (await find_visible_lately(app, viewer, [UserId(bob)])).users

    assert await seen_in_events() == set()
    group = await api.create_group(alice, bob, carol)
    assert await seen_in_events() == {bob}
    await api.remove(alice, group, bob)
    await timed.pass_time(59.999)
    trips = app.store.mongo.trips
    assert await seen_in_events() == {bob}
    assert app.store.mongo.trips == trips
    await timed.pass_time(0.001)
    assert await seen_in_events() == set()

"""Subscribers see the presence of others, wherever they are connected."""

from __future__ import annotations

import time

import pytest

from store.base.ids import UserId
from store.presence.presence_record import DeviceType, PresenceSetting
from subscriptions.transport.engine import RequestRefused
from tests.api.client import Api
from tests.api.presence.connections import PRESENCE_EVENTS, Connections, look_at, next_status

REMOVE = "mutation ($id: ID!, $user: ID!) { removeMember(groupId: $id, userId: $user) { id } }"
RENAME = "mutation ($name: String!) { updateMe(displayName: $name) { id } }"
OFFLINE = {
    "status": "OFFLINE",
    "isMobile": False,
    "customStatus": None,
    "activities": [],
    "lastActiveAt": None,
}


@pytest.fixture(autouse=True)
def quick_events(api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let events, and judgements of what is seen, follow each other in less than 5 s."""
    monkeypatch.setattr("resolvers.live.presence_events._JUDGE_AGAIN_SECONDS", 0.05)
    for each in (api, other_api):
        each.services.app.presence.users.event_seconds = 0.0
        each.services.app.presence.publisher.seconds_between = 0.0


async def test_the_first_events_show_the_present_state_of_all(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    await Connections(other_api).write(bob, type=DeviceType.MOBILE)
    subscriber, first = await look_at(api, alice, carol, bob, bob)
    assert list(first) == [carol, bob]
    assert (first[bob]["status"], first[bob]["isMobile"]) == ("ONLINE", True)
    assert (first[carol]["status"], first[carol]["isMobile"], first[carol]["lastActiveAt"]) == ("OFFLINE", False, None)
    await subscriber.expect_no_event()


async def test_changes_on_one_server_reach_subscribers_of_another(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    connections = Connections(other_api)
    subscriber, first = await look_at(api, alice, bob)
    assert first[bob]["status"] == "OFFLINE"
    await connections.write(bob)
    assert await next_status(subscriber) == "ONLINE"
    await connections.write(bob, idle_since_ms=other_api.services.app.store.clock.now_ms())
    assert await next_status(subscriber) == "IDLE"
    await connections.set(bob, PresenceSetting.DND)
    assert await next_status(subscriber) == "DND"
    await subscriber.expect_no_event()


async def test_a_user_is_offline_15_seconds_after_the_last_connection(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    connections = Connections(other_api)
    await connections.write(bob)
    subscriber, _ = await look_at(api, alice, bob)
    began = time.monotonic()
    await connections.end(bob)
    assert await next_status(subscriber, within=40) == "OFFLINE"
    assert time.monotonic() - began >= 14.5


async def test_a_quick_reconnect_is_not_seen(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    connections = Connections(other_api)
    await connections.write(bob)
    subscriber, first = await look_at(api, alice, bob)
    assert first[bob]["status"] == "ONLINE"
    await connections.end(bob)
    await Connections(api).write(bob)
    await connections.write(bob, "laptop")
    await connections.end(bob, "laptop")
    await subscriber.expect_no_event(16)


async def test_201_users_are_refused(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    with pytest.raises(RequestRefused) as refused:
        await api.subscribe(alice, PRESENCE_EVENTS, users=[f"user-{number}" for number in range(201)])
    (error,) = refused.value.errors
    assert (error["extensions"]["code"], error["extensions"]["field"]) == ("INVALID_INPUT", "userIds")
    assert api.services.app.memberships._listeners.get(UserId(alice)) is None
    subscriber, first = await look_at(api, alice, *(f"user-{number}" for number in range(200)))
    assert len(first) == 200
    await subscriber.stop()


async def test_strangers_look_like_users_who_were_never_there(api: Api, other_api: Api) -> None:
    alice, stranger = await api.create_users("alice", "stranger")
    connections = Connections(other_api)
    await connections.write(stranger)
    users = [stranger, f"nobody-{stranger}"]
    subscriber = await api.subscribe(alice, PRESENCE_EVENTS, users=users)
    events = await subscriber.take(2)
    for event, user in zip(events, users[:2], strict=True):
        assert event.pop("user")["id"] == user
        assert isinstance(event.pop("at"), int)
        assert event == OFFLINE
    assert UserId(stranger) not in set(api.services.app.presence.users)
    await connections.set(stranger, PresenceSetting.DND)
    await subscriber.expect_no_event()


async def test_a_user_who_leaves_the_shared_group_is_no_longer_shown(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(carol, alice, bob)
    await Connections(other_api).write(bob)
    subscriber, first = await look_at(api, alice, bob)
    assert first[bob]["status"] == "ONLINE"
    await api.data(carol, REMOVE, id=group, user=bob)
    event = await subscriber.next()
    assert {name: event[name] for name in OFFLINE} == OFFLINE
    await Connections(other_api).set(bob, PresenceSetting.DND)
    await subscriber.expect_no_event()
    await api.invite(carol, group, bob)
    assert await next_status(subscriber) == "DND"


async def test_a_changed_name_is_an_event(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    subscriber, _ = await look_at(api, alice, bob)
    await other_api.data(bob, RENAME, name="Robert")
    event = await subscriber.next()
    assert (event["user"]["displayName"], event["status"]) == ("Robert", "OFFLINE")
    # The same name again changes nothing that others see.
    await other_api.data(bob, RENAME, name="Robert")
    await subscriber.expect_no_event()


async def test_names_that_changed_while_the_bus_was_interrupted_are_found(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    subscriber, _ = await look_at(api, alice, bob, carol)
    api.database.users.update_one({"_id": bob}, {"$set": {"n": "Bobby"}})
    api.services.app.bus._users_changed(None)
    assert (await subscriber.next())["user"] == {"id": bob, "displayName": "Bobby"}
    await subscriber.expect_no_event()


async def test_nothing_of_an_invisible_user_is_sent(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    connections = Connections(other_api)
    await connections.set(bob, PresenceSetting.INVISIBLE)
    subscriber, first = await look_at(api, alice, bob)
    frames = other_api.services.app.presence.publisher.frames
    await connections.write(bob)
    await connections.write(bob, "laptop", type=DeviceType.MOBILE)
    await connections.end(bob)
    await subscriber.expect_no_event()
    assert first[bob]["status"] == "OFFLINE"
    assert other_api.services.app.presence.publisher.frames == frames
    clock = other_api.services.app.store.clock
    await connections.set(bob, PresenceSetting.INVISIBLE, clock.now_ms() + 600_000)
    await connections.write(bob, "tablet")
    await subscriber.expect_no_event()
    # The setting ends by itself.
    await connections.set(bob, PresenceSetting.INVISIBLE, clock.now_ms() + 500)
    event = await subscriber.next()
    assert (event["status"], event["isMobile"]) == ("ONLINE", False)


@pytest.mark.parametrize("users", [[""], ["bob", "a b"], ["\t"], ["x" * 129], ["\u200b"]])
async def test_malformed_ids_are_refused(api: Api, users: list[str]) -> None:
    (alice,) = await api.create_users("alice")
    with pytest.raises(RequestRefused) as refused:
        await api.subscribe(alice, PRESENCE_EVENTS, users=users)
    (error,) = refused.value.errors
    assert (error["extensions"]["code"], error["extensions"]["field"]) == ("INVALID_INPUT", "userIds")
    assert UserId(alice) not in api.services.app.memberships._listeners


async def test_a_subscriber_without_work_units_does_not_go_on_seeing_former_colleagues(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolvers.live.presence_events.JUDGE_SECONDS", 0.5)
    monkeypatch.setattr("resolvers.live.presence_events._JUDGE_AGAIN_SECONDS", 0.2)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(carol, alice, bob)
    await Connections(other_api).write(bob)
    subscriber, first = await look_at(api, alice, bob, *(f"nobody{number}" for number in range(150)))
    assert first[bob]["status"] == "ONLINE"
    work = api.services.app.work
    # Enough units for events, and not for a judgement.
    monkeypatch.setattr(work, "per_second", 1)
    monkeypatch.setattr(work, "size", 1_000)
    work.charge(UserId(alice), work.remaining(UserId(alice)) - 50)
    await other_api.data(carol, REMOVE, id=group, user=bob)
    event = await subscriber.next()
    assert {name: event[name] for name in OFFLINE} == OFFLINE
    await Connections(other_api).set(bob, PresenceSetting.DND)
    await subscriber.expect_no_event()
    # With units again, what is shared is seen again.
    monkeypatch.setattr(work, "per_second", 0)
    await api.invite(carol, group, bob)
    assert await next_status(subscriber) == "DND"

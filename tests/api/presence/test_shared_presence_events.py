"""Many subscribers of one person cost one execution, and slow readers get the newest state only."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from store.base.ids import UserId
from store.presence.presence_record import PresenceSetting
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest
from tests.api.client import Api, Json, gather_all, make_caller
from tests.api.presence.connections import PRESENCE_EVENTS, Connections, look_at
from tests.api.workspaces.calls import LEAVE, add_members, create_workspace
from tests.waiting import wait_for


class Reader:
    """A client that reads events while `is_writable`."""

    def __init__(self) -> None:
        self.is_writable = True
        self.events: list[Json] = []

    @classmethod
    async def open(cls, api: Api, viewer: str, *users: str) -> Reader:
        """Return a reader that has the first events."""
        reader, caller = cls(), make_caller(viewer)
        request = GraphQLRequest(PRESENCE_EVENTS, {"users": list(users)})
        prepared = await api.services.engine.prepare(request, caller)
        reader.stream = await api.services.engine.subscribe(prepared, request, ConnectionContext(caller, "test"))
        reader.stream.write_to(reader)
        reader.stream.on_ready(reader.read)
        reader.read()
        await wait_for(lambda: len(reader.events) == len(users))
        return reader

    def read(self) -> None:
        """Read what is there."""
        while self.is_writable and (response := self.stream.take()) is not None:
            self.write(response)

    def write(self, response: bytes) -> None:
        """Take a response that the engine writes."""
        self.events.append(orjson.loads(response)["data"]["presenceEvents"])

    stream: Any


@pytest.fixture
def quick_events(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let events, and judgements of what is seen, follow each other in less than 5 s."""
    api.services.app.presence.users.event_seconds = 0.0
    monkeypatch.setattr("resolvers.live.presence_events._JUDGE_AGAIN_SECONDS", 0.05)


@pytest.fixture
def executions(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the executions of events."""
    engine, found = api.services.engine, list[object]()
    execute = engine.execute_event

    def count_and_execute(execution: Any, event: object, viewer: Any, user: Any) -> Any:
        found.append(event)
        return execute(execution, event, viewer, user)

    monkeypatch.setattr(engine, "execute_event", count_and_execute)
    return found


async def test_one_execution_serves_all_subscribers(
    api: Api, other_api: Api, quick_events: None, executions: list[object]
) -> None:
    person, *viewers = await api.create_users("person", *(f"viewer{number}" for number in range(12)))
    await api.create_group(person, *viewers)
    readers = await gather_all(*(Reader.open(api, viewer, person) for viewer in viewers))
    executions.clear()
    await Connections(other_api).write(person)
    await wait_for(lambda: all(reader.events[-1]["status"] == "ONLINE" for reader in readers))
    assert len(executions) == 1
    for reader in readers:
        reader.stream.close()


async def test_a_slow_reader_delays_nobody_and_gets_the_newest_state(
    api: Api, other_api: Api, quick_events: None
) -> None:
    person, friend, slow, quick = await api.create_users("person", "friend", "slow", "quick")
    await api.create_group(person, friend, slow, quick)
    connections = Connections(other_api)
    await connections.write(person)
    slow_reader = await Reader.open(api, slow, person, friend)
    quick_reader = await Reader.open(api, quick, person, friend)
    slow_reader.is_writable = False
    slow_reader.events.clear()
    for value in ("DND", "IDLE", "ONLINE", "DND"):
        await connections.set(person, PresenceSetting(value))
        await wait_for(lambda value=value: quick_reader.events[-1]["status"] == value)
    await connections.write(friend)
    await wait_for(lambda: quick_reader.events[-1]["user"]["id"] == friend)
    assert slow_reader.events == []
    slow_reader.is_writable = True
    slow_reader.read()
    seen = [(event["user"]["id"], event["status"]) for event in slow_reader.events]
    assert seen == [(person, "DND"), (friend, "ONLINE")]
    for reader in (slow_reader, quick_reader):
        reader.stream.close()


async def test_events_about_a_user_are_5_seconds_apart(api: Api, other_api: Api) -> None:
    api.services.app.presence.users.event_seconds = 5.0
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    connections = Connections(other_api)
    await connections.write(bob)
    subscriber, first = await look_at(api, alice, bob)
    assert first[bob]["status"] == "ONLINE"
    for value in (PresenceSetting.DND, PresenceSetting.ONLINE, PresenceSetting.IDLE):
        await connections.set(bob, value)
    await subscriber.expect_no_event(3)
    event = await subscriber.next()
    assert event["status"] == "IDLE"
    assert event["at"] >= first[bob]["at"] + 1
    await connections.set(bob, PresenceSetting.DND)
    await subscriber.expect_no_event(3)
    assert (await subscriber.next())["status"] == "DND"


async def test_leaving_a_shared_workspace_ends_what_is_seen(api: Api, other_api: Api, quick_events: None) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, bob)
    await Connections(other_api).write(bob)
    subscriber, first = await look_at(api, alice, bob)
    assert first[bob]["status"] == "OFFLINE"
    await add_members(api, workspace, alice)
    assert (await subscriber.next())["status"] == "ONLINE"
    await other_api.data(alice, LEAVE, id=workspace)
    event = await subscriber.next()
    assert (event["status"], event["lastActiveAt"]) == ("OFFLINE", None)
    presence = api.services.app.presence
    assert not any(watched.has_listeners for user in presence.users if (watched := presence.users.find(user)))
    await subscriber.stop()
    assert UserId(alice) not in api.services.app.memberships._listeners

"""A blocked user sees the blocker as OFFLINE since the block, everywhere and at once."""

from __future__ import annotations

import pytest

from store.base.ids import UserId
from tests.api.blocks.calls import block, unblock
from tests.api.client import Api, Json
from tests.api.presence.calls import PRESENCE_OF, PRESENCES, set_status
from tests.api.presence.connections import Connections, look_at, next_status
from tests.api.requests.test_budgets import Meter
from tests.api.workspaces.calls import add_members, create_workspace

ONLINE = """query ($id: ID!) { workspace(id: $id) { onlineCount members(online: true) { edges { node {
    user { id presence { status } } } } } } }"""
CREATED = """subscription { messageEvents { __typename ... on CaughtUp { reset }
    ... on MessageCreated { message { sender { id presence { status lastActiveAt } } } } } }"""
RENAME = "mutation ($name: String!) { updateMe(displayName: $name) { id } }"


@pytest.fixture(autouse=True)
def quick_events(api: Api, other_api: Api) -> None:
    for each in (api, other_api):
        each.services.app.presence.users.event_seconds = 0.0
        each.services.app.presence.publisher.seconds_between = 0.0


async def presences(api: Api, viewer: str, user: str) -> list[Json]:
    found: list[Json] = (await api.data(viewer, PRESENCES, users=[user]))["presences"]
    for presence in found:
        del presence["at"]
    return found


async def shown_to(api: Api, viewer: str, user: str) -> str:
    status: str = (await presences(api, viewer, user))[0]["status"]
    return status


async def presence_of(api: Api, viewer: str, user: str) -> Json | None:
    found: Json | None = (await api.data(viewer, PRESENCE_OF, id=user))["user"]["presence"]
    return found


async def test_the_blocker_is_offline_without_status_since_the_block(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    await Connections(other_api).write(alice)
    await set_status(api, alice, text="hiking")
    (before,) = await presences(api, bob, alice)
    assert before["status"] == "ONLINE" and before["customStatus"]
    await block(other_api, alice, bob)
    for process in (api, other_api):
        (found,) = await presences(process, bob, alice)
        assert found == before | {"status": "OFFLINE", "customStatus": None, "activities": [], "isMobile": False}
        assert await presence_of(process, bob, alice) == found
        assert await shown_to(process, carol, alice) == "ONLINE"
        assert await shown_to(process, alice, bob) == "OFFLINE"
    await unblock(api, alice, bob)
    for process in (api, other_api):
        assert await presences(process, bob, alice) == [before]


async def test_the_blocker_shows_the_time_of_the_block_later(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    # She was never there.
    await block(api, alice, bob)
    await Connections(api).write(alice)
    (found,) = await presences(api, bob, alice)
    assert (found["status"], found["lastActiveAt"]) == ("OFFLINE", None)
    assert (await presences(api, carol, alice))[0]["lastActiveAt"] is not None


async def test_subscribers_see_the_block_at_once_and_nothing_after_it(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    connections = Connections(other_api)
    await connections.write(alice)
    screens = [(await look_at(process, bob, alice))[0] for process in (api, other_api)]
    watching, _ = await look_at(api, carol, alice)
    await block(other_api, alice, bob)
    for screen in screens:
        assert await next_status(screen) == "OFFLINE"
    await connections.write(alice, idle_since_ms=other_api.services.app.store.clock.now_ms())
    assert await next_status(watching) == "IDLE"
    for screen in screens:
        await screen.expect_no_event()
    _, first = await look_at(api, bob, alice)
    assert first[alice]["status"] == "OFFLINE"
    # Names are no presence.
    await api.data(alice, RENAME, name="Alicia")
    for screen in screens:
        event = await screen.next()
        assert (event["status"], event["user"]["displayName"]) == ("OFFLINE", "Alicia")
    await watching.next()
    await unblock(api, alice, bob)
    for screen in screens:
        assert await next_status(screen) == "IDLE"
    await watching.expect_no_event()


async def test_the_next_judgement_replaces_a_lost_frame(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.live.presence_events._JUDGE_AGAIN_SECONDS", 0.0)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    await Connections(api).write(alice)
    screen, _ = await look_at(api, bob, alice)
    await block(api, alice, bob)
    assert await next_status(screen) == "OFFLINE"
    # The frame of this change is lost.
    await api.services.app.store.blocks.rows.remove(UserId(alice), UserId(bob), 1)
    api.services.app.blocker_cache._forget_all()
    assert await next_status(screen) == "ONLINE"


async def test_online_members_and_their_number_leave_the_blocker_out(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    space = await create_workspace(api, carol)
    await add_members(api, space, alice, bob)
    departs = [await api.connect_device(user) for user in (alice, bob, carol)]
    await api.services.app.online.write()
    await block(other_api, alice, bob)

    async def online(process: Api, viewer: str) -> tuple[int, list[str], dict[str, str]]:
        found = (await process.data(viewer, ONLINE, id=space))["workspace"]
        users = [edge["node"]["user"] for edge in found["members"]["edges"]]
        return found["onlineCount"], [u["id"] for u in users], {u["id"]: u["presence"]["status"] for u in users}

    for process in (api, other_api):
        count, listed, statuses = await online(process, bob)
        assert count == 2 and listed[-1] == alice and statuses[alice] == "OFFLINE" and len(listed) == 3
        assert (await online(process, carol))[0] == 3
    await unblock(api, alice, bob)
    assert (await online(api, bob))[2][alice] == "ONLINE"
    for depart in departs:
        await depart()


async def test_presence_inside_events_is_hidden_too(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await Connections(api).write(alice)
    device = await api.listen(bob, CREATED)
    await other_api.send(alice, group, "one")
    assert (await device.next())["message"]["sender"]["presence"]["status"] == "ONLINE"
    await block(other_api, alice, bob)
    await other_api.send(alice, group, "two")
    assert (await device.next())["message"]["sender"]["presence"]["status"] == "OFFLINE"
    await unblock(other_api, alice, bob)
    await other_api.send(alice, group, "three")
    assert (await device.next())["message"]["sender"]["presence"]["status"] == "ONLINE"


async def test_a_blocker_costs_the_same_reads_as_a_user_who_has_left(api: Api) -> None:
    meter = Meter(api)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    await block(api, alice, bob)
    reads = [await meter.measure(lambda user=user: presence_of(api, bob, user), None) for user in (alice, carol)]
    assert reads[0] == reads[1]

"""The clock of a workspace: what clients get if Redis is lost, or a server dies between any two steps of an event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.clocks.shared_clocks import SharedClocks
from store.messages.message_store import MessageStore
from store.redis.cache import Call
from tests.api.channels import test_workspace_events as workspace_events
from tests.api.channels.calls import UPDATE, Made
from tests.api.channels.channel_subscriber import live, look_at, texts
from tests.api.client import Api
from tests.api.conftest import Deployments
from tests.api.sample_channels import SampleChannels

LIST = "query ($id: ID!) { workspace(id: $id) { channels { edges { node { rev } } } } }"
CLOCK_KEYS = ("meta", "log", "recent", "changed", "members", "entries", "routes")


async def lose_clock(api: Api, workspace: str) -> None:
    store = api.services.app.store
    for name in CLOCK_KEYS:
        await store.cache.one(Call("DEL", (store.keys.of_clock(workspace, name),)))


async def test_a_list_that_begins_a_clock_costs_one_reset_at_most(api: Api, workspace: SampleChannels) -> None:
    await lose_clock(api, workspace.id)
    resets = []
    for _ in range(3):
        listed = await api.data(workspace.other, LIST, id=workspace.id)
        revs = {edge["node"]["rev"] for edge in listed["workspace"]["channels"]["edges"]}
        _, is_reset = await workspace_events.missed(api, workspace.other, workspace.id, min(revs))
        resets.append(is_reset)
    assert resets[1:] == [False, False]
    await api.send(workspace.member, workspace.general, "a")
    subscriber = await look_at(api, workspace.other, (workspace.general, min(revs)))
    assert await texts(subscriber, 1) == [("CREATED", "a")]


async def test_a_list_that_was_being_read_when_redis_was_lost_is_a_reset(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list lacks an event that no clock has any more."""
    read_epochs = SharedClocks.read_epochs

    async def read_after_a_loss(self: SharedClocks, owners: Any) -> Any:
        await api.send(workspace.member, workspace.general, "not in the list")
        await lose_clock(api, workspace.id)
        await self.read(owners)
        return await read_epochs(self, owners)

    with monkeypatch.context() as patched:
        patched.setattr(SharedClocks, "read_epochs", read_after_a_loss)
        listed = await api.data(workspace.other, LIST, id=workspace.id)
    rev = listed["workspace"]["channels"]["edges"][0]["node"]["rev"]
    _, is_reset = await workspace_events.missed(api, workspace.other, workspace.id, rev)
    assert is_reset


async def test_clients_that_resume_at_the_same_time_share_their_reads(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, start = await live(api, workspace.owner, workspace.general)
    for number in range(5):
        await api.send(workspace.member, workspace.general, f"text {number}")
    await texts(first, 5)
    reads = {"read_log": 0, "find_many": 0}

    def count(owner: type, name: str) -> None:
        method: Callable[..., Awaitable[Any]] = getattr(owner, name)

        async def counted(self: Any, *args: Any) -> Any:
            reads[name] += 1
            return await method(self, *args)

        monkeypatch.setattr(owner, name, counted)

    count(SharedClocks, "read_log")
    count(MessageStore, "find_many")
    users = [workspace.owner, workspace.moderator, workspace.member, workspace.other] * 5
    subscribers = await asyncio.gather(*(look_at(api, user, (workspace.general, start)) for user in users))
    for subscriber in subscribers:
        assert await texts(subscriber, 5) == [("CREATED", f"text {number}") for number in range(5)]
        assert not (await subscriber.next())["reset"]
    assert reads == {"read_log": 1, "find_many": 1}
    await api.send(workspace.member, workspace.general, "live")
    for subscriber in subscribers:
        assert await texts(subscriber, 1) == [("CREATED", "live")]


async def test_a_lost_redis_is_a_reset_on_all_servers_and_nothing_comes_twice(
    api: Api, other_api: Api, workspace: SampleChannels, deployments: Deployments
) -> None:
    servers = (api, other_api)
    viewers = [await live(server, workspace.other, workspace.general) for server in servers]
    members = [await workspace_events.live(server, workspace.other, workspace.id) for server in servers]
    await api.send(workspace.member, workspace.general, "before")
    for viewer, _ in viewers:
        assert await texts(viewer, 1) == [("CREATED", "before")]
    deployments.flush_redis("main")
    await api.send(workspace.member, workspace.general, "no server has a route")
    for server in servers:
        await server.services.housekeeper.check_redis()
    for viewer, start in viewers:
        reset = await viewer.next()
        assert (reset["__typename"], reset["reset"]) == ("ChannelCaughtUp", True) and reset["rev"] > start
    for member, start in members:
        reset = await member.next()
        assert (reset["__typename"], reset["reset"]) == ("WorkspaceCaughtUp", True) and reset["rev"] > start
    await api.send(workspace.member, workspace.general, "after")
    for viewer, _ in viewers:
        assert await texts(viewer, 1) == [("CREATED", "after")]
    for server in servers:
        await server.services.housekeeper.check_redis()
        await server.services.app.shared_events.hub.check_feeds()
    for server in servers:
        again = await look_at(server, workspace.other, (workspace.general, viewers[0][1]))
        assert (await again.next())["reset"]
    for viewer, _ in viewers:
        await viewer.expect_no_event()


DEATHS = {
    "before the change is appended": ("_append", False),
    "before the event is sent": ("_publish", False),
    "before servers are asked": ("_ask", False),
    "before the change is marked as complete": ("announce", True),
}


@pytest.mark.parametrize("death", DEATHS)
async def test_a_change_of_a_server_that_died_is_shown_once(
    api: Api, other_api: Api, made: Made, monkeypatch: pytest.MonkeyPatch, death: str
) -> None:
    channel = (await made.create("old"))["id"]
    here, start = await workspace_events.live(api, made.member, made.id)
    there, _ = await workspace_events.live(other_api, made.member, made.id)
    name, runs_first = DEATHS[death]
    step = getattr(type(api.services.app.shared_events), name)

    def die(*args: Any) -> Any:
        if args[0] is not api.services.app.shared_events:
            return step(*args)
        if name == "_publish":
            raise Unreachable("the server died")

        async def run() -> None:
            if runs_first:
                await step(*args)
            raise Unreachable("the server died")

        return run()

    changes = other_api.services.app.store.policy_changes
    with monkeypatch.context() as patched:
        patched.setattr(type(api.services.app.shared_events), name, die)
        response = await api.run(made.owner, UPDATE, id=channel, input={"topic": "new"})
        assert response["errors"][0]["extensions"]["code"] == "UNAVAILABLE"
        changes.completions.incomplete.add(made.id)  # type: ignore[arg-type]
        await changes.complete_incomplete()
    for subscriber in (here, there):
        event = await subscriber.next()
        assert (event["__typename"], event["channel"]["topic"]) == ("ChannelChanged", "new")
    for server in (api, other_api):
        await server.services.app.shared_events.hub.check_feeds()
    events, is_reset = await workspace_events.missed(other_api, made.member, made.id, start)
    assert [event["__typename"] for event in events] == ["ChannelChanged"] and not is_reset
    for subscriber in (here, there):
        await subscriber.expect_no_event()

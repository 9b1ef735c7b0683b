"""Events of channels survive servers that stop in the middle, and the loss of the workspace's keys in Redis."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import PARTITIONS, partition_of
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.channels.calls import UPDATE
from tests.api.channels.channel_subscriber import live, look_at, tell, texts
from tests.api.client import SEND, Api, message_input
from tests.api.sample_channels import SampleChannels


@pytest.mark.parametrize("step", ["before the event was appended", "before it was sent"])
async def test_an_event_of_a_server_that_stopped_is_shown_once(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    here, start = await live(api, workspace.owner, workspace.general)
    there, _ = await live(other_api, workspace.other, workspace.general)

    def fail(*_args: Any) -> Any:
        raise Unreachable("this server stops here")

    name = "message_call" if step.startswith("before the event") else "publish_message"
    with monkeypatch.context() as patched:
        patched.setattr(type(api.services.app.shared_events), name, fail)
        await api.run(workspace.member, SEND, input=message_input(workspace.general, "a"))
        await api.wait_until_idle()
    await other_api.services.housekeeper.sweep(range(PARTITIONS), 0)
    for subscriber in (here, there):
        assert await texts(subscriber, 1) == [("CREATED", "a")]
    await other_api.services.housekeeper.sweep(range(PARTITIONS), 0)
    await other_api.wait_until_idle()
    again = await look_at(api, workspace.owner, (workspace.general, start))
    assert await texts(again, 1) == [("CREATED", "a")]
    for subscriber in (here, there):
        await subscriber.expect_no_event()


async def test_an_announcement_that_two_servers_send_is_shown_once(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow server announces a new topic, Redis loses the outbox, and another server takes the change over."""
    here, _ = await live(api, workspace.member, workspace.general)
    there, _ = await live(other_api, workspace.other, workspace.general)
    store, other = api.services.app.store, other_api.services.app.store
    reached, goes_on, commit = asyncio.Event(), asyncio.Event(), store.commits.commit

    async def wait(*arguments: Any, **options: Any) -> Any:
        reached.set()
        await goes_on.wait()
        return await commit(*arguments, **options)

    monkeypatch.setattr(store.commits, "commit", wait)
    change = asyncio.create_task(api.run(workspace.owner, UPDATE, id=workspace.general, input={"topic": "news"}))
    await reached.wait()
    await store.cache.one(Call("DEL", (store.keys.outbox(partition_of(workspace.general)),)))
    policy = await other.policies.read(workspace.id)
    assert policy is not None and policy.pending
    await other.policy_changes.completions.complete(policy, policy.pending)
    goes_on.set()
    await change
    for process in (api, other_api):
        await process.wait_until_idle()
    for subscriber in (here, there):
        assert await texts(subscriber, 1) == [("CREATED", "changed the topic to news")]
        await subscriber.expect_no_event()


async def test_a_message_that_another_server_takes_over_from_a_slow_one_is_shown_once(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.delivery.in_flight_messages._SHARED_AFTER_SECONDS", 0.0)
    here, _ = await live(api, workspace.owner, workspace.general)
    there, _ = await live(other_api, workspace.other, workspace.general)
    commits: Any = api.services.app.store.commits
    reached, goes_on, commit = asyncio.Event(), asyncio.Event(), commits.commit

    async def wait(*arguments: Any, **options: Any) -> Any:
        reached.set()
        await goes_on.wait()
        return await commit(*arguments, **options)

    monkeypatch.setattr(commits, "commit", wait)
    sending = asyncio.create_task(api.send(workspace.member, workspace.general, "a"))
    await reached.wait()
    await other_api.services.housekeeper.sweep(range(PARTITIONS), 0)
    await other_api.wait_until_idle()
    goes_on.set()
    await sending
    await api.wait_until_idle()
    for subscriber in (here, there):
        assert await texts(subscriber, 1) == [("CREATED", "a")]
        await subscriber.expect_no_event()


async def test_rights_that_end_while_no_route_is_known_are_found_with_the_next_route(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    """The server is not asked about the change, because Redis has lost that it looks at the workspace."""
    subscriber, _ = await live(other_api, workspace.member, workspace.general)
    stays, start = await live(other_api, workspace.other, workspace.general)
    store = api.services.app.store
    for name in ("meta", "log", "recent", "changed", "routes"):
        await store.cache.one(Call("DEL", (store.keys.of_clock(workspace.id, name),)))
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    await tell(api, workspace)
    await api.send(workspace.moderator, workspace.general, "secret")
    await other_api.services.app.shared_events.hub.check_feeds()
    assert await subscriber.next() == {"__typename": "AccessEnded", "conversationId": workspace.general}
    reset = await stays.next()
    assert reset["__typename"] == "ChannelCaughtUp" and reset["reset"] and reset["rev"] > start
    await api.send(workspace.moderator, workspace.general, "more")
    assert await texts(stays, 1) == [("CREATED", "more")]
    await subscriber.expect_no_event()

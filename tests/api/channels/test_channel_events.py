"""Events of the channels on the screen: missed ones, then live ones, until access ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from resolvers.live.channel_events import ChannelCaughtUp, channel_events
from resolvers.live.shared_positions import SharedPosition
from store.base.ids import ConversationId, UserId
from store.messages.message import ReservedMessage
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from subscriptions.realtime.events.shared import ChannelMessage
from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.realtime.shared import typing_relay
from tests.api.channels.channel_subscriber import live, look_at, take, tell, texts
from tests.api.client import Api
from tests.api.conftest import Deployments
from tests.api.requests.test_budgets import Meter
from tests.api.sample_channels import SampleChannels


async def test_messages_edits_and_recalls_arrive_on_all_servers(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    here, start = await live(api, workspace.other, workspace.general)
    there, _ = await live(other_api, workspace.owner, workspace.general)
    sent = (await api.send(workspace.member, workspace.general, "a"))["message"]["id"]
    await api.edit(workspace.member, sent, "b")
    await other_api.recall(workspace.member, sent)
    for subscriber in (here, there):
        created, edited, recalled = [await subscriber.next() for _ in range(3)]
        assert [e["change"] for e in (created, edited, recalled)] == ["CREATED", "UPDATED", "RECALLED"]
        assert [e["message"]["content"] for e in (created, edited, recalled)] == ["a", "b", None]
        assert start < created["rev"] < edited["rev"] < recalled["rev"]
        await subscriber.expect_no_event()


async def test_missed_events_come_first_and_only_once(api: Api, other_api: Api, workspace: SampleChannels) -> None:
    first, start = await live(api, workspace.other, workspace.general)
    for content in ("a", "b", "c"):
        await api.send(workspace.member, workspace.general, content)
    rev = (await first.next())["rev"]
    await first.stop()
    await api.send(workspace.moderator, workspace.staff, "not for all")
    for server in (api, other_api):
        again = await look_at(server, workspace.other, (workspace.general, rev))
        assert await texts(again, 2) == [("CREATED", "b"), ("CREATED", "c")]
        caught_up = await again.next()
        assert caught_up["__typename"] == "ChannelCaughtUp" and not caught_up["reset"]
        await again.expect_no_event()
    all_of_it = await look_at(api, workspace.other, (workspace.general, start))
    assert len(await texts(all_of_it, 3)) == 3
    await api.send(workspace.member, workspace.general, "d")
    assert [(await all_of_it.next())["__typename"], (await texts(all_of_it, 1))[0][1]] == ["ChannelCaughtUp", "d"]


@pytest.mark.parametrize("rev", [0, 1 << 52])
async def test_revs_that_cannot_be_resumed_are_a_reset(api: Api, workspace: SampleChannels, rev: int) -> None:
    _, now = await live(api, workspace.other, workspace.general)
    await api.send(workspace.member, workspace.general, "a")
    subscriber = await look_at(api, workspace.member, (workspace.general, rev), (workspace.staff, now))
    events = [await subscriber.next() for _ in range(2)]
    assert [(e["conversationId"], e["reset"]) for e in events] == [(workspace.general, True), (workspace.staff, False)]
    await api.send(workspace.member, workspace.general, "b")
    assert await texts(subscriber, 1) == [("CREATED", "b")]


async def test_after_a_loss_of_redis_subscribers_are_reset_and_go_on(api: Api, workspace: SampleChannels) -> None:
    subscriber, start = await live(api, workspace.other, workspace.general)
    await api.send(workspace.member, workspace.general, "a")
    await subscriber.next()
    store = api.services.app.store
    await store.cache.one(Call("DEL", store.keys.clock(workspace.id)))
    await api.services.app.shared_events.hub.check_feeds()
    reset = await subscriber.next()
    assert reset["__typename"] == "ChannelCaughtUp" and reset["reset"] and reset["rev"] > start
    await api.send(workspace.member, workspace.general, "b")
    assert await texts(subscriber, 1) == [("CREATED", "b")]
    again = await look_at(api, workspace.other, (workspace.general, start))
    assert (await again.next())["reset"]


async def test_a_repeated_delivery_shows_no_event_twice(api: Api, workspace: SampleChannels) -> None:
    subscriber, start = await live(api, workspace.other, workspace.general)
    sent = await api.send(workspace.member, workspace.general, "a")
    assert await texts(subscriber, 1) == [("CREATED", "a")]
    app = api.services.app
    place = (ConversationId(workspace.general), sent["message"]["seq"])
    message = (await app.store.messages.find_many([place]))[place]
    await app.delivery.send(ReservedMessage(message, membership_version="", outbox_entry="0-0"), recovered=True)
    await app.delivery.deliver_stored(message)
    await api.wait_until_idle()
    await subscriber.expect_no_event()
    again = await look_at(api, workspace.other, (workspace.general, start))
    assert await texts(again, 1) == [("CREATED", "a")]
    assert (await again.next())["__typename"] == "ChannelCaughtUp"


async def test_lost_frames_are_read_from_the_log(api: Api, other_api: Api, workspace: SampleChannels) -> None:
    subscriber, _ = await live(other_api, workspace.other, workspace.general)
    frames: list[Any] = []
    bus = api.services.app.bus
    send_frames, bus.send_frames = bus.send_frames, lambda *frame: frames.append(frame)  # type: ignore[method-assign]
    await api.send(workspace.member, workspace.general, "a")
    await api.send(workspace.member, workspace.general, "b")
    bus.send_frames = send_frames  # type: ignore[method-assign]
    assert len(frames) == 2
    await api.send(workspace.member, workspace.general, "c")
    assert [content for _, content in await texts(subscriber, 3)] == ["a", "b", "c"]
    for frame in frames:
        send_frames(*frame)
    await api.wait_until_idle()
    await subscriber.expect_no_event()


async def test_a_subscription_leaves_nothing_behind(api: Api, workspace: SampleChannels) -> None:
    subscriber, _ = await live(api, workspace.member, workspace.general, workspace.staff)
    await subscriber.stop()
    assert api.services.app.shared_events.hub.mailboxes == 0
    assert not api.services.app.shared_events._audiences


async def test_a_slow_reader_is_reset_with_bounded_memory(api: Api, workspace: SampleChannels) -> None:
    app, user = api.services.app, UserId(workspace.other)
    budget = QueueBudget(3)
    stream = await channel_events(app, user, [SharedPosition(workspace.general, None)], budget)
    while not isinstance((await take(stream)).payload, ChannelCaughtUp):
        continue
    for number in range(6):
        await api.send(workspace.member, workspace.general, str(number))
    assert budget.used <= 3
    shown = [await take(stream)]
    while not isinstance(shown[-1].payload, ChannelCaughtUp):
        shown.append(await take(stream))
    caught_up = shown[-1].payload
    assert isinstance(caught_up, ChannelCaughtUp) and caught_up.reset
    later = [event.payload for event in [stream.take() for _ in range(5)] if event is not None]
    assert all(isinstance(event, ChannelMessage) and event.rev > caught_up.rev for event in later)
    stream.close()
    assert budget.used == 0


async def test_an_event_is_executed_once_for_all_subscribers(api: Api, workspace: SampleChannels) -> None:
    people = [workspace.users[name] for name in ("owner", "other", "admin")]
    subscribers = [(await live(api, user, workspace.general))[0] for user in people]
    executions: list[object] = []
    for selection in list(api.services.engine._selections.values()):  # type: ignore[attr-defined]
        execute = selection._execute
        selection._execute = lambda *args, execute=execute: (executions.append(args[0]), execute(*args))[1]
    await api.send(workspace.member, workspace.general, "a")
    for subscriber in subscribers:
        assert await texts(subscriber, 1) == [("CREATED", "a")]
    assert len(executions) == 1


TYPE = "mutation ($id: ID!) { startTyping(conversationId: $id) }"


@pytest.fixture
def with_devices(api: Api, other_api: Api) -> Iterator[None]:
    """Each subscriber is a connected device."""
    api.subscribers_are_devices = other_api.subscribers_are_devices = True
    yield
    api.subscribers_are_devices = other_api.subscribers_are_devices = False


STOP = "mutation ($id: ID!) { stopTyping(conversationId: $id) }"


@pytest.mark.usefixtures("with_devices")
async def test_typing_is_shown_to_others_who_look_at_the_channel(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    assert (await api.data(workspace.member, TYPE, id=workspace.general))["startTyping"] is False
    here, _ = await live(api, workspace.other, workspace.general)
    there, _ = await live(other_api, workspace.owner, workspace.general)
    elsewhere, _ = await live(api, workspace.moderator, workspace.staff)
    own, _ = await live(api, workspace.member, workspace.general)
    assert (await api.data(workspace.member, TYPE, id=workspace.general))["startTyping"] is True
    assert (await api.data(workspace.member, TYPE, id=workspace.general))["startTyping"] is False
    for subscriber in (here, there):
        event = await subscriber.next()
        assert (event["__typename"], event["user"]["id"]) == ("TypingStarted", workspace.member)
    assert (await other_api.data(workspace.member, STOP, id=workspace.general))["stopTyping"] is True
    for subscriber in (here, there):
        assert (await subscriber.next())["__typename"] == "TypingStopped"
    await elsewhere.expect_no_event()
    await own.expect_no_event()


@pytest.mark.usefixtures("with_devices")
async def test_typing_is_sent_only_if_somebody_else_sees_it(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    async def start() -> object:
        return (await api.data(workspace.member, TYPE, id=workspace.general))["startTyping"]

    for server in (api, other_api):
        await live(server, workspace.member, workspace.general)
        await live(server, workspace.moderator, workspace.staff)
        await live(server, workspace.other, workspace.general)
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    await tell(api, workspace)
    assert await start() is False
    there, _ = await live(other_api, workspace.owner, workspace.general)
    assert await start() is True
    assert (await there.next())["__typename"] == "TypingStarted"


@pytest.mark.usefixtures("with_devices")
@pytest.mark.parametrize("owner", ["here", "there", "ended"])
async def test_typing_reaches_all_servers_whichever_owns_the_channel(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    servers = {"here": api.services.app.hub.server, "there": other_api.services.app.hub.server, "ended": "ended"}
    ring = api.services.app.shared_events.typing.ring
    owner_of = ring.owner_of

    def find_owner(key: str) -> str:
        return servers[owner] if servers[owner] not in ring._away else owner_of(key)

    monkeypatch.setattr(ring, "owner_of", find_owner)
    monkeypatch.setattr(typing_relay, "SECONDS_BETWEEN", 0.1)
    subscribers = [(await live(each, workspace.owner, workspace.general))[0] for each in (api, other_api)]
    for user in (workspace.member, workspace.other):
        assert (await api.data(user, TYPE, id=workspace.general))["startTyping"] is True
    for subscriber in subscribers:
        events = [await subscriber.next(), await subscriber.next()]
        assert {event["__typename"] for event in events} == {"TypingStarted"}
        assert {event["user"]["id"] for event in events} == {workspace.member, workspace.other}


async def test_typing_needs_the_right_to_write(api: Api, workspace: SampleChannels) -> None:
    await workspace.overwrite(workspace.general, workspace.member, Permission.SEND_MESSAGES)
    for user, channel, code in (
        (workspace.member, workspace.general, "FORBIDDEN"),
        (workspace.owner, workspace.staff, "NOT_FOUND"),
        (workspace.other, workspace.old, "ARCHIVED"),
    ):
        assert (await api.expect_refusal(user, TYPE, id=channel)).code == code


REV = "query ($id: ID!, $workspace: ID!) { channel(id: $id) { rev } workspace(id: $workspace) { rev } }"


async def test_a_subscription_continues_from_the_rev_of_a_query(api: Api, workspace: SampleChannels) -> None:
    before = await api.data(workspace.other, REV, id=workspace.general, workspace=workspace.id)
    assert before["channel"]["rev"] == before["workspace"]["rev"]
    await api.send(workspace.member, workspace.general, "a")
    after = await api.data(workspace.other, REV, id=workspace.general, workspace=workspace.id)
    assert after["channel"]["rev"] > before["channel"]["rev"]
    subscriber = await look_at(api, workspace.other, (workspace.general, before["channel"]["rev"]))
    assert await texts(subscriber, 1) == [("CREATED", "a")]
    subscriber = await look_at(api, workspace.other, (workspace.general, after["channel"]["rev"]))
    assert await subscriber.next() == {
        "__typename": "ChannelCaughtUp",
        "conversationId": workspace.general,
        "rev": after["channel"]["rev"],
        "reset": False,
    }
    assert (await api.data(workspace.outsider, REV, id=workspace.general, workspace=workspace.id)) == {
        "channel": None,
        "workspace": None,
    }


async def test_a_message_costs_no_further_round_trip_and_no_key_for_those_who_look(
    api: Api, other_api: Api, workspace: SampleChannels, deployments: Deployments
) -> None:
    people = [workspace.users[name] for name in ("owner", "other", "admin")]
    subscribers = [(await live(server, user, workspace.general))[0] for user in people for server in (api, other_api)]
    await api.send(workspace.member, workspace.general, "warm")
    await api.wait_until_idle()
    parts = [part.encode() for part in (workspace.id.removeprefix("w_"), *people)]

    def list_keys() -> list[bytes]:
        """Return the keys of the workspace and of those who look, not those of other tests."""
        return sorted(key for key in deployments.keys("main", "*") if any(part in key for part in parts))

    keys = list_keys()
    meter = Meter(api)
    await meter.expect("sendMessage", lambda: meter.send(workspace.member, workspace.general, content="a"), 1, 2)
    await api.wait_until_idle()
    assert keys and list_keys() == keys
    for subscriber in subscribers:
        assert (await texts(subscriber, 2))[1] == ("CREATED", "a")

"""Changed threads: at most one event a second and thread over all servers, and the last one shows the last state."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from store.base.ids import PARTITIONS
from subscriptions.delivery.coalescing.thread_events import INTERVAL_MS, ThreadEvents
from tests.api.client import Api, Json, Subscriber, gather_all
from tests.api.events import current_cursor
from tests.api.state_snapshot import wait_for_thread_events
from tests.api.threads.calls import LOCK
from tests.api.threads.live_calls import (
    EVENTS,
    OUTSIDE_CHANNELS,
    PLACES,
    ThreadPlace,
    follow,
    look,
    make_thread,
    next_of,
    until,
)

KINDS = ("ThreadChanged", "ChannelThread")
INTERVAL_SECONDS = 0.15


@pytest.fixture(autouse=True)
def _short_interval(api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for server in (api, other_api):
        windows: Any = server.services.app.threads._coalesced._windows
        assert windows.interval_ms == INTERVAL_MS == 1_000
        monkeypatch.setattr(windows, "interval_ms", round(1_000 * INTERVAL_SECONDS))


async def watch(api: Api, place: ThreadPlace, user: str) -> Subscriber:
    """Return the subscription in which a user sees that the thread has changed, after the changes so far."""
    await wait_for_thread_events(api)
    if place.conversation.startswith("c_"):
        return await look(api, user, place.conversation)
    return await api.listen(user, EVENTS)


async def changed(subscriber: Subscriber) -> Json:
    """Return the thread of the next event of a changed thread."""
    thread: Json = (await next_of(subscriber, *KINDS))["thread"]
    return thread


async def count_until(subscriber: Subscriber, count: int) -> int:
    """Return the number of events until a thread has a number of replies."""
    events = 1
    while (await changed(subscriber))["replyCount"] != count:
        events += 1
    return events


@pytest.mark.parametrize("kind", PLACES)
async def test_many_replies_on_two_servers_are_few_events(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    devices = [await watch(api, place, place.first), await watch(other_api, place, place.third)]
    began = time.monotonic()
    sends = [(api, place.first), (other_api, place.second)] * 12
    await gather_all(*(server.send(user, place.id, f"reply {i}") for i, (server, user) in enumerate(sends)))
    for device in devices:
        events = await count_until(device, 1 + len(sends))
        assert events <= 2 + (time.monotonic() - began) / INTERVAL_SECONDS
    # The replies may have been noted on both servers: everything is shown, and nothing more comes.
    await asyncio.sleep(1.5 * INTERVAL_SECONDS)
    assert {
        event["thread"]["replyCount"] for device in devices for event in device.pop_events() if "thread" in event
    } <= {1 + len(sends)}


@pytest.mark.parametrize("kind", PLACES)
async def test_replies_recalls_and_locks_change_a_thread(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    device = await watch(other_api, place, place.third)
    reply = (await api.send(place.first, place.id, "second"))["message"]
    first = await changed(device)
    assert (first["id"], first["replyCount"], first["participantCount"]) == (place.id, 2, 2)
    await api.recall(place.first, reply["id"])
    assert (await changed(device))["replyCount"] == 1
    await api.data(place.first, LOCK, id=place.id)
    assert (await changed(device))["isLocked"] is True
    await api.data(place.first, LOCK, id=place.id, on=False)
    assert (await changed(device))["isLocked"] is False


@pytest.mark.parametrize("kind", PLACES)
async def test_follows_and_edits_do_not_change_a_thread(api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    reply = (await api.send(place.second, place.id, "text"))["message"]
    device = await watch(api, place, place.third)
    looking = await look(api, place.first, place.id)
    await follow(api, place.first, place.id)
    await follow(api, place.first, place.id, on=False)
    assert looking.pop_events() == []
    await api.edit(place.second, reply["id"], "edited")
    await api.data(place.first, LOCK, id=place.id, on=False)
    await api.wait_until_idle()
    await device.expect_no_event()
    assert [event["change"] for event in looking.pop_events()] == ["UPDATED"]


@pytest.mark.parametrize("kind", OUTSIDE_CHANNELS)
async def test_a_missed_change_is_shown_once_as_the_thread_is_now(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    device = await watch(api, place, place.third)
    since = await current_cursor(api, place.third)
    for count in (2, 3):
        await api.send(place.second, place.id, "more")
        assert (await changed(device))["replyCount"] == count
    missed = await until(await other_api.subscribe(place.third, EVENTS, since=since), "CaughtUp")
    (event,) = [event for event in missed if event["__typename"] == "ThreadChanged"]
    assert event["thread"]["replyCount"] == 3 and event["parentId"] == place.parent["id"]


@pytest.mark.parametrize("kind", PLACES)
async def test_a_missed_change_is_shown_in_channel_events(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    await watch(api, place, place.first)
    looking = await look(api, place.third, place.conversation)
    await api.send(place.second, place.id, "more")
    first = await next_of(looking, "ChannelThread")
    assert (first["conversationId"], first["parentId"]) == (place.conversation, place.parent["id"])
    await api.send(place.second, place.id, "more")
    second = await next_of(looking, "ChannelThread")
    assert second["rev"] > first["rev"] and second["thread"]["rev"] == second["rev"]
    resumed = await until(await look(other_api, place.third, (place.conversation, first["rev"])), "ChannelCaughtUp")
    assert [event["thread"]["replyCount"] for event in resumed if event["__typename"] == "ChannelThread"] == [3]
    assert resumed[-1]["reset"] is False


@pytest.mark.parametrize("kind", PLACES)
async def test_another_server_publishes_what_a_dead_one_has_noted(
    api: Api, other_api: Api, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await make_thread(api, kind)
    device = await watch(other_api, place, place.third)

    def die(*_args: Any) -> None:
        return

    monkeypatch.setattr(ThreadEvents, "publish", die)
    await api.send(place.second, place.id, "more")
    await api.wait_until_idle()
    monkeypatch.undo()
    assert not [event for event in device.pop_events() if event["__typename"] in KINDS]
    await other_api.services.housekeeper.sweep(range(PARTITIONS), 0)
    assert (await changed(device))["replyCount"] == 2
    await watch(other_api, place, place.third)
    assert await other_api.services.app.store.outbox.list_waiting(range(PARTITIONS), 0, 10) == []


async def test_members_of_a_large_group_get_the_event(api: Api, other_api: Api) -> None:
    place = await make_thread(api, "group", others=210)
    member = f"member-{place.first}.0209"
    device = await watch(other_api, place, member)
    looking = await look(other_api, member, place.id)
    await api.send(place.second, place.id, "more")
    assert (await changed(device))["replyCount"] == 2
    assert (await looking.next())["message"]["content"] == "more"


async def test_users_who_cannot_see_the_parent_message_get_no_event(api: Api) -> None:
    place = await make_thread(api, "group")
    (late,) = await api.create_users("dora")
    await api.invite(place.first, place.conversation, late)
    device = await watch(api, place, late)
    others = await watch(api, place, place.third)
    await api.send(place.second, place.id, "more")
    assert (await changed(others))["replyCount"] == 2
    await api.wait_until_idle()
    assert [event for event in device.pop_events() if event["__typename"] in KINDS] == []


async def test_members_who_were_away_see_only_their_part_in_the_event(api: Api) -> None:
    place = await make_thread(api, "group")
    await api.data(place.third, "mutation ($id: ID!) { leaveGroup(groupId: $id) }", id=place.conversation)
    await api.send(place.second, place.id, "unseen")
    await api.invite(place.first, place.conversation, place.third)
    device = await watch(api, place, place.third)
    others = await watch(api, place, place.first)
    await api.send(place.second, place.id, "seen")
    assert (await changed(device))["replyCount"] == 2
    assert (await changed(others))["replyCount"] == 3

"""Events of pinned messages: live, from another server, after a reconnect; and the recall of pinned messages."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.api.client import RECALL, Api, Json, Subscriber, gather_all, private_id, wait_until
from tests.api.paused_step import PausedStep
from tests.api.pins.calls import CHANNELS, LIVE, PIN, announcements, check_pins, pin, pinned, unpin
from tests.api.revisions import read_everywhere


def brief(event: Json) -> Any:
    """Return what a test compares of an event."""
    message = event.get("message") or {}
    if event["__typename"] in ("PinsChanged", "ChannelPins"):
        return event["pinCount"], message["seq"], message["isPinned"]
    return event.get("change", event["__typename"]), message.get("seq"), message.get("isPinned")


async def take_briefs(listener: Subscriber, count: int) -> list[Any]:
    return [brief(await listener.next()) for _ in range(count)]


async def since_now(api: Api, user: str) -> str:
    cursor: str = (await (await api.subscribe(user, LIVE)).next())["cursor"]
    return cursor


async def test_events_arrive_live_from_another_server_and_after_a_reconnect(api: Api, other_api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(bob, group, "plan"))["message"]
    since = await since_now(api, bob)
    devices = [await process.listen(user, LIVE) for process in (api, other_api) for user in (alice, bob, carol)]
    watching = [await process.subscribe(bob, CHANNELS, channels=[{"id": group}]) for process in (api, other_api)]
    rev, _ = [(await each.next())["rev"] for each in watching]
    outsider = await other_api.listen(dave, LIVE)
    await pin(api, alice, message["id"])
    await unpin(other_api, alice, message["id"])
    expected = [(1, 1, True), ("MessageCreated", 2, False), (0, 1, False)]
    for device in devices:
        assert await take_briefs(device, 3) == expected
    for each in watching:
        assert await take_briefs(each, 3) == [expected[0], ("CREATED", 2, False), expected[2]]
    resumed = await other_api.subscribe(bob, LIVE, since=since)
    # The message and the count are shown as they are by then.
    now = [(0, 1, False), ("MessageCreated", 2, False), (0, 1, False)]
    assert await take_briefs(resumed, 3) == now
    resumed_channel = await api.subscribe(bob, CHANNELS, channels=[{"id": group, "rev": rev}])
    assert await take_briefs(resumed_channel, 3) == [now[0], ("CREATED", 2, False), now[2]]
    await outsider.expect_no_event(0.03)


async def test_users_who_cannot_read_the_message_get_no_event(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    old = (await api.send(alice, group, "old"))["message"]
    await api.invite(alice, group, dave)
    late, former = await api.listen(dave, LIVE), await api.listen(carol, LIVE)
    await api.leave(carol, group)
    assert brief(await late.next())[0] == "MessageCreated"
    await pin(api, alice, old["id"])
    event = await late.next()
    assert event["message"]["systemEvent"]["kind"] == "MESSAGE_PINNED" and event["message"]["replyTo"] is None
    await late.expect_no_event(0.03)
    assert all(event["__typename"] != "PinsChanged" for event in former.pop_events())


async def test_the_newest_message_shows_the_pin_everywhere(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob, "1"))["message"]
    conversation = private_id(alice, bob)
    await pin(api, alice, message["id"])
    (system,) = await announcements(api, bob, conversation)
    for process in (api, other_api):
        assert {found["id"] for found in (await read_everywhere(process, bob, system)).values()} == {system["id"]}
    newest = "query ($id: ID!) { conversation(id: $id) { lastMessage { seq isPinned } } }"
    store = api.services.app.store
    # The head has the pinned message if the announcement fails.
    pins: Any = api.services.app.pins
    other = (await api.send(bob, alice, "2"))["message"]
    (found,) = (await store.messages.find_many([(conversation, other["seq"])])).values()
    await pins._show(found._replace(pin_changes=1))
    for process in (api, other_api):
        shown = (await process.data(bob, newest, id=conversation))["conversation"]["lastMessage"]
        assert shown == {"seq": other["seq"], "isPinned": True}
    # An older state does not replace it.
    await pins._show(found)
    assert (await api.data(bob, newest, id=conversation))["conversation"]["lastMessage"]["isPinned"] is True


@pytest.mark.parametrize("by", ["sender", "moderator"])
async def test_a_recalled_message_is_unpinned(api: Api, other_api: Api, by: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(bob, group, "plan"))["message"]
    await pin(api, alice, message["id"])
    devices = [await process.listen(carol, LIVE) for process in (api, other_api)]
    await other_api.recall(bob if by == "sender" else alice, message["id"])
    for device in devices:
        events = await device.take(2)
        assert [brief(event) for event in events] == [("MessageRecalled", 1, False), (0, 1, False)]
        assert events[1]["message"]["content"] is None
    assert await pinned(api, alice, group) == []
    assert len(await announcements(api, carol, group)) == 1
    await check_pins(api, group)
    assert (await api.expect_refusal(alice, PIN, id=message["id"])).code == "INVALID_INPUT"
    for device in devices:
        await device.expect_no_event(0.03)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 20))])
async def test_no_pin_of_a_recalled_message_stays(api: Api, other_api: Api, seed: int) -> None:
    rng = random.Random(seed)
    alice, bob = await api.create_users("alice", "bob")
    messages = [(await api.send(alice, bob, f"{n}"))["message"]["id"] for n in range(3)]
    devices = [await process.listen(bob, LIVE) for process in (api, other_api)]
    calls = [rng.choice((api, other_api)).run(rng.choice((alice, bob)), PIN, id=m) for m in messages for _ in range(3)]
    calls += [rng.choice((api, other_api)).run(alice, RECALL, id=m) for m in messages]
    rng.shuffle(calls)
    outcomes = await gather_all(*calls)
    assert {e["extensions"]["code"] for o in outcomes for e in o.get("errors", ())} <= {"INVALID_INPUT"}
    assert await pinned(api, bob, private_id(alice, bob)) == []
    await check_pins(api, private_id(alice, bob))
    await other_api.wait_until_idle()
    await asyncio.sleep(0.1)
    for device in devices:
        counts: list[int] = []

        async def shows_none(device: Subscriber = device, counts: list[int] = counts) -> bool:
            counts.extend(event["pinCount"] for event in device.pop_events() if event["__typename"] == "PinsChanged")
            return counts == [] or counts[-1] == 0

        # Events may be late.
        await wait_until(shows_none)


@pytest.mark.parametrize("first", ["recall", "pin"])
async def test_a_recall_and_a_pin_in_the_same_moment_leave_no_pin(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob, "1"))["message"]["id"]
    await api.wait_until_idle()
    store: Any = api.services.app.store
    if first == "recall":
        paused = PausedStep(store.pins, "pin", monkeypatch)
        slow: Any = asyncio.create_task(api.run(bob, PIN, id=message))
        await paused.reached.wait()
        await other_api.recall(alice, message)
        paused.resume.set()
        assert (await slow)["errors"][0]["extensions"]["code"] == "INVALID_INPUT"
    else:
        paused = PausedStep(store.revisions, "recall", monkeypatch)
        slow = asyncio.create_task(api.recall(alice, message))
        await paused.reached.wait()
        await pin(other_api, bob, message)
        paused.resume.set()
        assert (await slow)["state"] == "RECALLED"
    assert await pinned(other_api, bob, private_id(alice, bob)) == []
    await check_pins(api, private_id(alice, bob))

"""Resuming a subscription: every missed event once, whatever the origin of the cursor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import UserId
from store.sessions.session_store import SessionStore
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.mailboxes import Position
from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.events import read_missed_events
from tests.api.paused_step import PausedStep
from tests.api.session_calls import SESSIONS
from tests.clock import ManualClock


async def test_resuming_replays_missed_events_and_continues_live(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(alice)
    await api.send(bob, alice, "seen")
    cursor = (await device.next())["cursor"]
    await device.stop()
    await api.send(bob, alice, "missed 1")
    await api.send(alice, group, "missed 2")
    await api.mark_read(bob, group)
    await api.wait_until_idle()
    await api.mark_read(alice, private_id(alice, bob))
    await api.wait_until_idle()
    device = await api.subscribe(alice, LIVE_MESSAGES, since=cursor)
    events = await device.take(5)
    assert [event.get("message", {}).get("content") for event in events[:2]] == ["missed 1", "missed 2"]
    read = [(event["user"]["id"], event["conversationId"], event["seq"]) for event in events[2:4]]
    assert read == [(bob, group, 1), (alice, private_id(alice, bob), 2)]
    assert (events[4]["__typename"], events[4]["reset"]) == ("CaughtUp", False)
    await api.send(bob, alice, "live")
    assert (await device.next())["message"]["content"] == "live"
    await device.expect_no_event(0.03)


async def test_every_cursor_of_an_event_resumes_exactly_after_it(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(alice)
    start = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    for number in range(3):
        await api.send(bob, alice, f"{number}")
        await api.send(alice, group, f"{number}")
        await api.mark_read(carol, group)
        await api.wait_until_idle()
    events = await device.take(9)
    assert await read_missed_events(api, alice, start) == events
    for position, event in enumerate(events):
        assert await read_missed_events(api, alice, event["cursor"]) == events[position + 1 :]


async def test_cursors_of_all_queries_are_interchangeable(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    session_listener = await api.listen(alice, LIVE_SESSIONS)
    await api.mark_read(alice, private_id(alice, bob))
    await api.wait_until_idle()
    read = (await session_listener.next())["cursor"]
    message_listener = await api.subscribe(alice, LIVE_MESSAGES)
    cursors = {
        "sessions": (await api.data(alice, SESSIONS))["sessions"]["cursor"],
        "syncSessions": (await api.data(alice, SYNC))["syncSessions"]["cursor"],
        "syncSession": read,
        "messageEvents": (await message_listener.next())["cursor"],
    }
    await api.send(bob, alice, "missed")
    for origin, cursor in cursors.items():
        assert [event["message"]["content"] for event in await read_missed_events(api, alice, cursor)] == ["missed"], (
            origin
        )
        delta = (await api.data(alice, SYNC, since=cursor))["syncSessions"]
        assert ([session["unreadCount"] for session in delta["sessions"]], delta["reset"]) == ([1], False), origin
        resumed = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
        event = await resumed.next()
        assert (event["sessions"], event["reset"], event["hasMore"]) == (delta["sessions"], False, False), origin
        assert event["totalUnread"] == 1


async def test_one_conversation_can_be_resumed_alone(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    await api.send(carol, alice, "elsewhere")
    await api.send(bob, alice, "here")
    events = await read_missed_events(api, alice, cursor, id=private_id(alice, bob))
    assert [event["message"]["content"] for event in events] == ["here"]


async def test_resuming_with_nothing_missed_sends_only_caught_up(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    assert await read_missed_events(api, alice, cursor) == []
    event = await (await api.subscribe(alice, LIVE_SESSIONS, since=cursor)).next()
    assert (event["sessions"], event["reset"], event["totalUnread"]) == ([], False, 1)


async def test_resumed_sessions_catch_up_and_continue_without_repeating(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    await api.send(carol, alice)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    await api.mark_read(alice, private_id(alice, bob))
    for _ in range(2):
        await api.send(alice, carol)
    device = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
    event = await device.next()
    assert (event["reason"], event["totalUnread"], event["reset"]) == ("CATCH_UP", 0, False)
    assert [session["conversation"]["title"] for session in event["sessions"]] == [bob, carol]
    assert {s["id"]: s for s in event["sessions"]} == {s["id"]: s for s in await api.sessions(alice)}
    await device.expect_no_event(0.03)
    await api.send(bob, alice)
    session = await api.mark_read(alice, private_id(alice, bob))
    event = await device.next()
    assert (event["reason"], event["sessions"]) == ("READ", [session])


async def test_many_sessions_catch_up_in_several_events(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    since = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    others = await api.create_many_users(alice, 110)
    await gather_all(*(api.send(alice, other) for other in others))
    for cursor in (since, "nonsense"):
        device = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
        events = await device.take(2)
        assert [event["hasMore"] for event in events] == [True, False]
        assert {event["reset"] for event in events} == {cursor == "nonsense"}
        assert {event["reason"] for event in events} == {"CATCH_UP"}
        titles = [session["conversation"]["title"] for event in events for session in event["sessions"]]
        assert len(titles) == 110
        assert len({session["id"] for event in events for session in event["sessions"]}) == 110
        await device.expect_no_event(0.05)


async def send_out_of_order(
    api: Api, other_api: Api, to: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch, *, seq: int = 1
) -> None:
    """Send a message through a process whose commit is slow; a second one, through another process, commits first."""
    paused = PausedStep(api.services.app.store.commits, "commit", monkeypatch)
    async with asyncio.TaskGroup() as tasks:
        slow_send = tasks.create_task(api.send(first, to, "first"))
        await paused.reached.wait()
        assert (await other_api.send(second, to, "second"))["message"]["seq"] == seq + 1
        paused.resume.set()
        assert (await slow_send)["message"]["seq"] == seq
    monkeypatch.undo()
    await api.wait_until_idle()


async def test_missed_messages_are_replayed_in_order_of_seq(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    start = (await api.data(carol, SYNC))["syncSessions"]["cursor"]
    await send_out_of_order(api, other_api, group, alice, bob, monkeypatch)
    events = [event for event in await read_missed_events(api, carol, start) if event["__typename"] == "MessageCreated"]
    assert [event["message"]["content"] for event in events] == ["first", "second"]
    for position, event in enumerate(events):
        later_events = await read_missed_events(api, carol, event["cursor"])
        assert [e for e in later_events if e["__typename"] == "MessageCreated"] == events[position + 1 :]


async def test_overtaking_own_messages_cause_no_receipts(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    start = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
    await api.sessions(alice)
    await send_out_of_order(api, other_api, private_id(alice, bob), alice, alice, monkeypatch, seq=2)
    assert [event["__typename"] for event in await read_missed_events(api, bob, start)] == ["MessageCreated"] * 2


async def test_an_overtaken_message_is_replayed_after_the_overtaking_one(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    message_listener = await api.listen(carol)
    await send_out_of_order(api, other_api, group, alice, bob, monkeypatch)
    events = [await message_listener.next(), await message_listener.next()]
    assert {event["message"]["seq"] for event in events} == {1, 2}
    assert await api.unread(carol, group) == 2
    later_events = await read_missed_events(other_api, carol, events[0]["cursor"])
    assert [event["message"]["seq"] for event in later_events if event["__typename"] == "MessageCreated"] == [
        events[1]["message"]["seq"]
    ]


async def test_concurrent_messages_are_replayed_in_order_of_seq(api: Api) -> None:
    users = await api.create_users(*"abcd")
    group = await api.create_group(*users)
    cursor = (await api.data(users[0], SYNC))["syncSessions"]["cursor"]
    await gather_all(*(api.send(users[i % 4], group) for i in range(40)))
    await api.wait_until_idle()
    events = [
        event for event in await read_missed_events(api, users[0], cursor) if event["__typename"] == "MessageCreated"
    ]
    assert [event["message"]["seq"] for event in events] == list(range(1, 41))


async def test_the_last_thousand_events_are_replayed(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    device = await api.listen(bob)
    await api.send(alice, bob)
    cursor = (await device.next())["cursor"]
    await device.stop()
    query = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { replayed } }"
    for _ in range(5):
        message = {"toUserId": bob, "content": "one of many"}
        await gather_all(*(api.data(alice, query, input=message) for _ in range(200)))
    events = await read_missed_events(api, bob, cursor)
    assert sorted(event["message"]["seq"] for event in events) == list(range(2, 1002))


async def test_events_of_almost_a_day_ago_are_replayed(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("a day", clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob, "seen")
        cursor = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
        await api.send(alice, bob, "missed")
        await api.advance_days(clock, 0.99)
        keys = api.services.app.store.keys
        state_keys = [keys.of_user(UserId(bob), name) for name in ("meta", "sessions", "index", "list", "log")]
        assert all(23 < hours <= 24 for hours in await api.remaining_hours(*state_keys))
        events = await read_missed_events(api, bob, cursor)
        assert [event["message"]["content"] for event in events] == ["missed"]


async def test_after_a_redis_loss_events_reset_and_sessions_catch_up(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("lost") as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob)
        cursor = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
        await api.send(alice, bob, "missed")
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        message_listener = await api.subscribe(bob, LIVE_MESSAGES, since=cursor)
        first = await message_listener.next()
        assert (first["__typename"], first["reset"]) == ("CaughtUp", True)
        event = await (await api.subscribe(bob, LIVE_SESSIONS, since=cursor)).next()
        assert [session["unreadCount"] for session in event["sessions"]] == [2]
        await api.send(alice, bob, "live")
        assert (await message_listener.next())["message"]["content"] == "live"


@pytest.mark.parametrize("since_start", ["just started", "checked Redis before"])
async def test_a_listener_during_a_redis_loss_is_reset_or_misses_nothing(
    open_api: OpenApi, deployments: Deployments, since_start: str
) -> None:
    async with open_api("lost") as api:
        alice, bob = await api.create_users("alice", "bob")
        message_listener = await api.listen(bob)
        session_listener = await api.listen(bob, LIVE_SESSIONS)
        await api.send(alice, bob, "before")
        await message_listener.next()
        await api.wait_until_idle()
        if since_start == "checked Redis before":
            await api.services.housekeeper.check_redis()
        deployments.flush_redis("lost")
        await api.send(alice, bob, "after")
        await api.services.housekeeper.check_redis()
        event = await message_listener.next()
        if event["__typename"] == "CaughtUp":
            assert event["reset"] is True
        else:
            assert event["message"]["content"] == "after"
        event = await session_listener.next()
        assert (event["reason"], event["reset"]) == ("CATCH_UP", True)
        assert [session["unreadCount"] for session in event["sessions"]] == [2]
        await api.send(alice, bob, "later")
        while event.get("message", {}).get("content") != "later":
            event = await message_listener.next()


@pytest.mark.parametrize("change", ["one setting", "a message during each read"])
async def test_a_replay_shows_no_session_newer_than_its_last_event(
    api: Api, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    conversation = private_id(alice, bob)
    start = await api.services.app.store.sessions.find_many(UserId(alice), ())
    await api.mute(alice, conversation)
    read_log, changes = SessionStore.read_log, [1]

    async def read_before_a_change(self: SessionStore, *args: Any) -> Any:
        rows = await read_log(self, *args)
        if change == "a message during each read":
            await api.send(bob, alice)
        elif changes:
            await api.pin(alice, conversation, changes.pop())
        return rows

    monkeypatch.setattr(SessionStore, "read_log", read_before_a_change)
    events = await api.services.app.replayer.since(UserId(alice), Position(start.epoch, start.clock))
    assert events is not None
    changed = [item.event for item in events if isinstance(item.event, SessionChanged)]
    assert len(changed) == (2 if change == "one setting" else 1)
    assert max(session.active_ts for event in changed for session in event.sessions) == events[-1].position.tick

"""Resuming a subscription: everything that was missed, nothing twice, whatever the cursor came from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import UserId
from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, Json, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import SESSIONS
from tests.clock import ManualClock


async def missed(api: Api, user: str, since: str, **variables: str) -> list[Json]:
    """The events up to CaughtUp, which is not a reset."""
    subscriber = await api.subscribe(user, LIVE_MESSAGES, since=since, **variables)
    events = [await subscriber.next()]
    while events[-1]["__typename"] != "CaughtUp":
        events.append(await subscriber.next())
    assert events.pop()["reset"] is False
    await subscriber.stop()
    return events


async def test_who_comes_back_gets_what_was_missed_and_then_what_is_live(api: Api) -> None:
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


async def test_every_event_s_cursor_leads_to_exactly_what_came_after_it(api: Api) -> None:
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
    assert await missed(api, alice, start) == events
    for position, event in enumerate(events):
        assert await missed(api, alice, event["cursor"]) == events[position + 1 :]


async def test_cursors_are_interchangeable(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    synced = await api.listen(alice, LIVE_SESSIONS)
    await api.mark_read(alice, private_id(alice, bob))
    await api.wait_until_idle()
    read = (await synced.next())["cursor"]
    live = await api.subscribe(alice, LIVE_MESSAGES)
    cursors = {
        "sessions": (await api.data(alice, SESSIONS))["sessions"]["cursor"],
        "syncSessions": (await api.data(alice, SYNC))["syncSessions"]["cursor"],
        "syncSession": read,
        "messageEvents": (await live.next())["cursor"],
    }
    await api.send(bob, alice, "missed")
    for origin, cursor in cursors.items():
        assert [event["message"]["content"] for event in await missed(api, alice, cursor)] == ["missed"], origin
        delta = (await api.data(alice, SYNC, since=cursor))["syncSessions"]
        assert ([session["unreadCount"] for session in delta["sessions"]], delta["reset"]) == ([1], False), origin
        resumed = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
        part = await resumed.next()
        assert (part["sessions"], part["reset"], part["hasMore"]) == (delta["sessions"], False, False), origin
        assert part["totalUnread"] == 1


async def test_one_conversation_is_resumed_alone(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    await api.send(carol, alice, "elsewhere")
    await api.send(bob, alice, "here")
    events = await missed(api, alice, cursor, id=private_id(alice, bob))
    assert [event["message"]["content"] for event in events] == ["here"]


async def test_resuming_with_nothing_missed_is_just_word_of_it(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    assert await missed(api, alice, cursor) == []
    part = await (await api.subscribe(alice, LIVE_SESSIONS, since=cursor)).next()
    assert (part["sessions"], part["reset"], part["totalUnread"]) == ([], False, 1)


async def test_sessions_are_caught_up_whole_and_go_on_live_without_repeating(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    await api.send(carol, alice)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    await api.mark_read(alice, private_id(alice, bob))
    for _ in range(2):
        await api.send(alice, carol)
    device = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
    part = await device.next()
    assert (part["reason"], part["totalUnread"], part["reset"]) == ("CATCH_UP", 0, False)
    assert [session["conversation"]["title"] for session in part["sessions"]] == [bob, carol]
    assert {s["id"]: s for s in part["sessions"]} == {s["id"]: s for s in await api.sessions(alice)}
    await device.expect_no_event(0.03)
    await api.send(bob, alice)
    session = await api.mark_read(alice, private_id(alice, bob))
    event = await device.next()
    assert (event["reason"], event["sessions"]) == ("READ", [session])


@pytest.mark.parametrize("start", ["since", "reset"])
async def test_many_sessions_are_caught_up_in_parts(api: Api, start: str) -> None:
    (alice,) = await api.create_users("alice")
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"] if start == "since" else "nonsense"
    others = await api.create_many_users(alice, 110)
    await gather_all(*(api.send(alice, other) for other in others))
    device = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
    parts = await device.take(2)
    assert [part["hasMore"] for part in parts] == [True, False]
    assert {part["reset"] for part in parts} == {start == "reset"}
    assert {part["reason"] for part in parts} == {"CATCH_UP"}
    found = [session["conversation"]["title"] for part in parts for session in part["sessions"]]
    assert len(found) == 110
    assert len({session["id"] for part in parts for session in part["sessions"]}) == 110
    await device.expect_no_event(0.05)


async def overtaken(
    api: Api, other_api: Api, to: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch, *, seq: int = 1
) -> None:
    """One writes through a process whose commit takes long, and another, through another one, is done before that."""
    commits = api.services.app.store.commits
    begun, go_on = asyncio.Event(), asyncio.Event()
    commit = commits.commit

    async def slow(*batch: Any, **options: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await commit(*batch, **options)

    monkeypatch.setattr(commits, "commit", slow)
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(api.send(first, to, "first"))
        await begun.wait()
        assert (await other_api.send(second, to, "second"))["message"]["seq"] == seq + 1
        go_on.set()
        assert (await sending)["message"]["seq"] == seq
    monkeypatch.undo()
    await api.wait_until_idle()


async def test_what_was_missed_comes_in_order_of_seq_though_it_became_durable_in_another(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    start = (await api.data(carol, SYNC))["syncSessions"]["cursor"]
    await overtaken(api, other_api, group, alice, bob, monkeypatch)
    events = [event for event in await missed(api, carol, start) if event["__typename"] == "MessageCreated"]
    assert [event["message"]["content"] for event in events] == ["first", "second"]
    for position, event in enumerate(events):
        rest = await missed(api, carol, event["cursor"])
        assert [e for e in rest if e["__typename"] == "MessageCreated"] == events[position + 1 :]


async def test_who_only_wrote_themselves_has_read_nothing_of_others_whatever_overtook_what(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    start = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
    await api.sessions(alice)
    await overtaken(api, other_api, private_id(alice, bob), alice, alice, monkeypatch, seq=2)
    assert [event["__typename"] for event in await missed(api, bob, start)] == ["MessageCreated"] * 2


async def test_a_message_that_was_overtaken_is_not_lost_to_who_had_seen_the_one_that_overtook_it(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    live = await api.listen(carol)
    await overtaken(api, other_api, group, alice, bob, monkeypatch)
    events = [await live.next(), await live.next()]
    assert {event["message"]["seq"] for event in events} == {1, 2}
    assert await api.unread(carol, group) == 2
    rest = await missed(other_api, carol, events[0]["cursor"])
    assert [event["message"]["seq"] for event in rest if event["__typename"] == "MessageCreated"] == [
        events[1]["message"]["seq"]
    ]


async def test_what_many_sent_at_once_is_replayed_in_order_of_seq(api: Api) -> None:
    people = await api.create_users(*"abcd")
    group = await api.create_group(*people)
    cursor = (await api.data(people[0], SYNC))["syncSessions"]["cursor"]
    await gather_all(*(api.send(people[i % 4], group) for i in range(40)))
    await api.wait_until_idle()
    events = [event for event in await missed(api, people[0], cursor) if event["__typename"] == "MessageCreated"]
    assert [event["message"]["seq"] for event in events] == list(range(1, 41))


async def test_the_last_thousand_events_are_replayed_one_by_one(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    device = await api.listen(bob)
    await api.send(alice, bob)
    cursor = (await device.next())["cursor"]
    await device.stop()
    query = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { replayed } }"
    for _ in range(5):
        written = {"toUserId": bob, "content": "one of many"}
        await gather_all(*(api.data(alice, query, input=written) for _ in range(200)))
    events = await missed(api, bob, cursor)
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
        state = [keys.of_user(UserId(bob), name) for name in ("meta", "sessions", "index", "list", "log")]
        assert all(23 < hours <= 24 for hours in await api.remaining_hours(*state))
        events = await missed(api, bob, cursor)
        assert [event["message"]["content"] for event in events] == ["missed"]


async def test_after_redis_was_lost_events_are_reset_and_sessions_are_not_missed(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("lost") as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob)
        cursor = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
        await api.send(alice, bob, "missed")
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        live = await api.subscribe(bob, LIVE_MESSAGES, since=cursor)
        first = await live.next()
        assert (first["__typename"], first["reset"]) == ("CaughtUp", True)
        part = await (await api.subscribe(bob, LIVE_SESSIONS, since=cursor)).next()
        assert [session["unreadCount"] for session in part["sessions"]] == [2]
        await api.send(alice, bob, "live")
        assert (await live.next())["message"]["content"] == "live"


@pytest.mark.parametrize("since_start", ["moments", "a while"])
async def test_who_listens_while_redis_is_lost_misses_nothing_in_silence(
    open_api: OpenApi, deployments: Deployments, since_start: str
) -> None:
    async with open_api("lost") as api:
        alice, bob = await api.create_users("alice", "bob")
        live = await api.listen(bob)
        synced = await api.listen(bob, LIVE_SESSIONS)
        await api.send(alice, bob, "before")
        await live.next()
        await api.wait_until_idle()
        if since_start == "a while":
            await api.services.housekeeper.check_redis()
        deployments.flush_redis("lost")
        await api.send(alice, bob, "after")
        await api.services.housekeeper.check_redis()
        event = await live.next(within=2)
        if event["__typename"] == "CaughtUp":
            assert event["reset"] is True
        else:
            assert event["message"]["content"] == "after"
        part = await synced.next()
        assert (part["reason"], part["reset"]) == ("CATCH_UP", True)
        assert [session["unreadCount"] for session in part["sessions"]] == [2]
        await api.send(alice, bob, "later")
        while event.get("message", {}).get("content") != "later":
            event = await live.next()

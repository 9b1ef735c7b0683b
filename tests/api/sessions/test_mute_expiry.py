"""A mute that ends by itself: everybody sees it at once, and who is connected is told without asking."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.errors import Unreachable
from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, gather_all, private_id, wait_until
from tests.api.conftest import Deployments, OpenApi
from tests.clock import ManualClock

SOON_SECONDS = 2.0
"""Housekeeping wakes several times a second; this leaves room for a busy machine."""


async def sync(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


async def muted_talk(api: Api, until: int | None, unread: int = 2) -> tuple[str, str, str]:
    """Somebody with a muted conversation, whom somebody else wrote three messages beside. With whom, and where."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for sender, count in ((bob, unread), (carol, 3)):
        for _ in range(count):
            await api.send(sender, alice)
    await api.mute(alice, private_id(alice, bob), until)
    assert await api.total_unread(alice) == 3
    return alice, bob, private_id(alice, bob)


def ended(session: Json, until: int) -> bool:
    found = session["muteStatus"], session["mutedUntil"], session["activeTs"], session["unreadCount"]
    return found == (False, None, until, 2)


@pytest.mark.parametrize("late", [0, 1, 15_000], ids=["just then", "1 ms later", "15 s later"])
@pytest.mark.parametrize("asked", ["session", "list", "total", "sync"])
async def test_whoever_asks_when_it_is_over_sees_it_over(open_api: OpenApi, asked: str, late: int) -> None:
    clock = ManualClock()
    async with open_api(f"asked {asked} {late}", clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await muted_talk(api, until)
        cursor = (await sync(api, alice))["cursor"]
        clock.ms = until - 1
        assert (await sync(api, alice, cursor))["sessions"] == []
        assert ((await api.own_session(alice, conversation))["muteStatus"], await api.total_unread(alice)) == (True, 3)
        clock.ms = until + late
        match asked:
            case "session":
                assert ended(await api.own_session(alice, conversation), until)
            case "list":
                assert [s["muteStatus"] for s in await api.sessions(alice)] == [False, False]
            case "total":
                assert await api.total_unread(alice) == 5
        delta = await sync(api, alice, cursor)
        (session,) = delta["sessions"]
        assert ended(session, until)
        assert (delta["totalUnread"], delta["reset"], delta["hasMore"]) == (5, False, False)
        assert await api.session(alice, conversation) == session
        assert session in await api.sessions(alice)
        assert await api.total_unread(alice) == 5
        assert (await sync(api, alice, delta["cursor"]))["sessions"] == []


@pytest.mark.parametrize("before", [True, False], ids=["asked since", "not asked since"])
async def test_that_holds_though_the_cache_was_lost(open_api: OpenApi, deployments: Deployments, before: bool) -> None:
    clock = ManualClock()
    place = f"lost {before}"
    async with open_api(place, clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await muted_talk(api, until)
        cursor = (await sync(api, alice))["cursor"]
        await api.wait_until_idle()
        deployments.flush_redis(place)
        if before:
            assert (await api.own_session(alice, conversation))["muteStatus"] is True
            assert await api.total_unread(alice) == 3
        clock.ms = until
        assert await api.total_unread(alice) == 5
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadCount"]) == (False, None, 2)
        assert session["activeTs"] >= until
        delta = await sync(api, alice, cursor)
        assert session in delta["sessions"]
        assert delta["totalUnread"] == 5


@pytest.mark.parametrize("stored", ["ended before the loss", "ended after the loss"])
async def test_a_mute_that_ended_stays_ended_though_the_cache_is_lost(
    open_api: OpenApi, deployments: Deployments, stored: str
) -> None:
    clock = ManualClock()
    place = f"stays {stored}"
    async with open_api(place, clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await muted_talk(api, until)
        if stored == "ended before the loss":
            clock.ms = until + 1_000
            assert await api.total_unread(alice) == 5
            await asyncio.sleep(0.5)
        await api.wait_until_idle()
        deployments.flush_redis(place)
        clock.ms = until + 30_000
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadCount"]) == (False, None, 2)
        assert await api.total_unread(alice) == 5
        cursor = (await sync(api, alice))["cursor"]
        device = await api.listen(alice, LIVE_SESSIONS)
        await device.expect_no_event(0.6)
        assert (await sync(api, alice, cursor))["sessions"] == []


async def test_nobody_has_to_have_been_there(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("away", clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await muted_talk(api, until)
        cursor = (await sync(api, alice))["cursor"]
    clock.ms = until + 3_600_000
    async with open_api("away", clock) as api:
        live = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
        part = await live.next()
        assert (part["reason"], part["reset"], part["hasMore"], part["totalUnread"]) == ("CATCH_UP", False, False, 5)
        (session,) = part["sessions"]
        assert (session["muteStatus"], session["mutedUntil"]) == (False, None)
        assert await api.session(alice, conversation) == session
        await live.expect_no_event(0.6)


# --- who is connected


async def test_both_processes_tell_their_devices_once_without_being_asked(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("live", clock) as api, open_api("live", clock) as other:
        until = clock.ms + 20_000
        alice, bob, conversation = await muted_talk(api, until)
        devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other, other)]
        quiet = [await api.listen(bob, LIVE_SESSIONS), await api.listen(alice)]
        clock.ms = until - 1
        await devices[0].expect_no_event(0.6)
        clock.ms = until + 3
        for device in devices:
            event = await device.next(within=SOON_SECONDS)
            assert (event["reason"], event["totalUnread"]) == ("UNMUTE", 5)
            assert (event["reset"], event["hasMore"]) == (False, False)
            (session,) = event["sessions"]
            assert ended(session, until)
        for process in (api, other):
            assert await process.session(alice, conversation) == session
        for device in (*devices, *quiet):
            await device.expect_no_event(0.3)
        assert (await sync(api, alice, event["cursor"]))["sessions"] == []


async def test_a_device_is_told_though_others_ask_first(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("asked first", clock) as api, open_api("asked first", clock) as other:
        until = clock.ms + 20_000
        alice, _, _ = await muted_talk(api, until)
        devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other)]
        clock.ms = until
        totals = await gather_all(*(process.total_unread(alice) for process in (api, other) * 3))
        assert set(totals) == {5}
        for device in devices:
            event = await device.next(within=SOON_SECONDS)
            assert (event["reason"], event["totalUnread"]) == ("UNMUTE", 5)
            await device.expect_no_event(0.5)


@pytest.mark.parametrize("change", ["a message there", "a message elsewhere", "reading there", "pinning there"])
async def test_what_happens_first_when_it_is_over_finds_it_over(open_api: OpenApi, change: str) -> None:
    clock = ManualClock()
    async with open_api(f"first {change}", clock) as api:
        until = clock.ms + 20_000
        alice, bob, conversation = await muted_talk(api, until)
        cursor = (await sync(api, alice))["cursor"]
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until + 5
        unread, total = 2, 5
        match change:
            case "a message there":
                await api.send(bob, alice)
                unread, total = 3, 6
            case "a message elsewhere":
                (dave,) = await api.create_users("dave")
                await api.send(dave, alice)
                total = 6
            case "reading there":
                assert (await api.mark_read(alice, conversation))["muteStatus"] is False
                unread, total = 0, 3
            case "pinning there":
                assert (await api.pin(alice, conversation))["muteStatus"] is False
        delta = await sync(api, alice, cursor)
        session = next(s for s in delta["sessions"] if s["conversation"]["id"] == conversation)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadCount"]) == (False, None, unread)
        assert (delta["totalUnread"], await api.total_unread(alice)) == (total, total)
        await asyncio.sleep(0.7)
        reasons = [event["reason"] for event in device.pop_events()]
        assert reasons.count("UNMUTE") == 1


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
async def test_all_that_end_together_are_told(open_api: OpenApi, deployments: Deployments, lost: bool) -> None:
    clock = ManualClock()
    place = f"together {lost}"
    async with open_api(place, clock) as api, open_api(place, clock) as other:
        alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(6)))
        (bystander,) = await api.create_users("bystander")
        until = clock.ms + 20_000
        for number, friend in enumerate(others):
            await api.send(friend, alice)
            await api.mute(alice, private_id(alice, friend), until + 5_000 * (number == 5))
        await api.send(others[0], bystander)
        await api.mute(bystander, private_id(bystander, others[0]), until)
        if lost:
            await api.wait_until_idle()
            deployments.flush_redis(place)
            await api.services.housekeeper.check_redis()
            await other.services.housekeeper.check_redis()
        devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other)]
        neighbour = await other.listen(bystander, LIVE_SESSIONS)
        cursor = (await sync(api, alice))["cursor"]
        clock.ms = until
        expected = {private_id(alice, friend) for friend in others[:5]}
        for device in devices:
            told: list[Json] = []
            while len(told) < 5:
                event = await device.next(within=SOON_SECONDS)
                assert event["reason"] == "UNMUTE"
                told += event["sessions"]
            assert event["totalUnread"] == 5
            assert {session["conversation"]["id"] for session in told} == expected
            assert {session["muteStatus"] for session in told} == {False}
            assert [s["activeTs"] for s in told] == sorted({s["activeTs"] for s in told})
            await device.expect_no_event(0.3)
        assert (await neighbour.next(within=SOON_SECONDS))["totalUnread"] == 1
        delta = await sync(api, alice, cursor)
        assert delta["sessions"] == told
        assert await api.total_unread(alice) == 5


async def test_a_device_that_was_there_when_the_cache_was_lost_ends_with_the_right_state(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("there", clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await muted_talk(api, until)
        device = await api.listen(alice, LIVE_SESSIONS)
        await api.wait_until_idle()
        deployments.flush_redis("there")
        assert (await device.next())["reset"] is True
        clock.ms = until
        known: Json = {}

        async def told() -> bool:
            for event in device.pop_events():
                known.update({"total": event["totalUnread"]})
                known.update({session["conversation"]["id"]: session for session in event["sessions"]})
            return known.get("total") == 5

        await wait_until(told, within=SOON_SECONDS)
        assert known[conversation]["muteStatus"] is False
        assert known[conversation] == await api.session(alice, conversation)


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
async def test_a_mute_of_a_deleted_session_is_over_when_it_lives_again(open_api: OpenApi, hard: bool) -> None:
    clock = ManualClock()
    async with open_api(f"deleted {hard}", clock) as api:
        until = clock.ms + 20_000
        alice, bob, conversation = await muted_talk(api, until)
        await api.delete(alice, conversation, hard)
        clock.ms = until
        assert await api.total_unread(alice) == 3
        await asyncio.sleep(0.5)
        assert (await api.own_session(alice, conversation))["status"] == "INVALID"
        await api.send(bob, alice)
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadCount"]) == (False, None, 1)
        assert await api.total_unread(alice) == 4


async def test_a_deleted_session_that_lives_again_in_time_is_muted_still(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("revived", clock) as api:
        until = clock.ms + 20_000
        alice, bob, conversation = await muted_talk(api, until)
        await api.delete(alice, conversation)
        await api.send(bob, alice)
        assert ((await api.own_session(alice, conversation))["muteStatus"], await api.total_unread(alice)) == (True, 3)
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until
        event = await device.next(within=SOON_SECONDS)
        assert (event["reason"], event["totalUnread"]) == ("UNMUTE", 4)


async def test_a_device_elsewhere_that_listened_before_is_told_too(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("elsewhere", clock) as api, open_api("elsewhere", clock) as other:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(bob, alice)
        device = await other.listen(alice, LIVE_SESSIONS)
        until = clock.ms + 10_000
        for end in (until + 30_000, until):
            await api.mute(alice, private_id(alice, bob), end)
        assert [event["reason"] for event in await device.take(2)] == ["MUTE", "MUTE"]
        clock.ms = until
        event = await device.next(within=SOON_SECONDS)
        assert (event["reason"], event["totalUnread"], event["sessions"][0]["activeTs"]) == ("UNMUTE", 1, until)
        await device.expect_no_event(0.3)


async def test_devices_of_somebody_whose_state_left_the_cache_learn_of_it(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("evicted", clock) as api, open_api("evicted", clock) as other:
        until = clock.ms + 10_000
        alice, _, conversation = await muted_talk(api, until)
        devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other)]
        await api.wait_until_idle()
        deployments.evict_user_state("evicted", alice)
        clock.ms = until
        for device in devices:
            event = await device.next(within=SOON_SECONDS)
            assert event["totalUnread"] == 5
            told = {session["conversation"]["id"]: session for session in event["sessions"]}
            assert told[conversation] == await api.session(alice, conversation)
            assert told[conversation]["muteStatus"] is False


async def test_what_ends_at_another_moment_is_not_touched(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("another", clock) as api:
        start = clock.ms
        alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
        for number, friend in enumerate((bob, carol, dave)):
            await api.send(friend, alice)
            await api.mute(alice, private_id(alice, friend), start + 10_000 * (number + 1))
        device = await api.listen(alice, LIVE_SESSIONS)
        for number, friend in enumerate((bob, carol, dave), start=1):
            clock.ms = start + 10_000 * number
            event = await device.next(within=SOON_SECONDS)
            assert [session["conversation"]["title"] for session in event["sessions"]] == [friend]
            assert event["totalUnread"] == number
        await device.expect_no_event(0.3)


async def test_a_device_is_told_though_nothing_could_be_asked_just_then(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with open_api("not to be asked", clock) as api:
        until = clock.ms + 10_000
        alice, _, _ = await muted_talk(api, until)
        device = await api.listen(alice, LIVE_SESSIONS)
        sessions = api.services.app.store.sessions
        attach, failures = sessions.attach, [Unreachable("for a moment")]

        async def failing(*args: Any) -> Any:
            if clock.ms == until and failures:
                raise failures.pop()
            return await attach(*args)

        monkeypatch.setattr(sessions, "attach", failing)
        clock.ms = until
        event = await device.next(within=SOON_SECONDS)
        assert (event["reason"], event["totalUnread"], failures) == ("UNMUTE", 5, [])

"""The end of a timed mute: every query sees it at once, and connected devices receive an event."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.errors import Unreachable
from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, gather_all, private_id, wait_until
from tests.api.conftest import Deployments, OpenApi
from tests.clock import ManualClock


async def sync_sessions(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


async def create_muted_conversation(api: Api, until: int | None, unread: int = 2) -> tuple[str, str, str]:
    """Return alice with a muted conversation and three unread messages elsewhere, bob, and the muted conversation."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for sender, count in ((bob, unread), (carol, 3)):
        for _ in range(count):
            await api.send(sender, alice)
    await api.mute(alice, private_id(alice, bob), until)
    assert await api.total_unread(alice) == 3
    return alice, bob, private_id(alice, bob)


def has_ended(session: Json, until: int) -> bool:
    state = session["muteStatus"], session["mutedUntil"], session["activeTs"], session["unreadCount"]
    return state == (False, None, until, 2)


@pytest.mark.parametrize(
    "late_ms",
    [
        pytest.param(0, id="at the end"),
        pytest.param(1, id="1 ms later", marks=pytest.mark.long),
        pytest.param(15_000, id="15 s later", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("query", ["session", "list", "total", "sync"])
async def test_every_query_sees_the_end_of_a_mute_at_once(open_api: OpenApi, query: str, late_ms: int) -> None:
    clock = ManualClock()
    async with open_api(f"query {query} {late_ms}", clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await create_muted_conversation(api, until)
        cursor = (await sync_sessions(api, alice))["cursor"]
        clock.ms = until - 1
        assert (await sync_sessions(api, alice, cursor))["sessions"] == []
        assert ((await api.own_session(alice, conversation))["muteStatus"], await api.total_unread(alice)) == (True, 3)
        clock.ms = until + late_ms
        match query:
            case "session":
                assert has_ended(await api.own_session(alice, conversation), until)
            case "list":
                assert [s["muteStatus"] for s in await api.sessions(alice)] == [False, False]
            case "total":
                assert await api.total_unread(alice) == 5
        delta = await sync_sessions(api, alice, cursor)
        (session,) = delta["sessions"]
        assert has_ended(session, until)
        assert (delta["totalUnread"], delta["reset"], delta["hasMore"]) == (5, False, False)
        assert await api.session(alice, conversation) == session
        assert session in await api.sessions(alice)
        assert await api.total_unread(alice) == 5
        assert (await sync_sessions(api, alice, delta["cursor"]))["sessions"] == []


@pytest.mark.parametrize("read_before", [True, False], ids=["queried after the loss", "not queried"])
async def test_the_end_of_a_mute_is_seen_after_the_cache_was_lost(
    open_api: OpenApi, deployments: Deployments, read_before: bool
) -> None:
    clock = ManualClock()
    deployment = f"lost {read_before}"
    async with open_api(deployment, clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await create_muted_conversation(api, until)
        cursor = (await sync_sessions(api, alice))["cursor"]
        await api.wait_until_idle()
        deployments.flush_redis(deployment)
        if read_before:
            assert (await api.own_session(alice, conversation))["muteStatus"] is True
            assert await api.total_unread(alice) == 3
        clock.ms = until
        assert await api.total_unread(alice) == 5
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadCount"]) == (False, None, 2)
        assert session["activeTs"] >= until
        delta = await sync_sessions(api, alice, cursor)
        assert session in delta["sessions"]
        assert delta["totalUnread"] == 5


@pytest.mark.parametrize("loss", ["ended before the loss", "ended after the loss"])
async def test_an_ended_mute_stays_ended_after_the_cache_was_lost(
    open_api: OpenApi, deployments: Deployments, loss: str
) -> None:
    clock = ManualClock()
    deployment = f"stays {loss}"
    async with open_api(deployment, clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await create_muted_conversation(api, until)
        if loss == "ended before the loss":
            clock.ms = until + 1_000
            assert await api.total_unread(alice) == 5
            await asyncio.sleep(0.5)
        await api.wait_until_idle()
        deployments.flush_redis(deployment)
        clock.ms = until + 30_000
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadCount"]) == (False, None, 2)
        assert await api.total_unread(alice) == 5
        cursor = (await sync_sessions(api, alice))["cursor"]
        device = await api.listen(alice, LIVE_SESSIONS)
        await device.expect_no_event(0.6)
        assert (await sync_sessions(api, alice, cursor))["sessions"] == []


async def test_a_mute_ends_while_no_server_runs(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("away", clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await create_muted_conversation(api, until)
        cursor = (await sync_sessions(api, alice))["cursor"]
    clock.ms = until + 3_600_000
    async with open_api("away", clock) as api:
        live = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
        event = await live.next()
        assert (event["reason"], event["reset"], event["hasMore"], event["totalUnread"]) == (
            "CATCH_UP",
            False,
            False,
            5,
        )
        (session,) = event["sessions"]
        assert (session["muteStatus"], session["mutedUntil"]) == (False, None)
        assert await api.session(alice, conversation) == session
        await live.expect_no_event(0.6)


async def test_devices_at_both_processes_receive_the_end_once(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("live", clock) as api, open_api("live", clock) as other:
        until = clock.ms + 20_000
        alice, bob, conversation = await create_muted_conversation(api, until)
        devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other, other)]
        silent = [await api.listen(bob, LIVE_SESSIONS), await api.listen(alice)]
        clock.ms = until - 1
        await devices[0].expect_no_event(0.6)
        clock.ms = until + 3
        for device in devices:
            event = await device.next()
            assert (event["reason"], event["totalUnread"]) == ("UNMUTE", 5)
            assert (event["reset"], event["hasMore"]) == (False, False)
            (session,) = event["sessions"]
            assert has_ended(session, until)
        for process in (api, other):
            assert await process.session(alice, conversation) == session
        for device in (*devices, *silent):
            await device.expect_no_event(0.3)
        assert (await sync_sessions(api, alice, event["cursor"]))["sessions"] == []


async def test_a_device_receives_the_end_even_if_others_query_first(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("asked first", clock) as api, open_api("asked first", clock) as other:
        until = clock.ms + 20_000
        alice, _, _ = await create_muted_conversation(api, until)
        devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other)]
        clock.ms = until
        totals = await gather_all(*(process.total_unread(alice) for process in (api, other) * 3))
        assert set(totals) == {5}
        for device in devices:
            event = await device.next()
            assert (event["reason"], event["totalUnread"]) == ("UNMUTE", 5)
            await device.expect_no_event(0.5)


@pytest.mark.parametrize("change", ["a message there", "a message elsewhere", "reading there", "pinning there"])
async def test_the_first_change_after_the_end_sees_the_mute_ended(open_api: OpenApi, change: str) -> None:
    clock = ManualClock()
    async with open_api(f"first {change}", clock) as api:
        until = clock.ms + 20_000
        alice, bob, conversation = await create_muted_conversation(api, until)
        cursor = (await sync_sessions(api, alice))["cursor"]
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
        delta = await sync_sessions(api, alice, cursor)
        session = next(s for s in delta["sessions"] if s["conversation"]["id"] == conversation)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadCount"]) == (False, None, unread)
        assert (delta["totalUnread"], await api.total_unread(alice)) == (total, total)
        reasons = [(await device.next())["reason"]]
        while "UNMUTE" not in reasons:
            reasons.append((await device.next())["reason"])
        await asyncio.sleep(0.7)
        reasons += [event["reason"] for event in device.pop_events()]
        assert reasons.count("UNMUTE") == 1


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
async def test_all_mutes_that_end_at_once_are_sent(open_api: OpenApi, deployments: Deployments, lost: bool) -> None:
    clock = ManualClock()
    deployment = f"at once {lost}"
    async with open_api(deployment, clock) as api, open_api(deployment, clock) as other:
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
            deployments.flush_redis(deployment)
            await api.services.housekeeper.check_redis()
            await other.services.housekeeper.check_redis()
        devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other)]
        neighbour = await other.listen(bystander, LIVE_SESSIONS)
        cursor = (await sync_sessions(api, alice))["cursor"]
        clock.ms = until
        expected = {private_id(alice, friend) for friend in others[:5]}
        for device in devices:
            updated: list[Json] = []
            while len(updated) < 5:
                event = await device.next()
                assert event["reason"] == "UNMUTE"
                updated += event["sessions"]
            assert event["totalUnread"] == 5
            assert {session["conversation"]["id"] for session in updated} == expected
            assert {session["muteStatus"] for session in updated} == {False}
            assert [s["activeTs"] for s in updated] == sorted({s["activeTs"] for s in updated})
            await device.expect_no_event(0.3)
        assert (await neighbour.next())["totalUnread"] == 1
        delta = await sync_sessions(api, alice, cursor)
        assert delta["sessions"] == updated
        assert await api.total_unread(alice) == 5


async def test_a_device_connected_during_a_cache_loss_ends_with_the_right_state(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("there", clock) as api:
        until = clock.ms + 20_000
        alice, _, conversation = await create_muted_conversation(api, until)
        device = await api.listen(alice, LIVE_SESSIONS)
        await api.wait_until_idle()
        deployments.flush_redis("there")
        assert (await device.next())["reset"] is True
        clock.ms = until
        received: Json = {}

        async def updated() -> bool:
            for event in device.pop_events():
                received.update({"total": event["totalUnread"]})
                received.update({session["conversation"]["id"]: session for session in event["sessions"]})
            return received.get("total") == 5

        await wait_until(updated)
        assert received[conversation]["muteStatus"] is False
        assert received[conversation] == await api.session(alice, conversation)


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
async def test_the_mute_of_a_deleted_session_has_ended_when_it_is_revived(open_api: OpenApi, hard: bool) -> None:
    clock = ManualClock()
    async with open_api(f"deleted {hard}", clock) as api:
        until = clock.ms + 20_000
        alice, bob, conversation = await create_muted_conversation(api, until)
        await api.delete(alice, conversation, hard)
        clock.ms = until
        assert await api.total_unread(alice) == 3
        await asyncio.sleep(0.5)
        assert (await api.own_session(alice, conversation))["status"] == "INVALID"
        await api.send(bob, alice)
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["mutedUntil"], session["unreadCount"]) == (False, None, 1)
        assert await api.total_unread(alice) == 4


async def test_a_session_revived_before_the_end_is_still_muted(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("revived", clock) as api:
        until = clock.ms + 20_000
        alice, bob, conversation = await create_muted_conversation(api, until)
        await api.delete(alice, conversation)
        await api.send(bob, alice)
        assert ((await api.own_session(alice, conversation))["muteStatus"], await api.total_unread(alice)) == (True, 3)
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until
        event = await device.next()
        assert (event["reason"], event["totalUnread"]) == ("UNMUTE", 4)


async def test_a_device_at_another_process_receives_the_end(open_api: OpenApi) -> None:
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
        event = await device.next()
        assert (event["reason"], event["totalUnread"], event["sessions"][0]["activeTs"]) == ("UNMUTE", 1, until)
        await device.expect_no_event(0.3)


async def test_devices_of_an_evicted_user_receive_the_end(open_api: OpenApi, deployments: Deployments) -> None:
    clock = ManualClock()
    async with open_api("evicted", clock) as api, open_api("evicted", clock) as other:
        until = clock.ms + 10_000
        alice, _, conversation = await create_muted_conversation(api, until)
        devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other)]
        await api.wait_until_idle()
        deployments.evict_user_state("evicted", alice)
        clock.ms = until
        for device in devices:
            event = await device.next()
            assert event["totalUnread"] == 5
            updated = {session["conversation"]["id"]: session for session in event["sessions"]}
            assert updated[conversation] == await api.session(alice, conversation)
            assert updated[conversation]["muteStatus"] is False


async def test_mutes_with_different_ends_end_one_by_one(open_api: OpenApi) -> None:
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
            event = await device.next()
            assert [session["conversation"]["title"] for session in event["sessions"]] == [friend]
            assert event["totalUnread"] == number
        await device.expect_no_event(0.3)


async def test_a_device_receives_the_end_despite_a_failing_read(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with open_api("failing read", clock) as api:
        until = clock.ms + 10_000
        alice, _, _ = await create_muted_conversation(api, until)
        device = await api.listen(alice, LIVE_SESSIONS)
        sessions = api.services.app.store.sessions
        attach, failures = sessions.attach, [Unreachable("for a moment")]

        async def fail_once(*args: Any) -> Any:
            if clock.ms == until and failures:
                raise failures.pop()
            return await attach(*args)

        monkeypatch.setattr(sessions, "attach", fail_once)
        clock.ms = until
        event = await device.next()
        assert (event["reason"], event["totalUnread"], failures) == ("UNMUTE", 5, [])

"""Incremental synchronisation: what moved since, each once, oldest first, whatever the page size."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import SYNC, Api, Json, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import SESSIONS
from tests.clock import ManualClock


async def sync(api: Api, user: str, since: str | None = None, first: int = 100) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since, first=first))["syncSessions"]
    return delta


async def sync_all(api: Api, user: str, since: str | None, first: int) -> tuple[list[Json], list[Json]]:
    """All parts and all their sessions. Fails where it does not come to an end."""
    parts = [await sync(api, user, since, first)]
    while parts[-1]["hasMore"]:
        assert len(parts) < 40, "it goes on for ever"
        assert len(parts[-1]["sessions"]) == first
        parts.append(await sync(api, user, parts[-1]["cursor"], first))
    return parts, [session for part in parts for session in part["sessions"]]


@pytest.fixture(scope="module")
async def seven(process: Api) -> tuple[str, list[str]]:
    """Somebody with seven sessions: four that moved one by one, three that did in one moment."""
    alice, *others = await process.create_users("alice", *(f"u{number}" for number in range(7)))
    for other in others[:4]:
        await process.send(other, alice)
    await gather_all(*(process.send(other, alice) for other in others[4:]))
    return alice, others


@pytest.mark.parametrize("first", [1, 3, 7, 100])
async def test_parts_of_any_size_make_up_the_whole(api: Api, seven: tuple[str, list[str]], first: int) -> None:
    alice, _ = seven
    parts, sessions = await sync_all(api, alice, None, first)
    whole = await sync(api, alice)
    assert sessions == whole["sessions"]
    assert len(sessions) == 7
    assert [s["activeTs"] for s in sessions] == sorted({s["activeTs"] for s in sessions})
    assert {part["reset"] for part in parts} == {False}
    assert {part["totalUnread"] for part in parts} == {7}
    assert (await sync(api, alice, parts[-1]["cursor"]))["sessions"] == []


@pytest.mark.parametrize("first", [1, 2, 100])
async def test_only_what_changed_since_comes_oldest_change_first(api: Api, first: int) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(5)))
    for other in others:
        await api.send(other, alice)
    cursor = (await sync(api, alice))["cursor"]
    assert (await sync(api, alice, cursor))["sessions"] == []
    await api.mark_read(alice, private_id(alice, others[3]))
    await api.send(others[1], alice)
    await api.send(alice, others[0])
    await api.send(others[1], alice)
    parts, sessions = await sync_all(api, alice, cursor, first)
    assert [session["conversation"]["title"] for session in sessions] == [others[3], others[0], others[1]]
    assert [session["unreadCount"] for session in sessions] == [0, 0, 3]
    assert parts[-1]["totalUnread"] == 5
    assert {part["reset"] for part in parts} == {False}


async def test_a_session_that_moves_between_two_parts_is_not_missed(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(4)))
    for other in others:
        await api.send(other, alice)
    known: dict[str, Json] = {}
    cursor = None
    for other in others:
        part = await sync(api, alice, cursor, 1)
        known |= {session["id"]: session for session in part["sessions"]}
        cursor = part["cursor"]
        await api.send(other, alice)
    while True:
        part = await sync(api, alice, cursor, 1)
        known |= {session["id"]: session for session in part["sessions"]}
        cursor = part["cursor"]
        if not part["hasMore"]:
            break
    assert known == {session["id"]: session for session in await api.sessions(alice)}


@pytest.mark.parametrize("change", ["a message to them", "a message of theirs", "reading"])
async def test_what_happened_right_before_the_cursor_does_not_come_again(api: Api, change: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.sessions(alice)
    await api.send(bob, alice)
    match change:
        case "a message of theirs":
            await api.send(alice, bob)
        case "reading":
            await api.mark_read(alice, private_id(alice, bob))
    for cursor in ((await sync(api, alice))["cursor"], (await api.data(alice, SESSIONS))["sessions"]["cursor"]):
        assert (await sync(api, alice, cursor))["sessions"] == []


async def test_the_cursor_of_a_page_of_the_list_resumes_synchronisation(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    cursor = (await api.data(alice, "{ sessions(first: 1) { cursor } }"))["sessions"]["cursor"]
    assert (await sync(api, alice, cursor))["sessions"] == []
    await api.send(carol, alice)
    delta = await sync(api, alice, cursor)
    assert [session["conversation"]["title"] for session in delta["sessions"]] == [carol]
    assert delta["reset"] is False


async def test_a_cursor_can_be_used_again_and_answers_the_same(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    cursor = (await sync(api, alice))["cursor"]
    await api.send(carol, alice)
    first, second = [await sync(api, alice, cursor) for _ in range(2)]
    assert first == second
    assert len(first["sessions"]) == 1


async def test_a_cursor_is_good_on_another_server(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    cursor = (await sync(api, alice))["cursor"]
    await api.send(bob, alice)
    here, there = await sync(api, alice, cursor), await sync(other_api, alice, cursor)
    assert here == there
    assert (len(here["sessions"]), here["reset"]) == (1, False)


async def test_somebody_who_asks_while_much_happens_ends_with_all_of_it(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    known: dict[str, Json] = {}
    cursor: str | None = None
    async with asyncio.TaskGroup() as tasks:
        sending = [tasks.create_task(api.send(other, alice)) for other in others for _ in range(5)]
        while True:
            done = all(task.done() for task in sending)
            part = await sync(api, alice, cursor, 2)
            for session in part["sessions"]:
                assert session["activeTs"] > known.get(session["id"], {"activeTs": 0})["activeTs"]
                known[session["id"]] = session
            cursor = part["cursor"]
            if done and not part["hasMore"]:
                break
    assert known == {session["id"]: session for session in await api.sessions(alice)}


async def test_a_cursor_from_before_redis_was_lost_misses_nothing(open_api: OpenApi, deployments: Deployments) -> None:
    async with open_api("lost") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        await api.send(bob, alice)
        await api.send(alice, carol)
        cursor = (await sync(api, alice))["cursor"]
        await api.send(bob, alice)
        await api.mark_read(carol, private_id(alice, carol))
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        known = {session["id"]: session for session in (await sync(api, alice, cursor))["sessions"]}
        fresh = {session["id"]: session for session in await api.sessions(alice)}
        assert {known[name]["writeSeq"] for name in fresh} == {1, 2}
        assert known == fresh


# --- time


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
@pytest.mark.parametrize("days", [29.9, 40])
async def test_a_cursor_of_any_age_leads_to_the_present_state(
    open_api: OpenApi, deployments: Deployments, days: float, lost: bool
) -> None:
    clock = ManualClock()
    place = f"days {days} {lost}"
    async with open_api(place, clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        await api.send(bob, alice)
        clock.ms += 1_000
        old = await sync(api, alice)
        known = {session["id"]: session for session in old["sessions"]}
        await api.advance_days(clock, days)
        await api.send(carol, alice)
        await api.mark_read(alice, private_id(alice, bob))
        await api.wait_until_idle()
        if lost:
            deployments.flush_redis(place)
        delta = await sync(api, alice, old["cursor"])
        assert delta["reset"] is (lost and days > 30)
        known = {} if delta["reset"] else known
        known |= {session["id"]: session for session in delta["sessions"]}
        assert known == {session["id"]: session for session in await api.sessions(alice)}
        assert delta["hasMore"] is False


@pytest.mark.parametrize("asked", ["without a cursor", "with one that is too old"])
async def test_sessions_older_than_cursors_are_synchronised_in_parts_too(
    open_api: OpenApi, deployments: Deployments, asked: str
) -> None:
    clock = ManualClock()
    place = f"old {asked}"
    async with open_api(place, clock) as api:
        alice, *others = await api.create_users("alice", "bob", "carol", "dave")
        cursor = (await sync(api, alice))["cursor"] if asked.startswith("with one") else None
        for other in others:
            await api.send(other, alice)
            clock.ms += 1_000
        await api.advance_days(clock, 40)
        await api.wait_until_idle()
        deployments.flush_redis(place)
        parts, sessions = await sync_all(api, alice, cursor, 1)
        assert [session["conversation"]["title"] for session in sessions] == others
        assert parts[0]["reset"] is (cursor is not None)
        assert parts[-1]["hasMore"] is False


async def test_what_a_server_with_a_slow_clock_did_after_redis_was_lost_comes_too(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock, slow = ManualClock(), ManualClock()
    async with open_api("slow", clock) as api, open_api("slow", slow) as other:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        await api.send(bob, alice)
        clock.ms += 60_000
        await api.mark_read(alice, private_id(alice, bob))
        cursor = (await sync(api, alice))["cursor"]
        await api.wait_until_idle()
        deployments.flush_redis("slow")
        await other.send(carol, alice)
        delta = await sync(api, alice, cursor)
        assert carol in {session["conversation"]["title"] for session in delta["sessions"]}
        assert delta["reset"] is False


async def test_a_clock_that_steps_back_hides_nothing(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("back", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        await api.send(bob, alice)
        before = await sync(api, alice)
        clock.ms -= 20_000
        await api.send(carol, alice)
        await api.mark_read(alice, private_id(alice, bob))
        delta = await sync(api, alice, before["cursor"])
        assert [session["conversation"]["title"] for session in delta["sessions"]] == [carol, bob]
        assert all(session["activeTs"] > before["sessions"][0]["activeTs"] for session in delta["sessions"])
        assert delta["reset"] is False

"""syncSessions: everything that changed since a cursor, each session once, oldest change first, for any page size."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import SYNC, Api, Json, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import SESSIONS
from tests.clock import ManualClock


async def sync_sessions(api: Api, user: str, since: str | None = None, first: int = 100) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since, first=first))["syncSessions"]
    return delta


async def sync_all(api: Api, user: str, since: str | None, first: int) -> tuple[list[Json], list[Json]]:
    """Return all pages and all their sessions. Fail if there is no end."""
    pages = [await sync_sessions(api, user, since, first)]
    while pages[-1]["hasMore"]:
        assert len(pages) < 40, "the pages do not end"
        assert len(pages[-1]["sessions"]) == first
        pages.append(await sync_sessions(api, user, pages[-1]["cursor"], first))
    return pages, [session for page in pages for session in page["sessions"]]


@pytest.fixture(scope="module")
async def seven_sessions(process: Api) -> tuple[str, list[str]]:
    """A user with seven sessions: four that changed one by one, and three that changed concurrently."""
    alice, *others = await process.create_users("alice", *(f"u{number}" for number in range(7)))
    for other in others[:4]:
        await process.send(other, alice)
    await gather_all(*(process.send(other, alice) for other in others[4:]))
    return alice, others


@pytest.mark.parametrize("first", [1, 3, 7, 100])
async def test_pages_of_any_size_make_up_all_changes(
    api: Api, seven_sessions: tuple[str, list[str]], first: int
) -> None:
    alice, _ = seven_sessions
    pages, sessions = await sync_all(api, alice, None, first)
    all_at_once = await sync_sessions(api, alice)
    assert sessions == all_at_once["sessions"]
    assert len(sessions) == 7
    assert [s["activeTs"] for s in sessions] == sorted({s["activeTs"] for s in sessions})
    assert {page["reset"] for page in pages} == {False}
    assert {page["totalUnread"] for page in pages} == {7}
    assert (await sync_sessions(api, alice, pages[-1]["cursor"]))["sessions"] == []


@pytest.mark.parametrize("first", [1, 2, 100])
async def test_only_later_changes_are_returned_oldest_first(api: Api, first: int) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(5)))
    for other in others:
        await api.send(other, alice)
    cursor = (await sync_sessions(api, alice))["cursor"]
    assert (await sync_sessions(api, alice, cursor))["sessions"] == []
    await api.mark_read(alice, private_id(alice, others[3]))
    await api.send(others[1], alice)
    await api.send(alice, others[0])
    await api.send(others[1], alice)
    pages, sessions = await sync_all(api, alice, cursor, first)
    assert [session["conversation"]["title"] for session in sessions] == [others[3], others[0], others[1]]
    assert [session["unreadCount"] for session in sessions] == [0, 0, 3]
    assert pages[-1]["totalUnread"] == 5
    assert {page["reset"] for page in pages} == {False}


async def test_a_session_that_changes_between_two_pages_is_not_missed(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(4)))
    for other in others:
        await api.send(other, alice)
    known: dict[str, Json] = {}
    cursor = None
    for other in others:
        page = await sync_sessions(api, alice, cursor, 1)
        known |= {session["id"]: session for session in page["sessions"]}
        cursor = page["cursor"]
        await api.send(other, alice)
    while True:
        page = await sync_sessions(api, alice, cursor, 1)
        known |= {session["id"]: session for session in page["sessions"]}
        cursor = page["cursor"]
        if not page["hasMore"]:
            break
    assert known == {session["id"]: session for session in await api.sessions(alice)}


@pytest.mark.parametrize("change", ["a received message", "a sent message", "reading"])
async def test_the_last_change_before_the_cursor_is_not_returned_again(api: Api, change: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.sessions(alice)
    await api.send(bob, alice)
    match change:
        case "a sent message":
            await api.send(alice, bob)
        case "reading":
            await api.mark_read(alice, private_id(alice, bob))
    for cursor in (
        (await sync_sessions(api, alice))["cursor"],
        (await api.data(alice, SESSIONS))["sessions"]["cursor"],
    ):
        assert (await sync_sessions(api, alice, cursor))["sessions"] == []


async def test_the_cursor_of_the_session_list_resumes_synchronisation(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    cursor = (await api.data(alice, "{ sessions(first: 1) { cursor } }"))["sessions"]["cursor"]
    assert (await sync_sessions(api, alice, cursor))["sessions"] == []
    await api.send(carol, alice)
    delta = await sync_sessions(api, alice, cursor)
    assert [session["conversation"]["title"] for session in delta["sessions"]] == [carol]
    assert delta["reset"] is False


async def test_a_cursor_can_be_used_twice_with_the_same_result(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    cursor = (await sync_sessions(api, alice))["cursor"]
    await api.send(carol, alice)
    first, second = [await sync_sessions(api, alice, cursor) for _ in range(2)]
    assert first == second
    assert len(first["sessions"]) == 1


async def test_a_cursor_is_valid_at_another_server(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    cursor = (await sync_sessions(api, alice))["cursor"]
    await api.send(bob, alice)
    first_answer, second_answer = await sync_sessions(api, alice, cursor), await sync_sessions(other_api, alice, cursor)
    assert first_answer == second_answer
    assert (len(first_answer["sessions"]), first_answer["reset"]) == (1, False)


async def test_synchronising_during_many_changes_ends_complete(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    known: dict[str, Json] = {}
    cursor: str | None = None
    async with asyncio.TaskGroup() as tasks:
        sends = [tasks.create_task(api.send(other, alice)) for other in others for _ in range(5)]
        while True:
            done = all(task.done() for task in sends)
            page = await sync_sessions(api, alice, cursor, 2)
            for session in page["sessions"]:
                assert session["activeTs"] > known.get(session["id"], {"activeTs": 0})["activeTs"]
                known[session["id"]] = session
            cursor = page["cursor"]
            if done and not page["hasMore"]:
                break
    assert known == {session["id"]: session for session in await api.sessions(alice)}


async def test_a_cursor_from_before_a_redis_loss_misses_nothing(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    await api.send(alice, carol)
    cursor = (await sync_sessions(api, alice))["cursor"]
    await api.send(bob, alice)
    await api.mark_read(carol, private_id(alice, carol))
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    known = {session["id"]: session for session in (await sync_sessions(api, alice, cursor))["sessions"]}
    fresh = {session["id"]: session for session in await api.sessions(alice)}
    assert {known[name]["writeSeq"] for name in fresh} == {1, 2}
    assert known == fresh


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
@pytest.mark.parametrize("days", [29.9, 40])
async def test_a_cursor_of_any_age_leads_to_the_present_state(
    open_api: OpenApi, deployments: Deployments, days: float, lost: bool
) -> None:
    clock = ManualClock()
    deployment = f"days {days} {lost}"
    async with open_api(deployment, clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        await api.send(bob, alice)
        clock.ms += 1_000
        old = await sync_sessions(api, alice)
        known = {session["id"]: session for session in old["sessions"]}
        await api.advance_days(clock, days)
        await api.send(carol, alice)
        await api.mark_read(alice, private_id(alice, bob))
        await api.wait_until_idle()
        if lost:
            deployments.flush_redis(deployment)
        delta = await sync_sessions(api, alice, old["cursor"])
        assert delta["reset"] is (lost and days > 30)
        known = {} if delta["reset"] else known
        known |= {session["id"]: session for session in delta["sessions"]}
        assert known == {session["id"]: session for session in await api.sessions(alice)}
        assert delta["hasMore"] is False


@pytest.mark.parametrize("cursor_kind", ["no cursor", "expired cursor"])
async def test_sessions_older_than_any_cursor_are_synchronised_in_pages(
    open_api: OpenApi, deployments: Deployments, cursor_kind: str
) -> None:
    clock = ManualClock()
    deployment = f"old {cursor_kind}"
    async with open_api(deployment, clock) as api:
        alice, *others = await api.create_users("alice", "bob", "carol", "dave")
        cursor = (await sync_sessions(api, alice))["cursor"] if cursor_kind == "expired cursor" else None
        for other in others:
            await api.send(other, alice)
            clock.ms += 1_000
        await api.advance_days(clock, 40)
        await api.wait_until_idle()
        deployments.flush_redis(deployment)
        pages, sessions = await sync_all(api, alice, cursor, 1)
        assert [session["conversation"]["title"] for session in sessions] == others
        assert pages[0]["reset"] is (cursor is not None)
        assert pages[-1]["hasMore"] is False


async def test_a_change_by_a_server_with_a_slow_clock_is_not_missed(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock, slow_clock = ManualClock(), ManualClock()
    async with open_api("slow", clock) as api, open_api("slow", slow_clock) as other:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        await api.send(bob, alice)
        clock.ms += 60_000
        await api.mark_read(alice, private_id(alice, bob))
        cursor = (await sync_sessions(api, alice))["cursor"]
        await api.wait_until_idle()
        deployments.flush_redis("slow")
        await other.send(carol, alice)
        delta = await sync_sessions(api, alice, cursor)
        assert carol in {session["conversation"]["title"] for session in delta["sessions"]}
        assert delta["reset"] is False


async def test_a_clock_that_steps_back_hides_no_change(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("back", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        await api.send(bob, alice)
        before = await sync_sessions(api, alice)
        clock.ms -= 20_000
        await api.send(carol, alice)
        await api.mark_read(alice, private_id(alice, bob))
        delta = await sync_sessions(api, alice, before["cursor"])
        assert [session["conversation"]["title"] for session in delta["sessions"]] == [carol, bob]
        assert all(session["activeTs"] > before["sessions"][0]["activeTs"] for session in delta["sessions"])
        assert delta["reset"] is False

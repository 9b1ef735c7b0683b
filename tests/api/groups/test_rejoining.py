"""Groups that one was in more than once, histories that open and close, and what a lost cache changes: nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from tests.api.client import HISTORY, SEND, SYNC, Api, Json, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.groups.test_leaving import WAYS, Way, either, seqs, talk
from tests.api.sessions.test_session_cache_loss import different
from tests.clock import ManualClock

STAYS = [(1, 3), (6, 9), (12, None)]
"""When bob is in the group of `in_and_out`: he joins at 6 and 12, and 4 and 10 tell that he goes."""


async def in_and_out(api: Api, **group: object) -> tuple[str, str, str, str]:
    """A group of 14 messages that bob left twice, once by himself. Answers the owner, bob, another, and the group."""
    alice, bob, carol, made = await talk(api, **group)
    await api.leave(bob, made)
    await api.send(carol, made, "5")
    await api.invite(carol, made, bob)
    for number in range(7, 10):
        await api.send(carol, made, f"{number}")
    await api.remove(alice, made, bob)
    await api.send(carol, made, "11")
    await api.invite(alice, made, bob)
    for number in (13, 14):
        await api.send(carol, made, f"{number}")
    return alice, bob, carol, made


def within(stays: list[tuple[int, int | None]], newest: int = 14) -> list[int]:
    return [seq for first, last in stays for seq in range(first, (last or newest) + 1)]


async def test_who_was_in_it_several_times_reads_those_times_only(api: Api) -> None:
    alice, bob, carol, group = await in_and_out(api)
    assert await api.ranges(bob, group) == STAYS
    assert await seqs(api, bob, group) == within(STAYS)
    assert await seqs(api, alice, group) == await seqs(api, carol, group) == list(range(1, 15))
    await api.leave(bob, group)
    closed = [*STAYS[:2], (12, 14)]
    assert await api.ranges(bob, group) == closed
    assert await seqs(api, bob, group) == within(closed)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 10, 100])
async def test_pages_of_any_size_step_over_the_gaps_in_both_directions(
    api: Api, stays: tuple[str, str], size: int
) -> None:
    bob, group = stays
    expected = within(STAYS)
    for back in (False, True):
        found: list[int] = []
        cursor = None
        while True:
            asked = {"last": size, "before": cursor} if back else {"first": size, "after": cursor}
            listed = (await api.data(bob, HISTORY, id=group, **asked))["messages"]
            here = [edge["node"]["seq"] for edge in listed["edges"]]
            assert here == sorted(here)
            found = here + found if back else found + here
            info = listed["pageInfo"]
            cursor = info["startCursor" if back else "endCursor"]
            if not info["hasPreviousPage" if back else "hasNextPage"]:
                break
            assert len(here) == size
        assert found == expected


@pytest.fixture(scope="module")
async def stays(process: Api) -> tuple[str, str]:
    _, bob, _, group = await in_and_out(process)
    return bob, group


async def test_cursors_of_another_s_history_lead_into_one_s_own(api: Api) -> None:
    alice, bob, _, group = await in_and_out(api)
    edges = (await api.data(alice, HISTORY, id=group, first=100))["messages"]["edges"]
    hidden = edges[4]["cursor"]
    after = (await api.data(bob, HISTORY, id=group, first=100, after=hidden))["messages"]["edges"]
    before = (await api.data(bob, HISTORY, id=group, last=100, before=hidden))["messages"]["edges"]
    assert [edge["node"]["seq"] for edge in before] == [1, 2, 3]
    assert [edge["node"]["seq"] for edge in after] == within(STAYS)[3:]


@either
@pytest.mark.parametrize("visibility", ["SINCE_JOIN", "FULL"])
async def test_who_joins_again_starts_with_nothing_unread_and_what_they_chose(
    api: Api, go: Way, visibility: str
) -> None:
    alice, bob, carol, group = await talk(api, historyVisibility=visibility)
    await api.pin(bob, group, 5)
    await api.mute(bob, group)
    await api.assign(bob, "work", group)
    await go(api, alice, group, bob)
    for number in range(2):
        await api.send(carol, group, f"without {number}", mentions=[alice])
    frozen = await api.own_session(bob, group)
    assert (frozen["unreadCount"], frozen["writeSeq"]) == (3, 3)
    await api.invite(carol, group, bob)
    session = await api.own_session(bob, group)
    assert (session["status"], session["unreadCount"], session["unreadMentionCount"]) == ("ACTIVE", 0, 0)
    assert (session["writeSeq"], session["readSeq"], session["deliveredSeq"]) == (7, 7, 7)
    assert (session["priority"], session["muteStatus"], session["categoryId"]) == (5, True, "work")
    assert session["activeTs"] > frozen["activeTs"]
    await api.unmute(bob, group)
    await api.send(alice, group, "welcome back", mentions=[bob])
    again = await api.own_session(bob, group)
    assert (again["unreadCount"], again["unreadMentionCount"], await api.total_unread(bob)) == (1, 1, 1)
    assert (await api.own_group(bob, group))["viewerRole"] == "MEMBER"


@either
async def test_who_joins_again_has_it_in_the_list_again_though_it_was_deleted(api: Api, go: Way) -> None:
    alice, bob, _, group = await talk(api)
    await go(api, alice, group, bob)
    await api.delete(bob, group)
    await api.invite(alice, group, bob)
    assert [session["conversation"]["id"] for session in await api.sessions(bob)] == [group]
    assert (await api.own_session(bob, group))["status"] == "ACTIVE"


async def test_an_admin_who_comes_back_is_a_member(api: Api) -> None:
    alice, bob, carol, group = await talk(api)
    await api.set_role(alice, group, bob, "ADMIN")
    await api.leave(bob, group)
    await api.invite(carol, group, bob)
    assert await api.roles(bob, group) == {alice: "OWNER", bob: "MEMBER", carol: "MEMBER"}


# --- FULL


async def test_with_full_history_who_comes_back_reads_what_was_said_in_between_and_who_goes_what_was_until_then(
    api: Api,
) -> None:
    alice, bob, carol, group = await in_and_out(api, historyVisibility="FULL")
    assert await api.ranges(bob, group) == [(1, None)]
    assert await seqs(api, bob, group) == list(range(1, 15))
    await api.leave(bob, group)
    await api.send(carol, group, "without bob")
    assert await api.ranges(bob, group) == [(1, 14)]
    assert await seqs(api, bob, group) == list(range(1, 15))
    assert await api.ranges(alice, group) == [(1, None)]


async def test_opening_and_closing_the_history_takes_effect_at_once_on_all(
    api: Api, other_api: Api, deployments: Deployments
) -> None:
    alice, bob, carol, group = await in_and_out(api)
    dave, erin = await api.create_users("dave", "erin")
    await api.invite(alice, group, dave, erin)
    await api.leave(erin, group)
    since_join = {
        alice: [(1, None)],
        bob: STAYS,
        carol: [(1, None)],
        dave: [(15, None)],
        erin: [(15, 15)],
    }
    full: dict[str, list[tuple[int, int | None]]] = {user: [(1, None)] for user in since_join} | {erin: [(1, 15)]}
    for number, expected in enumerate((since_join, full, since_join, full)):
        if number:
            shown = await (api, other_api)[number % 2].update_group(
                alice, group, historyVisibility="FULL" if number % 2 else "SINCE_JOIN"
            )
            assert shown["historyVisibility"] == ("FULL" if number % 2 else "SINCE_JOIN")
        for process in (api, other_api):
            for user, ranges in expected.items():
                assert await process.ranges(user, group) == ranges, user
                assert await seqs(process, user, group) == within(ranges, 16)
        deployments.flush_redis("main")
        assert {user: await api.ranges(user, group) for user in expected} == expected


async def test_opening_the_history_makes_nothing_unread(api: Api) -> None:
    alice, bob, carol, group = await talk(api)
    (dave,) = await api.create_users("dave")
    await api.invite(alice, group, dave)
    await api.leave(bob, group)
    sessions = [await api.own_session(user, group) for user in (alice, bob, carol, dave)]
    await api.update_group(alice, group, historyVisibility="FULL")
    assert [await api.own_session(user, group) for user in (alice, bob, carol, dave)] == sessions
    assert (await api.own_session(dave, group))["unreadCount"] == 0


# --- a lost cache


async def whole(api: Api, user: str, group: str) -> Json:
    """All that a client can show of somebody's list and of one group."""
    return {
        "listed": await api.all_sessions(user),
        "order": list(await api.all_sessions(user)),
        "session": await api.session(user, group),
        "group": await api.group(user, group),
        "history": await api.history(user, group),
        "total": await api.total_unread(user),
        "folders": await api.categories(user),
        "work": await api.sessions(user, category="work"),
    }


@dataclass(frozen=True)
class Clocks:
    """The places on the clock in what was shown, and the rest of it."""

    places: list[int]
    rest: Json

    @classmethod
    def of(cls, shown: Json) -> Clocks:
        places: list[int] = []

        def without(value: object) -> object:
            if isinstance(value, dict):
                if "activeTs" in value:
                    places.append(value["activeTs"])
                return {name: without(part) for name, part in value.items() if name != "activeTs"}
            return [without(part) for part in value] if isinstance(value, list) else value

        rest = without(shown)
        assert isinstance(rest, dict)
        return cls(places, rest)


@either
@pytest.mark.parametrize("sub_biz", [None, "shop"])
@pytest.mark.parametrize("then", ["nothing", "reading in part", "choices", "deleting", "coming back"])
async def test_what_is_left_is_shown_alike_after_the_cache_was_lost(
    api: Api, deployments: Deployments, go: Way, sub_biz: str | None, then: str
) -> None:
    alice, bob, carol, group = await talk(api, subBiz=sub_biz)
    # In use from here on: what is shown before the loss was not read from MongoDB afterwards.
    await gather_all(*(api.total_unread(user) for user in (alice, bob, carol)))
    await api.send(alice, group, "you", mentions=[bob])
    await api.send(carol, group, "all of you")
    await api.send(carol, bob, "aside", subBiz=sub_biz)
    await go(api, alice, group, bob)
    await api.send(carol, group, "without bob")
    match then:
        case "reading in part":
            await api.mark_read(bob, group, 2)
        case "choices":
            await api.pin(bob, group, 2)
            await api.assign(bob, "work", group)
            await api.set_unread(bob, group)
        case "deleting":
            await api.delete(bob, group)
        case "coming back":
            await api.invite(alice, group, bob)
            await api.send(carol, group, "hello again")
    await api.send(alice, group, "and on")
    await api.wait_until_idle()
    before = [Clocks.of(await whole(api, user, group)) for user in (alice, bob, carol)]
    deployments.flush_redis("main")
    after = [Clocks.of(await whole(api, user, group)) for user in (alice, bob, carol)]
    for one, other in zip(before, after, strict=True):
        assert different(one.rest, other.rest) == {}
        assert all(now >= was for was, now in zip(one.places, other.places, strict=True))
    # It goes on from there as if nothing had been lost.
    await api.send(alice, group, "after the loss")
    gone = then != "coming back"
    assert ((await api.history(bob, group))[-1]["content"] == "after the loss") is not gone
    assert ((await api.own_session(bob, group))["lastMessage"]["content"] == "after the loss") is not gone


@either
async def test_what_is_left_after_going_while_others_write_is_shown_alike_after_a_loss(
    api: Api, deployments: Deployments, go: Way
) -> None:
    for turn in range(8):
        alice, bob, carol, group = await talk(api)
        send = {"input": {"conversationId": group, "content": "at once"}}
        sending = [api.run(user, SEND, **send) for user in (bob, alice, carol)]
        at = turn % 3
        await gather_all(*sending[:at], go(api, alice, group, bob), *sending[at:])
        await api.wait_until_idle()
        before = Clocks.of(await whole(api, bob, group))
        deployments.flush_redis("main")
        after = Clocks.of(await whole(api, bob, group))
        assert different(before.rest, after.rest) == {}


@either
@pytest.mark.parametrize("lost", [False, True], ids=["about", "lost"])
async def test_a_refused_write_of_who_went_stays_refused_after_a_loss(
    api: Api, deployments: Deployments, go: Way, lost: bool
) -> None:
    alice, bob, _, group = await talk(api)
    await go(api, alice, group, bob)
    await api.wait_until_idle()
    if lost:
        deployments.flush_redis("main")
    stored = await api.stored_documents()
    assert (await api.expect_send_refusal(bob, group)).code == "NOT_A_MEMBER"
    assert await api.stored_documents() == stored


async def test_what_was_written_before_one_joined_moves_nothing_of_one_s_own_though_it_was_durable_only_afterwards(
    api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.total_unread(dave)
    go_on, delivery = asyncio.Event(), api.services.app.delivery
    commit = delivery.commit_stage._commit_messages

    async def late(batch: Any) -> None:
        await go_on.wait()
        await commit(batch)

    monkeypatch.setattr(delivery.commit_stage, "_commit_messages", late)
    sending = asyncio.create_task(api.send(carol, group, "before Dave"))
    await asyncio.sleep(0.1)
    await api.invite(alice, group, dave)
    go_on.set()
    assert (await sending)["message"]["seq"] == 1
    await api.wait_until_idle()
    before = await api.own_session(dave, group)
    assert (before["writeSeq"], before["unreadCount"], await api.ranges(dave, group)) == (2, 0, [(2, None)])
    deployments.evict_user_state("main", dave)
    after = await api.own_session(dave, group)
    assert after == before | {"activeTs": after["activeTs"]}


@either
@pytest.mark.parametrize("lost", ["before", "afterwards"])
async def test_a_client_that_was_away_for_long_learns_that_one_went_and_came_back_though_the_cache_was_lost(
    open_api: OpenApi, deployments: Deployments, go: Way, lost: str
) -> None:
    place, clock = f"away {lost}", ManualClock()
    async with open_api(place, clock) as api:
        alice, bob, _, group = await talk(api)
        for back in (False, True):
            await api.wait_until_idle()
            await api.advance_days(clock, 0.01)
            since = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
            if lost == "before":
                deployments.flush_redis(place)
            await api.advance_days(clock, 0.01)
            await (api.invite(alice, group, bob) if back else go(api, alice, group, bob))
            await api.wait_until_idle()
            if lost == "afterwards":
                deployments.flush_redis(place)
            await api.advance_days(clock, 0.01)
            missed = (await api.data(bob, SYNC, since=since))["syncSessions"]
            told = [session["conversation"]["id"] for session in missed["sessions"]]
            assert (missed["reset"], told) == (False, [group])


# --- devices

GOINGS = {
    **WAYS,
    "coming back": lambda api, owner, group, user: _there_and_back(api, owner, group, user),
}


async def _there_and_back(api: Api, owner: str, group: str, user: str) -> None:
    await api.leave(user, group)
    await api.send(owner, group, "meanwhile")
    await api.invite(owner, group, user)
    await api.send(owner, group, "hello again", mentions=[user])


@pytest.mark.parametrize("away", [False, True], ids=["live", "away"])
@pytest.mark.parametrize("sub_biz", [None, "shop"])
@pytest.mark.parametrize("go", GOINGS.values(), ids=GOINGS.keys())
async def test_what_a_device_shows_of_it_is_what_a_fresh_one_would(
    api: Api, other_api: Api, go: Way, sub_biz: str | None, away: bool
) -> None:
    alice, bob, carol, group = await talk(api, subBiz=sub_biz)
    devices = [ApiDevice(process, user) for process in (api, other_api) for user in (alice, bob, carol)]
    for device in devices:
        await device.start()
    if away:
        for device in devices:
            await device.stop()
    await api.send(carol, group, "before")
    await go(api, alice, group, bob)
    await other_api.send(carol, group, "after")
    await api.mark_read(alice, group)
    await api.wait_until_idle()
    for device in devices:
        if away:
            await device.resume(other_api)
        await device.agrees()

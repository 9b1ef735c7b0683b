"""Members who left and joined again: visible ranges, history visibility, and survival of a cache loss."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tests.api.client import HISTORY, SEND, SYNC, Api, Json, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.groups.departures import DEPARTURES, Departure, both_departures, create_group_with_messages, read_seqs
from tests.api.json_differences import differences
from tests.api.paused_step import PausedStep
from tests.clock import ManualClock

INTERVALS = [(1, 3), (6, 9), (12, None)]
"""bob's membership intervals in the group of `create_rejoined_group`.

He joins at 6 and 12; the SYSTEM messages 4 and 10 announce his departures.
"""


async def create_rejoined_group(api: Api, **fields: object) -> tuple[str, str, str, str]:
    """Create a group of 14 messages that bob left twice.

    Returns:
        The owner, bob, another member, and the group.
    """
    alice, bob, carol, group = await create_group_with_messages(api, **fields)
    await api.leave(bob, group)
    await api.send(carol, group, "5")
    await api.invite(carol, group, bob)
    for number in range(7, 10):
        await api.send(carol, group, f"{number}")
    await api.remove(alice, group, bob)
    await api.send(carol, group, "11")
    await api.invite(alice, group, bob)
    for number in (13, 14):
        await api.send(carol, group, f"{number}")
    return alice, bob, carol, group


def seqs_within(rejoined_member: list[tuple[int, int | None]], newest: int = 14) -> list[int]:
    return [seq for first, last in rejoined_member for seq in range(first, (last or newest) + 1)]


async def test_a_rejoined_member_reads_only_their_intervals(api: Api) -> None:
    alice, bob, carol, group = await create_rejoined_group(api)
    assert await api.ranges(bob, group) == INTERVALS
    assert await read_seqs(api, bob, group) == seqs_within(INTERVALS)
    assert await read_seqs(api, alice, group) == await read_seqs(api, carol, group) == list(range(1, 15))
    await api.leave(bob, group)
    closed = [*INTERVALS[:2], (12, 14)]
    assert await api.ranges(bob, group) == closed
    assert await read_seqs(api, bob, group) == seqs_within(closed)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 10, 100])
async def test_pages_of_any_size_skip_the_gaps_in_both_directions(
    api: Api, rejoined_member: tuple[str, str], size: int
) -> None:
    bob, group = rejoined_member
    expected = seqs_within(INTERVALS)
    for returns in (False, True):
        read: list[int] = []
        cursor = None
        while True:
            arguments = {"last": size, "before": cursor} if returns else {"first": size, "after": cursor}
            listed = (await api.data(bob, HISTORY, id=group, **arguments))["messages"]
            page_seqs = [edge["node"]["seq"] for edge in listed["edges"]]
            assert page_seqs == sorted(page_seqs)
            read = page_seqs + read if returns else read + page_seqs
            info = listed["pageInfo"]
            cursor = info["startCursor" if returns else "endCursor"]
            if not info["hasPreviousPage" if returns else "hasNextPage"]:
                break
            assert len(page_seqs) == size
        assert read == expected


@pytest.fixture(scope="module")
async def rejoined_member(process: Api) -> tuple[str, str]:
    _, bob, _, group = await create_rejoined_group(process)
    return bob, group


async def test_cursors_of_another_users_history_give_only_ones_own(api: Api) -> None:
    alice, bob, _, group = await create_rejoined_group(api)
    edges = (await api.data(alice, HISTORY, id=group, first=100))["messages"]["edges"]
    hidden_cursor = edges[4]["cursor"]
    after = (await api.data(bob, HISTORY, id=group, first=100, after=hidden_cursor))["messages"]["edges"]
    before = (await api.data(bob, HISTORY, id=group, last=100, before=hidden_cursor))["messages"]["edges"]
    assert [edge["node"]["seq"] for edge in before] == [1, 2, 3]
    assert [edge["node"]["seq"] for edge in after] == seqs_within(INTERVALS)[3:]


@both_departures
@pytest.mark.parametrize("visibility", ["SINCE_JOIN", "FULL"])
async def test_a_rejoined_member_has_nothing_unread_and_keeps_settings(
    api: Api, depart: Departure, visibility: str
) -> None:
    alice, bob, carol, group = await create_group_with_messages(api, historyVisibility=visibility)
    await api.pin(bob, group, 5)
    await api.mute(bob, group)
    await api.assign(bob, "work", group)
    await depart(api, alice, group, bob)
    for number in range(2):
        await api.send(carol, group, f"without {number}", mentions=[alice])
    frozen_session = await api.own_session(bob, group)
    assert (frozen_session["unreadCount"], frozen_session["writeSeq"]) == (3, 3)
    await api.invite(carol, group, bob)
    session = await api.own_session(bob, group)
    assert (session["status"], session["unreadCount"], session["unreadMentionCount"]) == ("ACTIVE", 0, 0)
    assert (session["writeSeq"], session["readSeq"], session["deliveredSeq"]) == (7, 7, 7)
    assert (session["priority"], session["muteStatus"], session["categoryId"]) == (5, True, "work")
    assert session["activeTs"] > frozen_session["activeTs"]
    await api.unmute(bob, group)
    await api.send(alice, group, "welcome back", mentions=[bob])
    session_again = await api.own_session(bob, group)
    assert (session_again["unreadCount"], session_again["unreadMentionCount"], await api.total_unread(bob)) == (1, 1, 1)
    assert (await api.own_group(bob, group))["viewerRole"] == "MEMBER"


@both_departures
async def test_joining_again_revives_a_deleted_session(api: Api, depart: Departure) -> None:
    alice, bob, _, group = await create_group_with_messages(api)
    await depart(api, alice, group, bob)
    await api.delete(bob, group)
    await api.invite(alice, group, bob)
    assert [session["conversation"]["id"] for session in await api.sessions(bob)] == [group]
    assert (await api.own_session(bob, group))["status"] == "ACTIVE"


async def test_an_admin_who_joins_again_is_a_member(api: Api) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    await api.set_role(alice, group, bob, "ADMIN")
    await api.leave(bob, group)
    await api.invite(carol, group, bob)
    assert await api.roles(bob, group) == {alice: "OWNER", bob: "MEMBER", carol: "MEMBER"}


async def test_with_full_history_a_rejoined_member_also_reads_the_gaps(
    api: Api,
) -> None:
    alice, bob, carol, group = await create_rejoined_group(api, historyVisibility="FULL")
    assert await api.ranges(bob, group) == [(1, None)]
    assert await read_seqs(api, bob, group) == list(range(1, 15))
    await api.leave(bob, group)
    await api.send(carol, group, "without bob")
    assert await api.ranges(bob, group) == [(1, 14)]
    assert await read_seqs(api, bob, group) == list(range(1, 15))
    assert await api.ranges(alice, group) == [(1, None)]


async def test_a_new_history_visibility_applies_to_everybody_at_once(
    api: Api, other_api: Api, deployments: Deployments
) -> None:
    alice, bob, carol, group = await create_rejoined_group(api)
    dave, erin = await api.create_users("dave", "erin")
    await api.invite(alice, group, dave, erin)
    await api.leave(erin, group)
    since_join = {
        alice: [(1, None)],
        bob: INTERVALS,
        carol: [(1, None)],
        dave: [(15, None)],
        erin: [(15, 15)],
    }
    full: dict[str, list[tuple[int, int | None]]] = {user: [(1, None)] for user in since_join} | {erin: [(1, 15)]}
    for number, expected in enumerate((since_join, full, since_join, full)):
        if number:
            returned_group = await (api, other_api)[number % 2].update_group(
                alice, group, historyVisibility="FULL" if number % 2 else "SINCE_JOIN"
            )
            assert returned_group["historyVisibility"] == ("FULL" if number % 2 else "SINCE_JOIN")
        for process in (api, other_api):
            for user, ranges in expected.items():
                assert await process.ranges(user, group) == ranges, user
                assert await read_seqs(process, user, group) == seqs_within(ranges, 16)
        deployments.flush_redis("main")
        assert {user: await api.ranges(user, group) for user in expected} == expected


async def test_full_history_visibility_makes_nothing_unread(api: Api) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    (dave,) = await api.create_users("dave")
    await api.invite(alice, group, dave)
    await api.leave(bob, group)
    sessions = {user: await api.own_session(user, group) for user in (alice, bob, carol, dave)}
    await api.update_group(alice, group, historyVisibility="FULL")
    for user, before in sessions.items():
        after = await api.own_session(user, group)
        assert after == before | {"activeTs": after["activeTs"]}
    assert (await api.own_session(dave, group))["unreadCount"] == 0


async def read_everything(api: Api, user: str, group: str) -> Json:
    """Return everything that a client can show of a user's sessions and of one group."""
    return {
        "listed": await api.all_sessions(user),
        "order": list(await api.all_sessions(user)),
        "session": await api.session(user, group),
        "group": await api.group(user, group),
        "history": await api.history(user, group),
        "total": await api.total_unread(user),
        "categories": await api.categories(user),
        "work": await api.sessions(user, category="work"),
    }


@dataclass(frozen=True)
class ClientView:
    """The values of `activeTs` in what a client shows, and everything else."""

    active_ts: list[int]
    rest: Json

    @classmethod
    def from_json(cls, returned_group: Json) -> ClientView:
        active_ts: list[int] = []

        def remove_active_ts(value: object) -> object:
            if isinstance(value, dict):
                if "activeTs" in value:
                    active_ts.append(value["activeTs"])
                return {name: remove_active_ts(item) for name, item in value.items() if name != "activeTs"}
            return [remove_active_ts(item) for item in value] if isinstance(value, list) else value

        rest = remove_active_ts(returned_group)
        assert isinstance(rest, dict)
        return cls(active_ts, rest)


@pytest.mark.parametrize(
    "depart",
    [DEPARTURES["leaving"], pytest.param(DEPARTURES["being removed"], marks=pytest.mark.long)],
    ids=["leaving", "being removed"],
)
@pytest.mark.parametrize("sub_biz", [pytest.param(None, marks=pytest.mark.long), "shop"])
@pytest.mark.parametrize("change", ["nothing", "reading in part", "settings", "deleting", "joining again"])
async def test_the_view_of_a_former_member_survives_the_loss_of_the_cache(
    api: Api, deployments: Deployments, depart: Departure, sub_biz: str | None, change: str
) -> None:
    alice, bob, carol, group = await create_group_with_messages(api, subBiz=sub_biz)
    # Load the states now, so that the views before the loss do not come from MongoDB.
    await gather_all(*(api.total_unread(user) for user in (alice, bob, carol)))
    await api.send(alice, group, "you", mentions=[bob])
    await api.send(carol, group, "all of you")
    await api.send(carol, bob, "aside", subBiz=sub_biz)
    await depart(api, alice, group, bob)
    await api.send(carol, group, "without bob")
    match change:
        case "reading in part":
            await api.mark_read(bob, group, 2)
        case "settings":
            await api.pin(bob, group, 2)
            await api.assign(bob, "work", group)
            await api.set_unread(bob, group)
        case "deleting":
            await api.delete(bob, group)
        case "joining again":
            await api.invite(alice, group, bob)
            await api.send(carol, group, "hello again")
    await api.send(alice, group, "and on")
    await api.wait_until_idle()
    before = [ClientView.from_json(await read_everything(api, user, group)) for user in (alice, bob, carol)]
    deployments.flush_redis("main")
    after = [ClientView.from_json(await read_everything(api, user, group)) for user in (alice, bob, carol)]
    for first, second in zip(before, after, strict=True):
        assert differences(first.rest, second.rest) == {}
        assert all(later >= earlier for earlier, later in zip(first.active_ts, second.active_ts, strict=True))
    # The conversation continues as if nothing had been lost.
    await api.send(alice, group, "after the loss")
    is_former = change != "joining again"
    assert ((await api.history(bob, group))[-1]["content"] == "after the loss") is not is_former
    assert ((await api.own_session(bob, group))["lastMessage"]["content"] == "after the loss") is not is_former


@both_departures
async def test_a_departure_during_messages_survives_the_loss_of_the_cache(
    api: Api, deployments: Deployments, depart: Departure
) -> None:
    for turn in range(3):
        alice, bob, carol, group = await create_group_with_messages(api)
        send = {"input": {"conversationId": group, "content": "at once"}}
        sends = [api.run(user, SEND, **send) for user in (bob, alice, carol)]
        position = turn % 3
        await gather_all(*sends[:position], depart(api, alice, group, bob), *sends[position:])
        await api.wait_until_idle()
        before = ClientView.from_json(await read_everything(api, bob, group))
        deployments.flush_redis("main")
        after = ClientView.from_json(await read_everything(api, bob, group))
        assert differences(before.rest, after.rest) == {}


@both_departures
@pytest.mark.parametrize("lost", [False, True], ids=["cached", "lost"])
async def test_a_former_member_cannot_write_after_a_loss(
    api: Api, deployments: Deployments, depart: Departure, lost: bool
) -> None:
    alice, bob, _, group = await create_group_with_messages(api)
    await depart(api, alice, group, bob)
    await api.wait_until_idle()
    if lost:
        deployments.flush_redis("main")
    stored = await api.stored_hashes()
    assert (await api.expect_send_refusal(bob, group)).code == "NOT_A_MEMBER"
    assert await api.stored_hashes() == stored


async def test_an_earlier_message_committed_after_a_join_changes_nothing(
    api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.total_unread(dave)
    paused = PausedStep(api.services.app.delivery.commit_stage, "_commit_messages", monkeypatch)
    sends = asyncio.create_task(api.send(carol, group, "before Dave"))
    await paused.reached.wait()
    await api.invite(alice, group, dave)
    paused.resume.set()
    assert (await sends)["message"]["seq"] == 1
    await api.wait_until_idle()
    before = await api.own_session(dave, group)
    assert (before["writeSeq"], before["unreadCount"], await api.ranges(dave, group)) == (2, 0, [(2, None)])
    deployments.evict_user_state("main", dave)
    after = await api.own_session(dave, group)
    assert after == before | {"activeTs": after["activeTs"]}


@both_departures
@pytest.mark.parametrize("lost", ["before", "afterwards"])
async def test_a_client_that_was_away_receives_departure_and_return(
    open_api: OpenApi, deployments: Deployments, depart: Departure, lost: str
) -> None:
    deployment, clock = f"away {lost}", ManualClock()
    async with open_api(deployment, clock) as api:
        alice, bob, _, group = await create_group_with_messages(api)
        for returns in (False, True):
            await api.wait_until_idle()
            await api.advance_days(clock, 0.01)
            since = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
            if lost == "before":
                deployments.flush_redis(deployment)
            await api.advance_days(clock, 0.01)
            await (api.invite(alice, group, bob) if returns else depart(api, alice, group, bob))
            await api.wait_until_idle()
            if lost == "afterwards":
                deployments.flush_redis(deployment)
            await api.advance_days(clock, 0.01)
            delta = (await api.data(bob, SYNC, since=since))["syncSessions"]
            changed = [session["conversation"]["id"] for session in delta["sessions"]]
            assert (delta["reset"], changed) == (False, [group])


CHANGES = {
    **DEPARTURES,
    "joining again": lambda api, owner, group, user: leave_and_return(api, owner, group, user),
}


async def leave_and_return(api: Api, owner: str, group: str, user: str) -> None:
    await api.leave(user, group)
    await api.send(owner, group, "meanwhile")
    await api.invite(owner, group, user)
    await api.send(owner, group, "hello again", mentions=[user])


@pytest.mark.parametrize("is_away", [False, True], ids=["live", "away"])
@pytest.mark.parametrize("sub_biz", [pytest.param(None, marks=pytest.mark.long), "shop"])
@pytest.mark.parametrize("depart", CHANGES.values(), ids=CHANGES.keys())
async def test_a_device_that_sees_the_departure_matches_a_fresh_client(
    api: Api, other_api: Api, depart: Departure, sub_biz: str | None, is_away: bool
) -> None:
    alice, bob, carol, group = await create_group_with_messages(api, subBiz=sub_biz)
    devices = [ApiDevice(process, user) for process in (api, other_api) for user in (alice, bob, carol)]
    for device in devices:
        await device.start()
    if is_away:
        for device in devices:
            await device.stop()
    await api.send(carol, group, "before")
    await depart(api, alice, group, bob)
    await other_api.send(carol, group, "after")
    await api.mark_read(alice, group)
    await api.wait_until_idle()
    for device in devices:
        if is_away:
            await device.resume(other_api)
        await device.agrees()

"""Leaving a group and being removed from it: what one keeps, what one is told, and the silence afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, Refusal, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.group_calls import LEAVE
from tests.api.live.test_resuming import missed
from tests.clock import ManualClock

Way = Callable[[Api, str, str, str], Awaitable[object]]
"""How somebody goes: at a process, who may remove them, the group, and who it is."""

WAYS: dict[str, Way] = {
    "leaving": lambda api, owner, group, user: api.leave(user, group),
    "removed": lambda api, owner, group, user: api.remove(owner, group, user),
}
either = pytest.mark.parametrize("go", WAYS.values(), ids=WAYS.keys())


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("main") as api:
        yield api


async def seqs(api: Api, user: str, group: str) -> list[int]:
    return [message["seq"] for message in await api.history(user, group)]


async def talk(api: Api, count: int = 3, **group: object) -> tuple[str, str, str, str]:
    """A group in which its owner said something. Answers the owner, two members, and the group."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    made = await api.create_group(alice, bob, carol, name="The group", **group)
    for number in range(count):
        await api.send(alice, made, f"{number}")
    return alice, bob, carol, made


@either
async def test_who_goes_keeps_what_they_could_read_and_nothing_after(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    await go(api, alice, group, bob)
    later = (await api.send(carol, group, "about bob"))["message"]
    assert await seqs(api, bob, group) == [1, 2, 3]
    assert await seqs(api, alice, group) == await seqs(api, carol, group) == [1, 2, 3, 4, 5]
    shown = await api.own_group(bob, group)
    assert shown["visibleRanges"] == [{"fromSeq": 1, "toSeq": 3}]
    assert (shown["viewerRole"], shown["members"], shown["memberCount"]) == (None, None, 2)
    assert (shown["status"], shown["owner"], shown["name"]) == ("ACTIVE", {"id": alice}, "The group")
    assert shown["lastMessage"]["content"] == shown["session"]["lastMessage"]["content"] == "2"
    assert await api.my_groups(bob) == []
    assert await api.roles(alice, group) == {alice: "OWNER", carol: "MEMBER"}
    told = (await api.history(alice, group))[3]
    query = "query ($id: ID!) { message(id: $id) { id } node(id: $id) { id } }"
    for hidden in (told, later):
        assert await api.data(bob, query, id=hidden["id"]) == {"message": None, "node": None}


@either
async def test_who_goes_before_anything_was_said_has_nothing_to_read(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api, count=0)
    await go(api, alice, group, bob)
    await api.send(carol, group, "now")
    assert await api.history(bob, group) == []
    session = await api.own_session(bob, group)
    assert (session["writeSeq"], session["unreadCount"], session["lastMessage"]) == (0, 0, None)
    assert session["status"] == "ACTIVE"
    assert (await api.own_group(bob, group))["lastMessage"] is None
    assert all(last is not None and first > last for first, last in await api.ranges(bob, group))


@either
async def test_those_who_stay_are_told_by_one_system_message(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    live = [await api.listen(user) for user in (alice, carol)]
    synced = [await api.listen(user, LIVE_SESSIONS) for user in (alice, carol)]
    unread = await api.unread(carol, group)
    await go(api, alice, group, bob)
    told = (await api.history(carol, group))[-1]
    assert (told["contentType"], told["seq"], told["mentions"]) == ("SYSTEM", 4, [{"id": bob}])
    assert told["sender"]["id"] == (bob if go is WAYS["leaving"] else alice)
    assert told["content"]
    for device in live:
        event = await device.next()
        assert (event["__typename"], event["message"]) == ("MessageCreated", told)
        await device.expect_no_event(0.02)
    for device in synced:
        await device.expect_no_event(0.02)
    assert await api.unread(carol, group) == unread
    assert (await api.own_session(carol, group))["writeSeq"] == 4


@either
async def test_who_goes_gets_one_membership_event_and_then_nothing(api: Api, other_api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    live = [await process.listen(bob, **of) for process in (api, other_api) for of in ({}, {"id": group})]
    synced = [await process.listen(bob, LIVE_SESSIONS) for process in (api, other_api)]
    before = await api.own_session(bob, group)
    await go(api, alice, group, bob)
    session = await api.own_session(bob, group)
    for device in synced:
        event = await device.next()
        assert (event["reason"], event["sessions"], event["totalUnread"]) == ("MEMBERSHIP", [session], 3)
        assert (event["hasMore"], event["reset"]) == (False, False)
    assert session.pop("activeTs") > before.pop("activeTs")
    assert session == before
    for process in (api, other_api):
        await process.send(carol, group, "without bob")
        await process.mark_read(carol, group)
    await api.update_group(alice, group, name="Without bob")
    await api.wait_until_idle()
    for device in (*live, *synced):
        await device.expect_no_event(0.03)
    # Everything else goes on.
    await other_api.send(carol, bob, "just you")
    for device in (live[0], live[2]):
        assert (await device.next())["message"]["content"] == "just you"


@either
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_going_while_others_write_ends_everything_at_one_message(
    api: Api, other_api: Api, go: Way, elsewhere: bool
) -> None:
    alice, bob, carol, group = await talk(api)
    listening = other_api if elsewhere else api
    device, synced = await listening.listen(bob), await listening.listen(bob, LIVE_SESSIONS)
    sending = [(api, other_api)[n % 2].send((alice, carol)[n % 3 == 0], group, f"at once {n}") for n in range(24)]
    await gather_all(*sending[:12], go(api, alice, group, bob), *sending[12:])
    await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
    everything = await api.history(alice, group)
    assert [message["seq"] for message in everything] == list(range(1, 29))
    gone = next(message["seq"] for message in everything if message["contentType"] == "SYSTEM")
    for process in (api, other_api):
        assert await seqs(process, bob, group) == list(range(1, gone))
        assert await process.ranges(bob, group) == [(1, gone - 1)]
        session = await process.own_session(bob, group)
        assert (session["writeSeq"], session["unreadCount"], session["lastMessage"]["seq"]) == (
            gone - 1,
            gone - 1,
            gone - 1,
        )
        assert await process.total_unread(bob) == gone - 1
    await asyncio.sleep(0.1)
    assert sorted(event["message"]["seq"] for event in device.pop_events()) == list(range(4, gone))
    assert [event["reason"] for event in synced.pop_events()] == ["MEMBERSHIP"]


@either
async def test_what_is_unread_stays_so_until_it_is_read(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api, count=2)
    await api.send(alice, group, "you", mentions=[bob])
    await api.send(alice, group, "all", mentionAll=True)
    await api.mark_read(bob, group, 1)
    await go(api, alice, group, bob)
    for number in range(3):
        await api.send(carol, group, f"{number}", mentions=[alice])
    await api.send(alice, group, "all", mentionAll=True)
    session = await api.own_session(bob, group)
    assert (session["writeSeq"], session["readSeq"]) == (4, 1)
    assert (session["unreadCount"], session["unreadMentionCount"]) == (3, 2)
    assert await api.total_unread(bob) == 3
    part = await api.mark_read(bob, group, 3)
    assert (part["readSeq"], part["unreadCount"], part["unreadMentionCount"]) == (3, 1, 1)
    whole = await api.mark_read(bob, group, 99)
    assert (whole["writeSeq"], whole["readSeq"], whole["deliveredSeq"], whole["unreadCount"]) == (4, 4, 4, 0)
    stored = await api.stored_documents()
    assert await api.mark_read(bob, group) == whole
    assert await api.stored_documents() == stored


@either
async def test_what_one_deleted_stays_deleted_when_one_goes_and_nothing_revives_it(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    await api.delete(bob, group)
    await go(api, alice, group, bob)
    assert (await api.own_session(bob, group))["status"] == "INVALID"
    await api.send(carol, group)
    assert (await api.own_session(bob, group))["status"] == "INVALID"
    assert await api.sessions(bob) == []
    assert await seqs(api, bob, group) == [1, 2, 3]


@either
async def test_who_deletes_it_after_going_is_rid_of_it(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    await go(api, alice, group, bob)
    assert (await api.delete(bob, group))["status"] == "INVALID"
    await api.send(carol, group, mentions=[alice])
    await api.send(alice, group, mentionAll=True)
    session = await api.own_session(bob, group)
    assert (session["status"], session["writeSeq"], session["unreadCount"]) == ("INVALID", 3, 0)
    assert (await api.sessions(bob), await api.total_unread(bob)) == ([], 0)


@either
async def test_nobody_can_mention_who_went(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    await go(api, alice, group, bob)
    stored = await api.stored_documents()
    assert await api.expect_send_refusal(carol, group, mentions=[bob]) == Refusal("INVALID_INPUT", "mentions")
    assert await api.stored_documents() == stored


@either
async def test_a_reply_does_not_show_what_was_said_without_the_reader(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    await go(api, alice, group, bob)
    secret = (await api.send(carol, group, "secret"))["message"]["id"]
    await api.invite(alice, group, bob)
    device = await api.listen(bob)
    await api.send(alice, group, "about that", replyToId=secret)
    assert (await device.next())["message"]["replyTo"] is None
    assert (await api.history(bob, group))[-1]["replyTo"] is None
    assert (await api.history(carol, group))[-1]["replyTo"]["content"] == "secret"
    refusal = await api.expect_send_refusal(bob, group, "me too", replyToId=secret)
    assert refusal == Refusal("INVALID_INPUT", "replyToId")


# --- coming back to what was missed


@either
async def test_who_was_away_when_they_went_is_told_what_came_before(api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    device = await api.listen(bob)
    await api.send(alice, group, "seen")
    cursor = (await device.next())["cursor"]
    await device.stop()
    await api.send(alice, group, "missed 1")
    await api.send(carol, group, "missed 2")
    await go(api, alice, group, bob)
    await api.send(carol, group, "without bob")
    for of in ({}, {"id": group}):
        events = await missed(api, bob, cursor, **of)
        assert [event["message"]["content"] for event in events] == ["missed 1", "missed 2"]
    again = await api.subscribe(bob, "subscription ($id: ID, $since: Cursor) { messageEvents(since: $since, conversationId: $id) { __typename } }", since=cursor, id=group)  # fmt: skip
    assert [event["__typename"] for event in await again.take(3)] == ["MessageCreated", "MessageCreated", "CaughtUp"]
    await api.send(alice, group, "still without")
    await again.expect_no_event(0.05)


@either
async def test_a_device_that_was_away_learns_of_it_from_its_cursor(api: Api, other_api: Api, go: Way) -> None:
    alice, bob, carol, group = await talk(api)
    cursor = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
    await go(api, alice, group, bob)
    await api.send(carol, group)
    for process in (api, other_api):
        session = await process.own_session(bob, group)
        delta = (await process.data(bob, SYNC, since=cursor))["syncSessions"]
        assert (delta["sessions"], delta["totalUnread"], delta["reset"]) == ([session], 3, False)
        part = await (await process.subscribe(bob, LIVE_SESSIONS, since=cursor)).next()
        assert (part["reason"], part["sessions"], part["reset"]) == ("CATCH_UP", [session], False)


@either
async def test_of_several_who_are_about_only_who_went_is_cut_off(api: Api, go: Way) -> None:
    people = await api.create_users(*"abcdef")
    group = await api.create_group(*people)
    devices = {user: await api.listen(user) for user in people}
    await go(api, people[0], group, people[3])
    await go(api, people[0], group, people[5])
    sent = (await api.send(people[1], group, "we four"))["message"]
    for user, device in devices.items():
        expected = {people[3]: 0, people[5]: 1}.get(user, 3)
        seen = [event["message"]["seq"] for event in await device.take(expected)]
        assert seen == list(range(1, expected + 1))
        await device.expect_no_event(0.02)
    assert sent["seq"] == 3
    assert await api.roles(people[0], group) == dict.fromkeys((people[1], people[2], people[4]), "MEMBER") | {
        people[0]: "OWNER"
    }


async def test_a_group_may_shrink_to_its_owner_and_grow_again(api: Api) -> None:
    alice, bob, carol, group = await talk(api)
    await api.leave(bob, group)
    shown = await api.remove(alice, group, carol)
    assert (shown["memberCount"], shown["viewerRole"]) == (1, "OWNER")
    assert (await api.expect_refusal(alice, LEAVE, id=group)).code == "OWNER_CANNOT_LEAVE"
    assert (await api.send(alice, group, "alone"))["message"]["seq"] == 6
    await api.invite(alice, group, bob)
    assert await seqs(api, bob, group) == [1, 2, 3, 7]
    assert await api.roles(bob, group) == {alice: "OWNER", bob: "MEMBER"}


async def test_who_removes_sees_the_group_as_it_is_then(api: Api) -> None:
    alice, bob, carol, group = await talk(api)
    shown: Json = await api.remove(alice, group, bob)
    assert shown == await api.group(alice, group)
    assert (shown["memberCount"], shown["lastMessage"]["seq"]) == (2, 4)
    assert [edge["node"]["user"]["id"] for edge in shown["members"]["edges"]] == [alice, carol]


@either
async def test_what_is_said_without_one_moves_nothing_of_one_s_own_though_the_cache_was_lost(
    open_api: OpenApi, deployments: Deployments, go: Way
) -> None:
    place, clock = "said without one", ManualClock()
    async with open_api(place, clock) as api:
        alice, bob, carol, group = await talk(api)
        await api.advance_days(clock, 0.01)
        await api.send(carol, group, "all of you")
        written = (await api.own_session(bob, group))["writeTs"]
        await api.wait_until_idle()
        deployments.flush_redis(place)
        await go(api, alice, group, bob)
        await api.wait_until_idle()
        await api.advance_days(clock, 0.01)
        before = await api.own_session(bob, group)
        assert before["writeTs"] == written
        await api.send(carol, group, "without bob")
        await api.wait_until_idle()
        await api.advance_days(clock, 0.01)
        deployments.flush_redis(place)
        assert await api.own_session(bob, group) == before

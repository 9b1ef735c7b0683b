"""Groups that end while they are in use: what was unread in them, messages on their way, devices; and what is no group."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import LIVE_SESSIONS, SEND, SYNC, Api, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.group_calls import DISMISS, DISSOLVE
from tests.api.groups.test_ending_groups import ENDS, End, code_after, either
from tests.api.sample_group import create_sample_group
from tests.clock import ManualClock

# --- totals


@either
@pytest.mark.parametrize("lost", [False, True], ids=["about", "lost"])
async def test_what_was_unread_in_it_leaves_every_sum(api: Api, deployments: Deployments, end: End, lost: bool) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave, subBiz="shop")
    plain = await api.create_group(alice, bob, carol, dave)
    for number in range(3):
        await api.send(alice, group, f"{number}", mentionAll=True)
        await api.send(alice, plain, f"{number}")
    await api.send(carol, bob, "aside", subBiz="shop")
    await api.send(carol, bob, "aside")
    await api.assign(bob, "work", plain, private_id(bob, carol))
    await api.leave(dave, group)
    assert (await api.total_unread(bob), await api.total_unread(dave)) == (8, 6)
    if lost:
        await api.wait_until_idle()
        deployments.flush_redis("main")
    await end(api, alice, group)
    assert (await api.total_unread(bob), await api.total_unread(dave)) == (5, 3)
    gateway = await api.own_session(bob, "b_shop")
    assert (gateway["unreadCount"], gateway["unreadMentionCount"], gateway["status"]) == (1, 0, "ACTIVE")
    assert gateway["lastMessage"]["content"] == "aside"
    # Nothing is left within it for dave.
    assert (await api.own_session(dave, "b_shop"))["status"] == "INVALID"
    await end(api, alice, plain)
    assert (await api.total_unread(bob), await api.total_unread(dave)) == (2, 0)
    (folder,) = await api.categories(bob)
    assert (folder["sessionCount"], folder["unreadCount"]) == (1, 1)
    for listed in (await api.sessions(bob), await api.sessions(bob, category="work")):
        assert plain not in [session["conversation"]["id"] for session in listed]
    deployments.flush_redis("main")
    assert (await api.total_unread(bob), await api.total_unread(dave)) == (2, 0)
    assert (await api.own_session(bob, "b_shop"))["unreadCount"] == 1
    assert [found["unreadCount"] for found in await api.categories(bob)] == [1]


# --- while it is in use


@either
async def test_messages_on_their_way_are_there_or_refused_and_revive_nothing(
    api: Api, other_api: Api, deployments: Deployments, end: End
) -> None:
    for turn in range(4):
        people = await api.create_users(*"abcd")
        group = await api.create_group(*people)
        device = await other_api.listen(people[3])
        send = {"input": {"conversationId": group, "content": "in flight"}}
        sending = [(api, other_api)[n % 2].run(people[n % 4], SEND, **send) for n in range(16)]
        at = 4 * turn
        done = await gather_all(*sending[:at], end(api, people[0], group), *sending[at:])
        await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
        answers = [answer for answer in done if answer is not None]
        codes = {answer["errors"][0]["extensions"]["code"] for answer in answers if "errors" in answer}
        assert codes <= {code_after(end)}
        stored = sorted(a["data"]["sendMessage"]["message"]["seq"] for a in answers if "errors" not in a)
        assert stored == list(range(1, len(stored) + 1))
        await asyncio.sleep(0.05)
        told = sorted(event["message"]["seq"] for event in device.pop_events() if "message" in event)
        assert len(told) == len(set(told)) and set(told) <= set(stored)
        for lost in (False, True):
            if lost:
                deployments.flush_redis("main")
            for user in people:
                assert (await api.own_session(user, group))["status"] == "INVALID"
                assert (await other_api.sessions(user), await other_api.total_unread(user)) == ([], 0)
                history = (await api.data(user, "query ($id: ID!) { messages(conversationId: $id, first: 100) { edges { node { seq } } } }", id=group))["messages"]  # fmt: skip
                if end is ENDS["dismissed"]:
                    assert history is None
                else:
                    assert [edge["node"]["seq"] for edge in history["edges"]] == stored
                    assert [last for _, last in await api.ranges(user, group)] == [len(stored)]


@either
@pytest.mark.parametrize("away", [False, True], ids=["live", "away"])
@pytest.mark.parametrize("sub_biz", [None, "shop"])
async def test_what_a_device_shows_of_it_is_what_a_fresh_one_would(
    api: Api, other_api: Api, end: End, sub_biz: str | None, away: bool
) -> None:
    sample = await create_sample_group(api, subBiz=sub_biz)
    await api.send(sample.member, sample.left, "aside", subBiz=sub_biz)
    devices = [ApiDevice(process, user) for process in (api, other_api) for user in sample.users]
    await gather_all(*(device.start() for device in devices))
    if away:
        await gather_all(*(device.stop() for device in devices))
    await api.send(sample.admin, sample.group, "last words")
    await end(other_api, sample.owner, sample.group)
    await api.send(sample.member, sample.admin, "so it is gone", subBiz=sub_biz)
    await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
    for device in devices:
        if away:
            await device.resume(other_api)
        await device.agrees()


# --- what is no group


@either
@pytest.mark.parametrize("lost", ["before", "afterwards"])
async def test_a_client_that_was_away_for_long_learns_of_it_though_the_cache_was_lost(
    open_api: OpenApi, deployments: Deployments, end: End, lost: str
) -> None:
    place, clock = f"away {code_after(end)} {lost}", ManualClock()
    async with open_api(place, clock) as api:
        alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
        group = await api.create_group(alice, bob, carol, dave)
        await api.send(alice, group)
        await api.leave(dave, group)
        await api.wait_until_idle()
        await api.advance_days(clock, 0.01)
        since = {user: (await api.data(user, SYNC))["syncSessions"]["cursor"] for user in (alice, bob, dave)}
        if lost == "before":
            deployments.flush_redis(place)
        await api.advance_days(clock, 0.01)
        await end(api, alice, group)
        await api.wait_until_idle()
        if lost == "afterwards":
            deployments.flush_redis(place)
        await api.advance_days(clock, 0.01)
        for user, cursor in since.items():
            missed = (await api.data(user, SYNC, since=cursor))["syncSessions"]
            told = [(session["conversation"]["id"], session["status"]) for session in missed["sessions"]]
            assert (missed["reset"], told) == (False, [(group, "INVALID")]), user


async def test_a_private_conversation_can_not_be_deleted_for_both(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob)
    await api.send(alice, bob, subBiz="shop")
    devices = [await api.listen(user, *of) for user in (alice, bob) for of in ((), (LIVE_SESSIONS,))]
    stored = await api.stored_documents()
    for conversation in (private_id(alice, bob), private_id(alice, bob, "shop")):
        for user in (alice, bob):
            refusal = await api.expect_refusal(user, DISSOLVE, id=conversation)
            assert refusal.code == "PRIVATE_CANNOT_DELETE"
        assert await api.expect_refusal(carol, DISSOLVE, id=conversation) == Refusal("NOT_FOUND", "conversationId")
    assert (await api.expect_refusal(alice, DISSOLVE, id="b_shop")).code == "INVALID_INPUT"
    for unknown in (private_id(alice, carol), "g_1", "", "c_1", "w_1", alice, "\ud800"):
        assert await api.expect_refusal(alice, DISSOLVE, id=unknown) == Refusal("NOT_FOUND", "conversationId"), ascii(
            unknown
        )
    assert await api.stored_documents() == stored
    for device in devices:
        await device.expect_no_event(0.02)


async def test_a_refusal_names_the_argument_that_the_call_has(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.leave(carol, group)
    stored = await api.stored_documents()
    assert await api.expect_refusal(carol, DISSOLVE, id=group) == Refusal("NOT_A_MEMBER", "conversationId")
    assert await api.expect_refusal(carol, DISMISS, id=group) == Refusal("NOT_A_MEMBER", "groupId")
    assert await api.stored_documents() == stored

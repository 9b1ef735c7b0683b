"""Groups that end while they are in use, and deleteConversation for conversations that are no group."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import LIVE_SESSIONS, SEND, SYNC, Api, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.group_calls import DISMISS, DISSOLVE
from tests.api.groups.endings import ENDS, End, both_ends, code_after
from tests.api.sample_group import create_sample_group
from tests.clock import ManualClock


@both_ends
@pytest.mark.parametrize("lost", [False, True], ids=["cached", "lost"])
async def test_unread_messages_of_an_ended_group_leave_every_sum(
    api: Api, deployments: Deployments, end: End, lost: bool
) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave, subBiz="shop")
    plain_group = await api.create_group(alice, bob, carol, dave)
    for number in range(3):
        await api.send(alice, group, f"{number}", mentionAll=True)
        await api.send(alice, plain_group, f"{number}")
    await api.send(carol, bob, "aside", subBiz="shop")
    await api.send(carol, bob, "aside")
    await api.assign(bob, "work", plain_group, private_id(bob, carol))
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
    # dave has no session left in this subBiz.
    assert (await api.own_session(dave, "b_shop"))["status"] == "INVALID"
    await end(api, alice, plain_group)
    assert (await api.total_unread(bob), await api.total_unread(dave)) == (2, 0)
    (category,) = await api.categories(bob)
    assert (category["sessionCount"], category["unreadCount"]) == (1, 1)
    for listed in (await api.sessions(bob), await api.sessions(bob, category="work")):
        assert plain_group not in [session["conversation"]["id"] for session in listed]
    deployments.flush_redis("main")
    assert (await api.total_unread(bob), await api.total_unread(dave)) == (2, 0)
    assert (await api.own_session(bob, "b_shop"))["unreadCount"] == 1
    assert [category["unreadCount"] for category in await api.categories(bob)] == [1]


@both_ends
async def test_messages_sent_during_the_end_are_stored_or_refused(
    api: Api, other_api: Api, deployments: Deployments, end: End
) -> None:
    for turn in range(4):
        users = await api.create_users(*"abcd")
        group = await api.create_group(*users)
        device = await other_api.listen(users[3])
        send = {"input": {"conversationId": group, "content": "in flight"}}
        sends = [(api, other_api)[n % 2].run(users[n % 4], SEND, **send) for n in range(16)]
        position = 4 * turn
        outcomes = await gather_all(*sends[:position], end(api, users[0], group), *sends[position:])
        await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
        answers = [answer for answer in outcomes if answer is not None]
        codes = {answer["errors"][0]["extensions"]["code"] for answer in answers if "errors" in answer}
        assert codes <= {code_after(end)}
        stored = sorted(a["data"]["sendMessage"]["message"]["seq"] for a in answers if "errors" not in a)
        assert stored == list(range(1, len(stored) + 1))
        await asyncio.sleep(0.05)
        received = sorted(event["message"]["seq"] for event in device.pop_events() if "message" in event)
        assert len(received) == len(set(received)) and set(received) <= set(stored)
        for lost in (False, True):
            if lost:
                deployments.flush_redis("main")
            for user in users:
                assert (await api.own_session(user, group))["status"] == "INVALID"
                assert (await other_api.sessions(user), await other_api.total_unread(user)) == ([], 0)
                history = (
                    await api.data(
                        user,
                        "query ($id: ID!) { messages(conversationId: $id, first: 100) { edges { node { seq } } } }",
                        id=group,
                    )
                )["messages"]
                if end is ENDS["dismissed"]:
                    assert history is None
                else:
                    assert [edge["node"]["seq"] for edge in history["edges"]] == stored
                    assert [last for _, last in await api.ranges(user, group)] == [len(stored)]


@both_ends
@pytest.mark.parametrize("is_away", [False, True], ids=["live", "away"])
@pytest.mark.parametrize("sub_biz", [pytest.param(None, marks=pytest.mark.long), "shop"])
async def test_a_device_that_sees_the_end_matches_a_fresh_client(
    api: Api, other_api: Api, end: End, sub_biz: str | None, is_away: bool
) -> None:
    sample = await create_sample_group(api, subBiz=sub_biz)
    await api.send(sample.member, sample.left, "aside", subBiz=sub_biz)
    devices = [ApiDevice(process, user) for process in (api, other_api) for user in sample.users]
    await gather_all(*(device.start() for device in devices))
    if is_away:
        await gather_all(*(device.stop() for device in devices))
    await api.send(sample.admin, sample.group, "last words")
    await end(other_api, sample.owner, sample.group)
    await api.send(sample.member, sample.admin, "so it is gone", subBiz=sub_biz)
    await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
    for device in devices:
        if is_away:
            await device.resume(other_api)
        await device.agrees()


@both_ends
@pytest.mark.parametrize("lost", ["before", "afterwards"])
async def test_a_client_that_was_away_receives_the_end_despite_a_cache_loss(
    open_api: OpenApi, deployments: Deployments, end: End, lost: str
) -> None:
    deployment, clock = f"away {code_after(end)} {lost}", ManualClock()
    async with open_api(deployment, clock) as api:
        alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
        group = await api.create_group(alice, bob, carol, dave)
        await api.send(alice, group)
        await api.leave(dave, group)
        await api.wait_until_idle()
        await api.advance_days(clock, 0.01)
        since = {user: (await api.data(user, SYNC))["syncSessions"]["cursor"] for user in (alice, bob, dave)}
        if lost == "before":
            deployments.flush_redis(deployment)
        await api.advance_days(clock, 0.01)
        await end(api, alice, group)
        await api.wait_until_idle()
        if lost == "afterwards":
            deployments.flush_redis(deployment)
        await api.advance_days(clock, 0.01)
        for user, cursor in since.items():
            delta = (await api.data(user, SYNC, since=cursor))["syncSessions"]
            received = [(session["conversation"]["id"], session["status"]) for session in delta["sessions"]]
            assert (delta["reset"], received) == (False, [(group, "INVALID")]), user


async def test_a_private_conversation_cannot_be_deleted_for_both_users(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob)
    await api.send(alice, bob, subBiz="shop")
    devices = [await api.listen(user, *arguments) for user in (alice, bob) for arguments in ((), (LIVE_SESSIONS,))]
    stored = await api.stored_hashes()
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
    assert await api.stored_hashes() == stored
    for device in devices:
        await device.expect_no_event(0.02)


async def test_a_refusal_names_the_argument_of_the_mutation(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.leave(carol, group)
    stored = await api.stored_hashes()
    assert await api.expect_refusal(carol, DISSOLVE, id=group) == Refusal("NOT_A_MEMBER", "conversationId")
    assert await api.expect_refusal(carol, DISMISS, id=group) == Refusal("NOT_A_MEMBER", "groupId")
    assert await api.stored_hashes() == stored

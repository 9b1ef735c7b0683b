"""A reminder to oneself: setUnread, what it moves, and what takes it away again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import LIVE_SESSIONS, Api, Json, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import ASSIGN, MARK_READ, MUTE, PIN
from tests.clock import ManualClock

Act = Callable[[Api, str, str, str], Awaitable[object]]

# Each is done by alice, to her talk with bob. What it would not change otherwise, it changes then.
RESETS: dict[str, Act] = {
    "reading": lambda api, alice, bob, talk: api.mark_read(alice, talk),
    "reading up to what is read": lambda api, alice, bob, talk: api.mark_read(alice, talk, 1),
    "reading up to nothing": lambda api, alice, bob, talk: api.mark_read(alice, talk, 0),
    "writing": lambda api, alice, bob, talk: api.send(alice, bob),
    "muting": lambda api, alice, bob, talk: api.mute(alice, talk),
    "unmuting what is not muted": lambda api, alice, bob, talk: api.unmute(alice, talk),
    "pinning": lambda api, alice, bob, talk: api.pin(alice, talk),
    "unpinning what is not pinned": lambda api, alice, bob, talk: api.pin(alice, talk, 0),
    "filing": lambda api, alice, bob, talk: api.assign(alice, "work", talk),
    "unfiling what is in no folder": lambda api, alice, bob, talk: api.assign(alice, None, talk),
    "deleting": lambda api, alice, bob, talk: api.delete(alice, talk),
    "deleting for good": lambda api, alice, bob, talk: api.delete(alice, talk, hard=True),
}
REASONS = {
    "reading": "READ",
    "reading up to what is read": "READ",
    "reading up to nothing": "READ",
    "muting": "MUTE",
    "unmuting what is not muted": "UNMUTE",
    "pinning": "PIN",
    "unpinning what is not pinned": "UNPIN",
    "filing": "CATEGORY",
    "unfiling what is in no folder": "CATEGORY",
    "deleting": "DELETE",
    "deleting for good": "DELETE",
}


async def read_talk(api: Api) -> tuple[str, str, str]:
    """Two people, the first of whom read what the second wrote. Answers them, and where."""
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(2):
        await api.send(bob, alice)
    await api.mark_read(alice, private_id(alice, bob))
    return alice, bob, private_id(alice, bob)


async def marked(api: Api, user: str, conversation: str) -> bool:
    status: bool = (await api.own_session(user, conversation))["unreadStatus"]
    return status


async def test_it_moves_the_session_up_and_reads_nothing_anew(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for sender in (bob, bob, carol):
        await api.send(sender, alice)
    await api.mark_read(alice, private_id(alice, bob), 1)
    await asyncio.sleep(0.002)
    before = await api.own_session(alice, private_id(alice, bob))
    after = await api.set_unread(alice, private_id(alice, bob))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"unreadStatus", "activeTs", "writeTs"}
    assert after["unreadStatus"] is True
    assert after["activeTs"] > before["activeTs"] and after["writeTs"] > before["writeTs"]
    assert (after["readSeq"], after["unreadCount"], await api.total_unread(alice)) == (1, 1, 2)
    assert await api.titles(alice) == [bob, carol]


async def test_it_moves_the_session_up_though_no_time_went_by(open_api: OpenApi) -> None:
    async with open_api("moment", ManualClock()) as api:
        alice, *others = await api.create_users("alice", "bob", "carol", "dave")
        for sender in others:
            await api.send(sender, alice)
        for sender in others:
            await api.set_unread(alice, private_id(alice, sender))
            assert (await api.titles(alice))[0] == sender


async def test_it_counts_nothing_and_is_nobody_elses(api: Api) -> None:
    alice, bob, conversation = await read_talk(api)
    await api.wait_until_idle()
    bobs = await api.session(bob, conversation)
    quiet = [await api.listen(user) for user in (alice, bob)]
    session = await api.set_unread(alice, conversation)
    assert (session["unreadCount"], session["unreadMentionCount"], await api.total_unread(alice)) == (0, 0, 0)
    assert await api.session(bob, conversation) == bobs
    for listener in quiet:
        await listener.expect_no_event(0.02)


async def test_it_goes_below_what_is_pinned(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    for sender in (bob, carol, dave):
        await api.send(sender, alice)
    await api.pin(alice, private_id(alice, dave))
    await asyncio.sleep(0.002)
    await api.set_unread(alice, private_id(alice, bob))
    assert await api.titles(alice) == [dave, bob, carol]


async def test_an_empty_group_can_be_marked_too(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    assert (await api.set_unread(bob, group))["unreadStatus"] is True
    assert (await api.mark_read(bob, group))["unreadStatus"] is False


@pytest.mark.parametrize("what", RESETS)
async def test_what_one_does_with_the_session_takes_it_away(api: Api, other_api: Api, what: str) -> None:
    alice, bob, conversation = await read_talk(api)
    before = await api.set_unread(alice, conversation)
    assert before["unreadStatus"] is True
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    await RESETS[what](api, alice, bob, conversation)
    session = await api.own_session(alice, conversation)
    assert session["unreadStatus"] is False
    assert session["activeTs"] > before["activeTs"]
    for device in devices:
        if what in REASONS:
            event = await device.next()
            assert (event["reason"], event["sessions"]) == (REASONS[what], [session])
        await device.expect_no_event(0.02)


@pytest.mark.parametrize("lost", ["before", "after", "before and after"])
@pytest.mark.parametrize("what", RESETS)
async def test_that_holds_though_the_cache_is_lost(
    open_api: OpenApi, deployments: Deployments, what: str, lost: str
) -> None:
    async with open_api("lost") as api:
        alice, bob, conversation = await read_talk(api)
        await api.set_unread(alice, conversation)
        await api.wait_until_idle()
        if lost.startswith("before"):
            deployments.flush_redis("lost")
        await RESETS[what](api, alice, bob, conversation)
        await api.wait_until_idle()
        if lost.endswith("after"):
            deployments.flush_redis("lost")
        assert await marked(api, alice, conversation) is False


async def test_it_survives_the_loss_of_the_cache(open_api: OpenApi, deployments: Deployments) -> None:
    async with open_api("lost") as api:
        alice, bob, conversation = await read_talk(api)
        before = await api.set_unread(alice, conversation)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        after = await api.own_session(alice, conversation)
        assert (after["unreadStatus"], after["writeTs"]) == (True, before["writeTs"])
        await api.send(bob, alice)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        assert await marked(api, alice, conversation) is True


async def test_what_others_do_leaves_it(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    await api.send(alice, bob)
    await api.set_unread(alice, group)
    await api.set_unread(alice, private_id(alice, bob))
    await api.send(bob, alice)
    await api.send(bob, group, mentions=[alice])
    await api.invite(carol, group, dave)
    await api.mark_read(bob, group)
    await api.mark_read(bob, private_id(alice, bob))
    await api.delete(bob, private_id(alice, bob))
    await api.wait_until_idle()
    for conversation in (group, private_id(alice, bob)):
        assert await marked(api, alice, conversation) is True


async def test_what_one_does_with_another_session_leaves_it(api: Api) -> None:
    alice, _, conversation = await read_talk(api)
    (carol,) = await api.create_users("carol")
    await api.send(carol, alice)
    await api.set_unread(alice, conversation)
    for act in RESETS.values():
        await act(api, alice, carol, private_id(alice, carol))
    assert await marked(api, alice, conversation) is True
    assert await marked(api, alice, private_id(alice, carol)) is False


async def test_inviting_somebody_is_no_message_of_ones_own(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.set_unread(alice, group)
    await api.invite(alice, group, dave)
    assert await marked(api, alice, group) is True


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        (MARK_READ, {"seq": -1}),
        (PIN, {"priority": 1001}),
        (MUTE, {"muted": False, "until": "2200-01-01T00:00:00Z"}),
        (ASSIGN, {"category": " "}),
    ],
)
async def test_what_is_refused_leaves_it(api: Api, query: str, variables: Json) -> None:
    alice, bob, conversation = await read_talk(api)
    await api.set_unread(alice, conversation)
    stored = await api.stored_documents()
    named = {"ids": [conversation]} if query is ASSIGN else {"id": conversation}
    assert (await api.expect_refusal(alice, query, **named, **variables)).code == "INVALID_INPUT"
    assert (await api.expect_send_refusal(alice, bob, " ")).code == "INVALID_INPUT"
    assert await api.stored_documents() == stored
    assert await marked(api, alice, conversation) is True


async def test_a_message_that_is_only_answered_again_leaves_it(api: Api) -> None:
    alice, bob, conversation = await read_talk(api)
    await api.send(alice, bob, "once", idempotencyKey="k")
    await api.set_unread(alice, conversation)
    payload = await api.send(alice, bob, "once", idempotencyKey="k")
    assert (payload["replayed"], payload["session"]["unreadStatus"]) == (True, True)
    assert await marked(api, alice, conversation) is True


async def test_the_answer_to_ones_own_message_shows_it_gone(api: Api) -> None:
    alice, bob, conversation = await read_talk(api)
    await api.set_unread(alice, conversation)
    assert (await api.send(alice, bob))["session"]["unreadStatus"] is False
    assert (await api.set_unread(alice, conversation))["unreadStatus"] is True
    assert (await api.send(alice, conversation))["session"]["unreadStatus"] is False


async def test_reading_in_part_takes_it_away_and_leaves_the_rest_unread(api: Api) -> None:
    alice, bob, conversation = await read_talk(api)
    for _ in range(3):
        await api.send(bob, alice)
    await api.set_unread(alice, conversation)
    session = await api.mark_read(alice, conversation, 3)
    assert (session["unreadStatus"], session["readSeq"], session["unreadCount"]) == (False, 3, 2)


async def test_the_end_of_a_mute_leaves_it(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ends", clock) as api:
        alice, _, conversation = await read_talk(api)
        await api.mute(alice, conversation, clock.ms + 1_000)
        await api.set_unread(alice, conversation)
        clock.ms += 2_000
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["unreadStatus"]) == (False, True)

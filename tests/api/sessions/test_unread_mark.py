"""setUnread: a reminder that the user sets, what it changes, and what removes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import LIVE_SESSIONS, Api, Json, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import ASSIGN, MARK_READ, MUTE, PIN
from tests.clock import ManualClock

Change = Callable[[Api, str, str, str], Awaitable[object]]

# Changes by alice to her conversation with bob that remove the mark, even if they change nothing else.
RESETS: dict[str, Change] = {
    "reading": lambda api, alice, bob, conversation: api.mark_read(alice, conversation),
    "reading up to a read message": lambda api, alice, bob, conversation: api.mark_read(alice, conversation, 1),
    "reading up to nothing": lambda api, alice, bob, conversation: api.mark_read(alice, conversation, 0),
    "writing": lambda api, alice, bob, conversation: api.send(alice, bob),
    "muting": lambda api, alice, bob, conversation: api.mute(alice, conversation),
    "unmuting an unmuted session": lambda api, alice, bob, conversation: api.unmute(alice, conversation),
    "pinning": lambda api, alice, bob, conversation: api.pin(alice, conversation),
    "unpinning an unpinned session": lambda api, alice, bob, conversation: api.pin(alice, conversation, 0),
    "assigning": lambda api, alice, bob, conversation: api.assign(alice, "work", conversation),
    "removing no category": lambda api, alice, bob, conversation: api.assign(alice, None, conversation),
    "deleting": lambda api, alice, bob, conversation: api.delete(alice, conversation),
    "hard deleting": lambda api, alice, bob, conversation: api.delete(alice, conversation, hard=True),
}
REASONS = {
    "reading": "READ",
    "reading up to a read message": "READ",
    "reading up to nothing": "READ",
    "muting": "MUTE",
    "unmuting an unmuted session": "UNMUTE",
    "pinning": "PIN",
    "unpinning an unpinned session": "UNPIN",
    "assigning": "CATEGORY",
    "removing no category": "CATEGORY",
    "deleting": "DELETE",
    "hard deleting": "DELETE",
}


async def create_read_conversation(api: Api) -> tuple[str, str, str]:
    """Return alice, bob whose messages she has read, and their conversation."""
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(2):
        await api.send(bob, alice)
    await api.mark_read(alice, private_id(alice, bob))
    return alice, bob, private_id(alice, bob)


async def is_marked(api: Api, user: str, conversation: str) -> bool:
    status: bool = (await api.own_session(user, conversation))["unreadStatus"]
    return status


async def test_marking_unread_moves_the_session_up_and_keeps_positions(api: Api) -> None:
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


async def test_marking_unread_moves_the_session_up_within_one_millisecond(open_api: OpenApi) -> None:
    async with open_api("moment", ManualClock()) as api:
        alice, *others = await api.create_users("alice", "bob", "carol", "dave")
        for sender in others:
            await api.send(sender, alice)
        for sender in others:
            await api.set_unread(alice, private_id(alice, sender))
            assert (await api.titles(alice))[0] == sender


async def test_the_mark_changes_no_count_and_no_other_user(api: Api) -> None:
    alice, bob, conversation = await create_read_conversation(api)
    await api.wait_until_idle()
    peer_session = await api.session(bob, conversation)
    silent = [await api.listen(user) for user in (alice, bob)]
    session = await api.set_unread(alice, conversation)
    assert (session["unreadCount"], session["unreadMentionCount"], await api.total_unread(alice)) == (0, 0, 0)
    assert await api.session(bob, conversation) == peer_session
    for listener in silent:
        await listener.expect_no_event(0.02)


async def test_a_marked_session_stays_below_pinned_ones(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    for sender in (bob, carol, dave):
        await api.send(sender, alice)
    await api.pin(alice, private_id(alice, dave))
    await asyncio.sleep(0.002)
    await api.set_unread(alice, private_id(alice, bob))
    assert await api.titles(alice) == [dave, bob, carol]


async def test_an_empty_group_can_be_marked(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    assert (await api.set_unread(bob, group))["unreadStatus"] is True
    assert (await api.mark_read(bob, group))["unreadStatus"] is False


@pytest.mark.parametrize("change", RESETS)
async def test_a_change_by_the_user_removes_the_mark(api: Api, other_api: Api, change: str) -> None:
    alice, bob, conversation = await create_read_conversation(api)
    before = await api.set_unread(alice, conversation)
    assert before["unreadStatus"] is True
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    await RESETS[change](api, alice, bob, conversation)
    session = await api.own_session(alice, conversation)
    assert session["unreadStatus"] is False
    assert session["activeTs"] > before["activeTs"]
    for device in devices:
        if change in REASONS:
            event = await device.next()
            assert (event["reason"], event["sessions"]) == (REASONS[change], [session])
        await device.expect_no_event(0.02)


@pytest.mark.parametrize(
    "lost", [*(pytest.param(lost, marks=pytest.mark.long) for lost in ("before", "after")), "before and after"]
)
@pytest.mark.parametrize("change", RESETS)
async def test_the_removal_of_the_mark_survives_the_loss_of_the_cache(
    losing_api: Api, deployments: Deployments, change: str, lost: str
) -> None:
    api = losing_api
    alice, bob, conversation = await create_read_conversation(api)
    await api.set_unread(alice, conversation)
    await api.wait_until_idle()
    if lost.startswith("before"):
        deployments.flush_redis("lost")
    await RESETS[change](api, alice, bob, conversation)
    await api.wait_until_idle()
    if lost.endswith("after"):
        deployments.flush_redis("lost")
    assert await is_marked(api, alice, conversation) is False


async def test_the_mark_survives_the_loss_of_the_cache(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    alice, bob, conversation = await create_read_conversation(api)
    before = await api.set_unread(alice, conversation)
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    after = await api.own_session(alice, conversation)
    assert (after["unreadStatus"], after["writeTs"]) == (True, before["writeTs"])
    await api.send(bob, alice)
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    assert await is_marked(api, alice, conversation) is True


async def test_changes_by_others_keep_the_mark(api: Api) -> None:
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
        assert await is_marked(api, alice, conversation) is True


async def test_changes_of_another_session_keep_the_mark(api: Api) -> None:
    alice, _, conversation = await create_read_conversation(api)
    (carol,) = await api.create_users("carol")
    await api.send(carol, alice)
    await api.set_unread(alice, conversation)
    for change in RESETS.values():
        await change(api, alice, carol, private_id(alice, carol))
    assert await is_marked(api, alice, conversation) is True
    assert await is_marked(api, alice, private_id(alice, carol)) is False


async def test_the_system_message_of_an_invitation_keeps_the_mark(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.set_unread(alice, group)
    await api.invite(alice, group, dave)
    assert await is_marked(api, alice, group) is True


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        (MARK_READ, {"seq": -1}),
        (PIN, {"priority": 1001}),
        (MUTE, {"muted": False, "until": "2200-01-01T00:00:00Z"}),
        (ASSIGN, {"category": " "}),
    ],
)
async def test_a_refused_change_keeps_the_mark(api: Api, query: str, variables: Json) -> None:
    alice, bob, conversation = await create_read_conversation(api)
    await api.set_unread(alice, conversation)
    stored = await api.stored_hashes()
    target = {"ids": [conversation]} if query is ASSIGN else {"id": conversation}
    assert (await api.expect_refusal(alice, query, **target, **variables)).code == "INVALID_INPUT"
    assert (await api.expect_send_refusal(alice, bob, " ")).code == "INVALID_INPUT"
    assert await api.stored_hashes() == stored
    assert await is_marked(api, alice, conversation) is True


async def test_a_reply_removes_the_mark_only_with_its_copy(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    alice, _, conversation = await create_read_conversation(api)
    parent = (await api.history(alice, conversation))[0]["id"]
    await api.set_unread(alice, conversation)
    await api.send(alice, parent)
    assert await is_marked(api, alice, conversation) is True
    payload = await api.send(alice, parent, broadcast=True)
    assert payload["session"]["conversation"]["id"] != conversation, "the answer has the session of the thread"
    for _ in range(2):
        session = await api.own_session(alice, conversation)
        assert (session["unreadStatus"], session["readSeq"]) == (False, 3)
        await api.wait_until_idle()
        deployments.flush_redis("lost")


async def test_a_replayed_send_keeps_the_mark(api: Api) -> None:
    alice, bob, conversation = await create_read_conversation(api)
    await api.send(alice, bob, "once", idempotencyKey="k")
    await api.set_unread(alice, conversation)
    payload = await api.send(alice, bob, "once", idempotencyKey="k")
    assert (payload["replayed"], payload["session"]["unreadStatus"]) == (True, True)
    assert await is_marked(api, alice, conversation) is True


async def test_the_answer_to_a_message_shows_the_mark_removed(api: Api) -> None:
    alice, bob, conversation = await create_read_conversation(api)
    await api.set_unread(alice, conversation)
    assert (await api.send(alice, bob))["session"]["unreadStatus"] is False
    assert (await api.set_unread(alice, conversation))["unreadStatus"] is True
    assert (await api.send(alice, conversation))["session"]["unreadStatus"] is False


async def test_reading_in_part_removes_the_mark_and_leaves_the_rest_unread(api: Api) -> None:
    alice, bob, conversation = await create_read_conversation(api)
    for _ in range(3):
        await api.send(bob, alice)
    await api.set_unread(alice, conversation)
    session = await api.mark_read(alice, conversation, 3)
    assert (session["unreadStatus"], session["readSeq"], session["unreadCount"]) == (False, 3, 2)


async def test_the_end_of_a_mute_keeps_the_mark(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ends", clock) as api:
        alice, _, conversation = await create_read_conversation(api)
        await api.mute(alice, conversation, clock.ms + 1_000)
        await api.set_unread(alice, conversation)
        clock.ms += 2_000
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["unreadStatus"]) == (False, True)

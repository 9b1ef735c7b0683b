"""pinSession: the order of pinned sessions, and the times that pinning changes."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import LIVE_SESSIONS, Api, Json, Refusal, private_id
from tests.api.conftest import Deployments
from tests.api.session_calls import PIN


async def create_conversations(api: Api, count: int) -> tuple[str, list[str], list[str]]:
    """Return alice, users who each sent her one message in this order, and their conversations."""
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(count)))
    for other in others:
        await api.send(other, alice)
    return alice, others, [private_id(alice, other) for other in others]


def times(session: Json) -> tuple[int, int]:
    return session["activeTs"], session["writeTs"]


async def next_millisecond() -> None:
    """Wait for the next millisecond, so that the next change has a later time."""
    await asyncio.sleep(0.002)


async def test_pinned_sessions_come_first_by_descending_priority(api: Api) -> None:
    alice, (a, b, c, d, e), conversations = await create_conversations(api, 5)
    for conversation, priority in ((1, 2), (0, 1000), (3, 3)):
        await api.pin(alice, conversations[conversation], priority)
    assert await api.titles(alice) == [a, d, b, e, c]
    await api.send(c, alice)
    assert await api.titles(alice) == [a, d, b, c, e]
    await api.pin(alice, conversations[1], 4)
    assert await api.titles(alice) == [a, b, d, c, e]


async def test_sessions_of_one_priority_are_ordered_by_write_time(api: Api) -> None:
    alice, (a, b, c), conversations = await create_conversations(api, 3)
    for conversation in (conversations[2], conversations[0]):
        await api.pin(alice, conversation, 5)
        await next_millisecond()
    assert await api.titles(alice) == [a, c, b]
    await api.send(alice, c)
    assert await api.titles(alice) == [c, a, b]
    await api.send(b, alice)
    assert await api.titles(alice) == [c, a, b]


async def test_a_higher_priority_comes_before_a_later_message(api: Api) -> None:
    alice, (a, b), conversations = await create_conversations(api, 2)
    await api.pin(alice, conversations[0], 2)
    await api.pin(alice, conversations[1], 1)
    await api.send(b, alice)
    assert await api.titles(alice) == [a, b]


@pytest.mark.parametrize("page", [1, 2, 3])
async def test_pages_of_any_size_list_pinned_sessions_in_order(api: Api, page: int) -> None:
    alice, (a, b, c, d, e), conversations = await create_conversations(api, 5)
    for conversation, priority in ((0, 3), (1, 3), (2, 1000)):
        await api.pin(alice, conversations[conversation], priority)
        await next_millisecond()
    assert await api.titles(alice, page) == [c, b, a, e, d]


async def test_the_default_priority_is_one(api: Api) -> None:
    alice, _, (conversation,) = await create_conversations(api, 1)
    query = "mutation ($id: ID!) { pinSession(conversationId: $id) { priority } }"
    assert await api.data(alice, query, id=conversation) == {"pinSession": {"priority": 1}}
    assert (await api.own_session(alice, conversation))["priority"] == 1


@pytest.mark.parametrize("priority", [0, 1, 999, 1000])
async def test_every_priority_in_range_is_accepted(api: Api, priority: int) -> None:
    alice, _, (conversation,) = await create_conversations(api, 1)
    await api.pin(alice, conversation, 500)
    assert (await api.pin(alice, conversation, priority))["priority"] == priority
    assert (await api.own_session(alice, conversation))["priority"] == priority


@pytest.mark.parametrize("priority", [-1, 1001, -(2**31), 2**31 - 1, None])
async def test_a_priority_out_of_range_is_refused(api: Api, priority: int | None) -> None:
    alice, _, (conversation,) = await create_conversations(api, 1)
    await api.pin(alice, conversation, 7)
    device = await api.listen(alice, LIVE_SESSIONS)
    before, stored = await api.session(alice, conversation), await api.stored_hashes()
    refusal = await api.expect_refusal(alice, PIN, id=conversation, priority=priority)
    assert refusal == Refusal("INVALID_INPUT", "priority")
    assert await api.stored_hashes() == stored
    assert await api.session(alice, conversation) == before
    await device.expect_no_event(0.02)


async def test_pinning_changes_both_times_and_unpinning_only_active_ts(api: Api) -> None:
    alice, _, (conversation,) = await create_conversations(api, 1)
    seen_times = [times(await api.own_session(alice, conversation))]
    for priority in (3, 9, 1):
        await next_millisecond()
        seen_times.append(times(await api.pin(alice, conversation, priority)))
        assert seen_times[-1][0] > seen_times[-2][0] and seen_times[-1][1] > seen_times[-2][1]
    await next_millisecond()
    unpinned = times(await api.pin(alice, conversation, 0))
    assert unpinned[0] > seen_times[-1][0]
    assert unpinned[1] == seen_times[-1][1]


async def test_an_unpinned_session_is_placed_by_its_last_write_or_pin(api: Api) -> None:
    alice, (a, b, c), conversations = await create_conversations(api, 3)
    await next_millisecond()
    await api.pin(alice, conversations[0], 1)
    await api.pin(alice, conversations[0], 0)
    assert await api.titles(alice) == [a, c, b]
    await api.send(b, alice)
    assert await api.titles(alice) == [b, a, c]


async def test_pinning_with_the_same_priority_changes_nothing(api: Api) -> None:
    alice, _, (conversation,) = await create_conversations(api, 1)
    first = await api.pin(alice, conversation, 3)
    await next_millisecond()
    assert await api.pin(alice, conversation, 3) == first
    assert (await api.pin(alice, conversation, 2))["activeTs"] > first["activeTs"]
    unpinned = await api.pin(alice, conversation, 0)
    assert await api.pin(alice, conversation, 0) == unpinned


async def test_pinning_changes_nothing_else(api: Api) -> None:
    alice, (bob, _), conversations = await create_conversations(api, 2)
    await api.mute(alice, conversations[1])
    peer_session = await api.session(bob, conversations[0])
    for conversation in conversations:
        before = await api.own_session(alice, conversation)
        after = await api.pin(alice, conversation, 4)
        changed = {name for name in before if before[name] != after[name]}
        assert changed <= {"priority", "activeTs", "writeTs"}
    assert await api.total_unread(alice) == 1
    assert await api.session(bob, conversations[0]) == peer_session


async def test_devices_receive_pinning_and_unpinning(api: Api, other_api: Api) -> None:
    alice, _, (conversation,) = await create_conversations(api, 1)
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    for priority, reason in ((2, "PIN"), (1, "PIN"), (0, "UNPIN"), (1, "PIN")):
        session = await api.pin(alice, conversation, priority)
        for device in devices:
            event = await device.next()
            assert (event["reason"], event["sessions"], event["totalUnread"]) == (reason, [session], 1)


async def test_the_order_survives_the_loss_of_the_cache(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    alice, others, conversations = await create_conversations(api, 6)
    for conversation, priority in ((1, 5), (3, 5), (0, 9), (4, 2), (5, 3)):
        await api.pin(alice, conversations[conversation], priority)
        await next_millisecond()
    await api.pin(alice, conversations[4], 0)
    await next_millisecond()
    await api.send(others[2], alice)
    await api.send(others[1], alice)
    await api.wait_until_idle()
    before = [(s["id"], s["priority"], s["writeTs"]) for s in await api.sessions(alice)]
    expected = [others[number] for number in (0, 1, 3, 5, 2, 4)]
    assert await api.titles(alice) == expected
    deployments.flush_redis("lost")
    assert await api.titles(alice, 2) == expected
    assert [(s["id"], s["priority"], s["writeTs"]) for s in await api.sessions(alice)] == before
    await api.pin(alice, conversations[0], 0)
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    assert await api.titles(alice) == [others[number] for number in (1, 3, 5, 2, 4, 0)]

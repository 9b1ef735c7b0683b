"""unreadMentionCount: how many unread messages mention the user."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from store.mongo.collections import SESSIONS as SESSION_ROWS
from tests.api.client import LIVE_SESSIONS, SYNC, TIMEOUT_SECONDS, Api, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice


async def create_group_of_three(api: Api, *extra: str, **fields: str) -> tuple[str, list[str]]:
    """Create a group. Return it and its members, the owner first."""
    users = await api.create_users("alice", "bob", "carol", *extra)
    return await api.create_group(*users, **fields), users


async def read_counts(api: Api, user: str, conversation: str) -> tuple[int, int]:
    """Return the unread count and the unread mention count."""
    session = await api.own_session(user, conversation)
    return session["unreadCount"], session["unreadMentionCount"]


@pytest.mark.parametrize(
    ("mentions", "mention_all", "expected_counts"),
    [
        ([], False, (0, 0)),
        (["bob"], False, (1, 0)),
        (["bob", "carol"], False, (1, 1)),
        ([], True, (1, 1)),
        (["bob"], True, (1, 1)),
        (["bob", "bob"], False, (1, 0)),
        (["alice"], False, (0, 0)),
        (["alice", "carol"], True, (1, 1)),
    ],
)
async def test_a_message_counts_once_for_each_mentioned_user(
    api: Api, mentions: list[str], mention_all: bool, expected_counts: tuple[int, int]
) -> None:
    group, (alice, bob, carol) = await create_group_of_three(api)
    mentioned = [{"alice": alice, "bob": bob, "carol": carol}[name] for name in mentions]
    await api.send(alice, group)
    payload = await api.send(alice, group, mentions=mentioned, mentionAll=mention_all)
    assert payload["session"]["unreadMentionCount"] == 0
    assert await read_counts(api, bob, group) == (2, expected_counts[0])
    assert await read_counts(api, carol, group) == (2, expected_counts[1])
    assert await read_counts(api, alice, group) == (0, 0)


async def test_mentions_are_counted_among_other_messages(api: Api) -> None:
    group, (alice, bob, carol) = await create_group_of_three(api)
    for sender, mentions, mention_all in (
        (alice, [bob], False),
        (carol, [], False),
        (alice, [], True),
        (carol, [bob, alice], False),
        (carol, [alice], False),
    ):
        await api.send(sender, group, mentions=mentions, mentionAll=mention_all)
    assert await read_counts(api, bob, group) == (5, 3)
    # Sending a message reads all messages before it.
    assert await read_counts(api, alice, group) == (2, 2)
    assert await read_counts(api, carol, group) == (0, 0)


async def test_mentions_in_a_private_conversation_count(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, mentions=[bob])
    await api.send(alice, bob, mentions=[alice])
    assert await read_counts(api, bob, private_id(alice, bob)) == (2, 1)
    assert await read_counts(api, alice, private_id(alice, bob)) == (0, 0)


async def test_a_muted_session_counts_mentions(api: Api) -> None:
    group, (alice, bob, _) = await create_group_of_three(api)
    await api.mute(bob, group)
    await api.send(alice, group, mentions=[bob])
    assert (await read_counts(api, bob, group), await api.total_unread(bob)) == ((1, 1), 0)


@pytest.mark.parametrize(
    ("seq", "remaining"), [(0, (6, 3)), (1, (5, 3)), (2, (4, 2)), (4, (2, 1)), (5, (1, 1)), (6, (0, 0))]
)
async def test_reading_in_part_keeps_later_mentions(api: Api, seq: int, remaining: tuple[int, int]) -> None:
    group, (alice, bob, _) = await create_group_of_three(api)
    for number in range(1, 7):
        await api.send(alice, group, mentions=[bob] if number % 2 == 0 else [])
    session = await api.mark_read(bob, group, seq)
    assert (session["unreadCount"], session["unreadMentionCount"]) == remaining
    assert await read_counts(api, bob, group) == remaining


async def test_a_gateway_sums_up_the_mentions_of_unmuted_sessions(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(bob, alice, carol, subBiz="shop")
    for _ in range(2):
        await api.send(bob, group, mentionAll=True)
    await api.send(carol, alice, subBiz="shop", mentions=[alice])
    await api.send(carol, alice, mentions=[alice])
    assert await read_counts(api, alice, "b_shop") == (3, 3)
    await api.mute(alice, group)
    assert await read_counts(api, alice, "b_shop") == (1, 1)
    await api.unmute(alice, group)
    await api.mark_read(alice, group, 1)
    assert await read_counts(api, alice, "b_shop") == (2, 2)
    await api.delete(alice, group)
    assert await read_counts(api, alice, "b_shop") == (1, 1)
    await api.send(bob, group)
    assert await read_counts(api, alice, "b_shop") == (2, 1)
    assert await read_counts(api, carol, "b_shop") == (3, 2)


async def test_reading_step_by_step_counts_down(api: Api) -> None:
    group, (alice, bob, carol) = await create_group_of_three(api)
    for number in range(12):
        await api.send(alice, group, mentions=[bob] if number % 3 == 0 else [carol], mentionAll=number % 4 == 0)
    mentioned = [number + 1 for number in range(12) if number % 3 == 0 or number % 4 == 0]
    read = 0
    for seq in (1, 2, 5, 5, 3, 9, 11, 12):
        await api.mark_read(bob, group, seq)
        read = max(read, seq)
        assert await read_counts(api, bob, group) == (12 - read, len([seq for seq in mentioned if seq > read]))


async def test_sending_a_message_clears_the_mentions(api: Api) -> None:
    group, (alice, bob, carol) = await create_group_of_three(api)
    for _ in range(3):
        await api.send(alice, group, mentions=[bob, carol])
    assert (await api.send(bob, group, mentions=[carol]))["session"]["unreadMentionCount"] == 0
    assert await read_counts(api, bob, group) == (0, 0)
    assert await read_counts(api, carol, group) == (4, 4)
    await api.send(alice, group, mentions=[bob])
    assert await read_counts(api, bob, group) == (1, 1)


@pytest.mark.parametrize("visibility", ["SINCE_JOIN", "FULL"])
async def test_a_new_member_has_no_mentions(api: Api, visibility: str) -> None:
    group, (alice, bob, *_) = await create_group_of_three(api, historyVisibility=visibility)
    (dave,) = await api.create_users("dave")
    for _ in range(2):
        await api.send(alice, group, mentionAll=True)
    await api.invite(bob, group, dave)
    assert await read_counts(api, dave, group) == (0, 0)
    await api.send(alice, group, mentions=[dave])
    assert await read_counts(api, dave, group) == (1, 1)


async def test_system_messages_do_not_count_as_mentions(api: Api) -> None:
    group, (alice, bob, _) = await create_group_of_three(api)
    dave, erin = await api.create_users("dave", "erin")
    await api.invite(bob, group, dave, erin)
    await api.send(alice, group, mentions=[bob])
    await api.invite(alice, group, dave)
    for user, expected_counts in ((dave, (1, 0)), (erin, (1, 0)), (bob, (1, 1))):
        assert await read_counts(api, user, group) == expected_counts


async def test_a_replayed_message_counts_once(api: Api) -> None:
    group, (alice, bob, _) = await create_group_of_three(api)
    for _ in range(3):
        await api.send(alice, group, mentions=[bob], idempotencyKey="k")
    assert await read_counts(api, bob, group) == (1, 1)


async def test_deleting_clears_mentions_and_later_ones_count(api: Api) -> None:
    group, (alice, bob, _) = await create_group_of_three(api)
    for _ in range(2):
        await api.send(alice, group, mentions=[bob])
    session = await api.delete(bob, group)
    assert (session["unreadCount"], session["unreadMentionCount"]) == (0, 0)
    await api.send(alice, group)
    assert await read_counts(api, bob, group) == (1, 0)
    await api.send(alice, group, mentionAll=True)
    assert await read_counts(api, bob, group) == (2, 1)
    assert (await api.mark_read(bob, group, 3))["unreadMentionCount"] == 1
    assert (await api.mark_read(bob, group))["unreadMentionCount"] == 0


async def test_marking_unread_counts_no_mention(api: Api) -> None:
    group, (alice, bob, _) = await create_group_of_three(api)
    await api.send(alice, group, mentions=[bob])
    await api.mark_read(bob, group)
    assert (await api.set_unread(bob, group))["unreadMentionCount"] == 0


async def test_the_count_is_the_same_in_every_query(api: Api, other_api: Api) -> None:
    group, (alice, bob, _) = await create_group_of_three(api)
    cursor = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
    device = await other_api.listen(bob, LIVE_SESSIONS)
    for mentions in ([bob], [], [bob]):
        await api.send(alice, group, mentions=mentions)
    for process in (api, other_api):
        assert [session["unreadMentionCount"] for session in await process.sessions(bob)] == [2]
        delta = (await process.data(bob, SYNC, since=cursor))["syncSessions"]
        assert [session["unreadMentionCount"] for session in delta["sessions"]] == [2]
    await api.mark_read(bob, group, 1)
    event = await device.next()
    assert [session["unreadMentionCount"] for session in event["sessions"]] == [1]


async def test_concurrent_messages_are_counted_exactly(api: Api, other_api: Api) -> None:
    group, (alice, bob, carol) = await create_group_of_three(api)
    await gather_all(
        *(
            (api, other_api)[turn % 2].send(
                (alice, carol)[turn % 2], group, mentions=[bob] if turn % 3 == 0 else [], mentionAll=turn % 4 == 0
            )
            for turn in range(60)
        )
    )
    expected = len([turn for turn in range(60) if turn % 3 == 0 or turn % 4 == 0])
    for process in (api, other_api):
        assert await read_counts(process, bob, group) == (60, expected)


@pytest.mark.parametrize("counted_before", [True, False], ids=["counted before", "not counted before"])
async def test_the_counts_survive_the_loss_of_the_cache(
    losing_api: Api, deployments: Deployments, counted_before: bool
) -> None:
    api = losing_api
    group, (alice, bob, carol, dave) = await create_group_of_three(api, "dave")
    conversation = private_id(alice, bob)
    for number in range(9):
        await api.send(alice, group, mentions=[bob] if number % 2 == 0 else [carol], mentionAll=number == 7)
        await api.send(alice, bob, mentions=[bob] if number % 3 == 0 else [])
    await api.mark_read(bob, group, 3)
    await api.delete(carol, group)
    await api.send(dave, group, mentions=[carol])
    await api.send(alice, group)
    expected = [(bob, group, (8, 4)), (bob, conversation, (9, 3)), (carol, group, (2, 1)), (dave, group, (1, 0))]
    if counted_before:
        for user, conversation, expected_counts in expected:
            assert await read_counts(api, user, conversation) == expected_counts, user
    await api.wait_until_idle()
    for _ in range(2):
        deployments.flush_redis("lost")
        for user, conversation, expected_counts in expected:
            assert await read_counts(api, user, conversation) == expected_counts, user
    await api.send(alice, group, mentionAll=True)
    assert await read_counts(api, bob, group) == (9, 5)
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    assert (await api.mark_read(bob, group, 9))["unreadMentionCount"] == 1
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    assert await read_counts(api, bob, group) == (3, 1)


@pytest.mark.parametrize("lost", [pytest.param(False, marks=pytest.mark.long), True], ids=["kept", "lost"])
async def test_hundreds_of_mentions_are_counted_exactly(
    open_api: OpenApi, deployments: Deployments, lost: bool
) -> None:
    async with open_api("hundreds") as api:
        group, (alice, bob, _) = await create_group_of_three(api)
        await api.sessions(bob)
        for _ in range(8):
            await gather_all(*(api.send(alice, group, mentions=[bob]) for _ in range(40)))
        await api.send(alice, group)
        if lost:
            await api.wait_until_idle()
            deployments.flush_redis("hundreds")
        assert await read_counts(api, bob, group) == (321, 320)
        assert (await api.mark_read(bob, group, 100))["unreadMentionCount"] == 220


async def test_a_device_that_counts_itself_agrees(api: Api) -> None:
    group, (alice, bob, carol) = await create_group_of_three(api)
    devices = [ApiDevice(api, user) for user in (bob, bob, carol)]
    for device in devices:
        await device.start()
    for mentions, mention_all in (([bob], False), ([], False), ([bob, carol], True), ([carol], False)):
        await api.send(alice, group, mentions=mentions, mentionAll=mention_all)
    await api.mark_read(bob, group, 2)
    await api.send(carol, group, mentions=[bob])
    for device in devices:
        await device.agrees()
    assert {device.sessions[group]["unreadMentionCount"] for device in devices[:2]} == {2}


async def test_mentions_during_the_load_of_a_state_are_counted_once(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("loading") as api:
        group, (alice, bob, _) = await create_group_of_three(api)
        await api.sessions(alice)
        await api.send(alice, group)
        await api.wait_until_idle()
        mongo = api.services.app.store.mongo
        find, has_begun, may_continue = mongo.find, asyncio.Event(), asyncio.Event()

        async def delayed_find(collection: str, *query: Any, **options: Any) -> Any:
            if collection == SESSION_ROWS and not may_continue.is_set():
                has_begun.set()
                await may_continue.wait()
            return await find(collection, *query, **options)

        monkeypatch.setattr(mongo, "find", delayed_find)
        loading = asyncio.create_task(api.session(bob, group))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await has_begun.wait()
        await api.send(alice, group, mentions=[bob])
        await api.send(alice, group, mentionAll=True)
        await asyncio.sleep(0.05)
        may_continue.set()
        await loading
        await api.wait_until_idle()
        assert await read_counts(api, bob, group) == (3, 2)


async def test_mentions_in_a_large_group_are_counted_for_late_recipients(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    members = await api.create_many_users(f"u{secrets.token_hex(4)}", 900)
    group = await api.create_group(alice, *members)
    for user in (members[0], members[-1]):
        await api.sessions(user)
    await api.send(alice, group, mentions=[members[-1]])
    await api.send(alice, group, mentionAll=True)
    await api.send(alice, group)
    await api.wait_until_idle()
    for user, expected_counts in ((members[0], (3, 1)), (members[-1], (3, 2)), (members[450], (3, 1))):
        assert await read_counts(api, user, group) == expected_counts

"""How many of the unread messages mention one."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from store.mongo.collections import SESSIONS as SESSION_ROWS
from tests.api.client import LIVE_SESSIONS, SYNC, Api, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice


async def trio(api: Api, *more: str, **fields: str) -> tuple[str, list[str]]:
    """A group and who is in it; the first of them owns it."""
    people = await api.create_users("alice", "bob", "carol", *more)
    return await api.create_group(*people, **fields), people


async def counts(api: Api, user: str, conversation: str) -> tuple[int, int]:
    """Unread, and of those with a mention."""
    session = await api.own_session(user, conversation)
    return session["unreadCount"], session["unreadMentionCount"]


@pytest.mark.parametrize(
    ("mentions", "everybody", "counted"),
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
async def test_a_message_counts_once_for_whom_it_mentions(
    api: Api, mentions: list[str], everybody: bool, counted: tuple[int, int]
) -> None:
    group, (alice, bob, carol) = await trio(api)
    named = [{"alice": alice, "bob": bob, "carol": carol}[name] for name in mentions]
    await api.send(alice, group)
    payload = await api.send(alice, group, mentions=named, mentionAll=everybody)
    assert payload["session"]["unreadMentionCount"] == 0
    assert await counts(api, bob, group) == (2, counted[0])
    assert await counts(api, carol, group) == (2, counted[1])
    assert await counts(api, alice, group) == (0, 0)


async def test_they_add_up_with_what_mentions_nobody(api: Api) -> None:
    group, (alice, bob, carol) = await trio(api)
    for sender, mentions, everybody in (
        (alice, [bob], False),
        (carol, [], False),
        (alice, [], True),
        (carol, [bob, alice], False),
        (carol, [alice], False),
    ):
        await api.send(sender, group, mentions=mentions, mentionAll=everybody)
    assert await counts(api, bob, group) == (5, 3)
    # What came before their own last message they have read.
    assert await counts(api, alice, group) == (2, 2)
    assert await counts(api, carol, group) == (0, 0)


async def test_a_mention_between_two_counts_too(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, mentions=[bob])
    await api.send(alice, bob, mentions=[alice])
    assert await counts(api, bob, private_id(alice, bob)) == (2, 1)
    assert await counts(api, alice, private_id(alice, bob)) == (0, 0)


async def test_a_muted_session_counts_them_too(api: Api) -> None:
    group, (alice, bob, _) = await trio(api)
    await api.mute(bob, group)
    await api.send(alice, group, mentions=[bob])
    assert (await counts(api, bob, group), await api.total_unread(bob)) == ((1, 1), 0)


@pytest.mark.parametrize(
    ("seq", "left"), [(0, (6, 3)), (1, (5, 3)), (2, (4, 2)), (4, (2, 1)), (5, (1, 1)), (6, (0, 0))]
)
async def test_reading_in_part_leaves_those_after_it(api: Api, seq: int, left: tuple[int, int]) -> None:
    group, (alice, bob, _) = await trio(api)
    for number in range(1, 7):
        await api.send(alice, group, mentions=[bob] if number % 2 == 0 else [])
    session = await api.mark_read(bob, group, seq)
    assert (session["unreadCount"], session["unreadMentionCount"]) == left
    assert await counts(api, bob, group) == left


async def test_a_gateway_adds_up_those_that_are_not_muted(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(bob, alice, carol, subBiz="shop")
    for _ in range(2):
        await api.send(bob, group, mentionAll=True)
    await api.send(carol, alice, subBiz="shop", mentions=[alice])
    await api.send(carol, alice, mentions=[alice])
    assert await counts(api, alice, "b_shop") == (3, 3)
    await api.mute(alice, group)
    assert await counts(api, alice, "b_shop") == (1, 1)
    await api.unmute(alice, group)
    await api.mark_read(alice, group, 1)
    assert await counts(api, alice, "b_shop") == (2, 2)
    await api.delete(alice, group)
    assert await counts(api, alice, "b_shop") == (1, 1)
    await api.send(bob, group)
    assert await counts(api, alice, "b_shop") == (2, 1)
    assert await counts(api, carol, "b_shop") == (3, 2)


async def test_reading_step_by_step_counts_down(api: Api) -> None:
    group, (alice, bob, carol) = await trio(api)
    for number in range(12):
        await api.send(alice, group, mentions=[bob] if number % 3 == 0 else [carol], mentionAll=number % 4 == 0)
    mentioned = [number + 1 for number in range(12) if number % 3 == 0 or number % 4 == 0]
    read = 0
    for seq in (1, 2, 5, 5, 3, 9, 11, 12):
        await api.mark_read(bob, group, seq)
        read = max(read, seq)
        assert await counts(api, bob, group) == (12 - read, len([other for other in mentioned if other > read]))


async def test_writing_reads_them(api: Api) -> None:
    group, (alice, bob, carol) = await trio(api)
    for _ in range(3):
        await api.send(alice, group, mentions=[bob, carol])
    assert (await api.send(bob, group, mentions=[carol]))["session"]["unreadMentionCount"] == 0
    assert await counts(api, bob, group) == (0, 0)
    assert await counts(api, carol, group) == (4, 4)
    await api.send(alice, group, mentions=[bob])
    assert await counts(api, bob, group) == (1, 1)


@pytest.mark.parametrize("visibility", ["SINCE_JOIN", "FULL"])
async def test_who_joins_begins_with_none(api: Api, visibility: str) -> None:
    group, (alice, bob, *_) = await trio(api, historyVisibility=visibility)
    (dave,) = await api.create_users("dave")
    for _ in range(2):
        await api.send(alice, group, mentionAll=True)
    await api.invite(bob, group, dave)
    assert await counts(api, dave, group) == (0, 0)
    await api.send(alice, group, mentions=[dave])
    assert await counts(api, dave, group) == (1, 1)


async def test_what_the_server_writes_about_somebody_does_not_count(api: Api) -> None:
    group, (alice, bob, _) = await trio(api)
    dave, erin = await api.create_users("dave", "erin")
    await api.invite(bob, group, dave, erin)
    await api.send(alice, group, mentions=[bob])
    await api.invite(alice, group, dave)
    for user, counted in ((dave, (1, 0)), (erin, (1, 0)), (bob, (1, 1))):
        assert await counts(api, user, group) == counted


async def test_a_message_that_is_answered_again_counts_once(api: Api) -> None:
    group, (alice, bob, _) = await trio(api)
    for _ in range(3):
        await api.send(alice, group, mentions=[bob], idempotencyKey="k")
    assert await counts(api, bob, group) == (1, 1)


async def test_deleting_clears_them_and_what_comes_after_counts(api: Api) -> None:
    group, (alice, bob, _) = await trio(api)
    for _ in range(2):
        await api.send(alice, group, mentions=[bob])
    session = await api.delete(bob, group)
    assert (session["unreadCount"], session["unreadMentionCount"]) == (0, 0)
    await api.send(alice, group)
    assert await counts(api, bob, group) == (1, 0)
    await api.send(alice, group, mentionAll=True)
    assert await counts(api, bob, group) == (2, 1)
    assert (await api.mark_read(bob, group, 3))["unreadMentionCount"] == 1
    assert (await api.mark_read(bob, group))["unreadMentionCount"] == 0


async def test_marking_unread_counts_none(api: Api) -> None:
    group, (alice, bob, _) = await trio(api)
    await api.send(alice, group, mentions=[bob])
    await api.mark_read(bob, group)
    assert (await api.set_unread(bob, group))["unreadMentionCount"] == 0


async def test_wherever_a_session_is_shown_the_count_is_the_same(api: Api, other_api: Api) -> None:
    group, (alice, bob, _) = await trio(api)
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


async def test_what_many_write_at_once_is_counted_exactly(api: Api, other_api: Api) -> None:
    group, (alice, bob, carol) = await trio(api)
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
        assert await counts(process, bob, group) == (60, expected)


@pytest.mark.parametrize("asked", [True, False], ids=["counted before", "not counted before"])
async def test_they_are_the_same_after_the_cache_was_lost(
    open_api: OpenApi, deployments: Deployments, asked: bool
) -> None:
    async with open_api("lost") as api:
        group, (alice, bob, carol, dave) = await trio(api, "dave")
        talk = private_id(alice, bob)
        for number in range(9):
            await api.send(alice, group, mentions=[bob] if number % 2 == 0 else [carol], mentionAll=number == 7)
            await api.send(alice, bob, mentions=[bob] if number % 3 == 0 else [])
        await api.mark_read(bob, group, 3)
        await api.delete(carol, group)
        await api.send(dave, group, mentions=[carol])
        await api.send(alice, group)
        expected = [(bob, group, (8, 4)), (bob, talk, (9, 3)), (carol, group, (2, 1)), (dave, group, (1, 0))]
        if asked:
            for user, conversation, counted in expected:
                assert await counts(api, user, conversation) == counted, user
        await api.wait_until_idle()
        for _ in range(2):
            deployments.flush_redis("lost")
            for user, conversation, counted in expected:
                assert await counts(api, user, conversation) == counted, user
        await api.send(alice, group, mentionAll=True)
        assert await counts(api, bob, group) == (9, 5)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        assert (await api.mark_read(bob, group, 9))["unreadMentionCount"] == 1
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        assert await counts(api, bob, group) == (3, 1)


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
async def test_hundreds_are_counted_exactly(open_api: OpenApi, deployments: Deployments, lost: bool) -> None:
    async with open_api("hundreds") as api:
        group, (alice, bob, _) = await trio(api)
        await api.sessions(bob)
        for _ in range(8):
            await gather_all(*(api.send(alice, group, mentions=[bob]) for _ in range(40)))
        await api.send(alice, group)
        if lost:
            await api.wait_until_idle()
            deployments.flush_redis("hundreds")
        assert await counts(api, bob, group) == (321, 320)
        assert (await api.mark_read(bob, group, 100))["unreadMentionCount"] == 220


async def test_a_device_that_counts_by_itself_agrees(api: Api) -> None:
    group, (alice, bob, carol) = await trio(api)
    devices = [ApiDevice(api, user) for user in (bob, bob, carol)]
    for device in devices:
        await device.start()
    for mentions, everybody in (([bob], False), ([], False), ([bob, carol], True), ([carol], False)):
        await api.send(alice, group, mentions=mentions, mentionAll=everybody)
    await api.mark_read(bob, group, 2)
    await api.send(carol, group, mentions=[bob])
    for device in devices:
        await device.agrees()
    assert {device.sessions[group]["unreadMentionCount"] for device in devices[:2]} == {2}


async def test_who_comes_while_they_are_mentioned_counts_each_message_once(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("coming") as api:
        group, (alice, bob, _) = await trio(api)
        await api.sessions(alice)
        await api.send(alice, group)
        await api.wait_until_idle()
        mongo = api.services.app.store.mongo
        find, begun, go_on = mongo.find, asyncio.Event(), asyncio.Event()

        async def slow(collection: str, *query: Any, **options: Any) -> Any:
            if collection == SESSION_ROWS and not go_on.is_set():
                begun.set()
                await go_on.wait()
            return await find(collection, *query, **options)

        monkeypatch.setattr(mongo, "find", slow)
        coming = asyncio.create_task(api.session(bob, group))
        async with asyncio.timeout(2):
            await begun.wait()
        await api.send(alice, group, mentions=[bob])
        await api.send(alice, group, mentionAll=True)
        await asyncio.sleep(0.05)
        go_on.set()
        await coming
        await api.wait_until_idle()
        assert await counts(api, bob, group) == (3, 2)


async def test_somebody_far_back_in_a_large_group_is_counted_too(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    crowd = await api.create_many_users(f"u{secrets.token_hex(4)}", 900)
    group = await api.create_group(alice, *crowd)
    for user in (crowd[0], crowd[-1]):
        await api.sessions(user)
    await api.send(alice, group, mentions=[crowd[-1]])
    await api.send(alice, group, mentionAll=True)
    await api.send(alice, group)
    await api.wait_until_idle()
    for user, counted in ((crowd[0], (3, 1)), (crowd[-1], (3, 2)), (crowd[450], (3, 1))):
        assert await counts(api, user, group) == counted

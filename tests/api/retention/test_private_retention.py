"""Messages of private conversations and groups that expire, by a setting."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Json
from tests.api.conftest import Deployments
from tests.api.retention.calls import advance, dies_at_write, expire, remove_expired, send
from tests.api.retention.conftest import NAME
from tests.api.threads.calls import contents, find_thread, thread_of
from tests.checking import find_differences
from tests.clock import ManualClock

RANGES = "query ($id: ID!) { group(id: $id) { visibleRanges { fromSeq toSeq } } }"
OFFLINE = "{ offlineMessages { edges { node { content } } } }"
TOTALS = "{ totalUnread attention { unread mentions threads } }"
KINDS = ("private", "group")


async def begin(api: Api, kind: str) -> tuple[str, str, str]:
    """Return two users and their conversation."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    if kind == "group":
        return alice, bob, await api.create_group(alice, bob, carol)
    return alice, bob, (await send(api, alice, bob, "begin"))["conversationId"]


async def session_of(api: Api, user: str, conversation: str) -> Json:
    session = await api.session(user, conversation)
    assert session is not None
    return session


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_counts_follow_what_is_visible(
    processes: list[Api], api: Api, clock: ManualClock, deployments: Deployments, kind: str, is_cold: bool
) -> None:
    alice, bob, conversation = await begin(api, kind)
    await api.mark_read(bob, conversation)
    await api.assign(bob, "work", conversation)
    for number in range(3):
        await send(api, alice, conversation, f"old {number}", mentions=[bob])
    await advance(processes, clock, 20)
    await send(api, alice, conversation, "new 1")
    await send(api, alice, conversation, "new 2", mentions=[bob])
    before = await session_of(api, bob, conversation)
    assert (before["unreadCount"], before["unreadMentionCount"]) == (5, 4)
    await advance(processes, clock, 11)
    if is_cold:
        deployments.flush_redis(NAME)
    await expire(processes[1])
    for _ in range(2):
        for each in processes:
            assert await contents(each, bob, conversation) == ["new 1", "new 2"]
            session = await session_of(each, bob, conversation)
            assert (session["unreadCount"], session["unreadMentionCount"]) == (2, 1)
            assert session["writeSeq"] == before["writeSeq"]
            totals = await each.data(bob, TOTALS)
            assert totals == {"totalUnread": 2, "attention": {"unread": 2, "mentions": 1, "threads": 0}}
            (category,) = await each.categories(bob)
            assert (category["categoryId"], category["unreadCount"]) == ("work", 2)
            waiting = (await each.data(bob, OFFLINE))["offlineMessages"]["edges"]
            assert [edge["node"]["content"] for edge in waiting] == ["new 2", "new 1"]
        assert await find_differences(api.services.app.store) == []
        await remove_expired(processes, clock)
        deployments.flush_redis(NAME)
    await send(api, alice, conversation, "newest")
    assert (await session_of(api, bob, conversation))["unreadCount"] == 3


@pytest.mark.parametrize("kind", KINDS)
async def test_a_conversation_continues_after_all_messages_have_expired(
    processes: list[Api], api: Api, clock: ManualClock, deployments: Deployments, kind: str
) -> None:
    alice, bob, conversation = await begin(api, kind)
    last = await send(api, alice, conversation, "last")
    await advance(processes, clock, 31)
    await expire(api)
    await remove_expired(processes, clock)
    for _ in range(2):
        for each in processes:
            session = await session_of(each, bob, conversation)
            assert (session["unreadCount"], session["status"], session["lastMessage"]) == (0, "ACTIVE", None)
            assert await contents(each, bob, conversation) == []
        assert await find_differences(api.services.app.store) == []
        deployments.flush_redis(NAME)
    assert (await send(processes[2], bob, conversation, "again"))["seq"] == last["seq"] + 1
    assert (await session_of(api, alice, conversation))["unreadCount"] == 1
    assert await contents(api, alice, conversation) == ["again"]


async def test_ranges_of_a_group_begin_after_the_floor(processes: list[Api], api: Api, clock: ManualClock) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, dave)
    old = await send(api, alice, group, "old")
    await send(api, alice, old["id"], "a reply", mentions=[bob])
    await advance(processes, clock, 20)
    await api.invite(alice, group, carol)
    new = await send(api, alice, group, "new")
    await advance(processes, clock, 11)
    await expire(api)
    for each in processes:
        assert (await each.data(bob, RANGES, id=group))["group"]["visibleRanges"] == [
            {"fromSeq": old["seq"] + 1, "toSeq": None}
        ]
        assert (await each.data(carol, RANGES, id=group))["group"]["visibleRanges"] == [
            {"fromSeq": new["seq"] - 1, "toSeq": None}
        ]
        assert await find_thread(each, bob, thread_of(old)) is None
        waiting = (await each.data(bob, OFFLINE))["offlineMessages"]["edges"]
        assert [edge["node"]["content"] for edge in waiting] == ["new"]
    await remove_expired(processes, clock)
    for each in processes:
        assert (await each.data(bob, TOTALS))["attention"] == {"unread": 1, "mentions": 0, "threads": 0}
    assert await find_differences(api.services.app.store) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_receipts_of_expired_messages_are_removed_and_none_is_sent(
    processes: list[Api], api: Api, clock: ManualClock, kind: str
) -> None:
    alice, bob, conversation = await begin(api, kind)
    await send(api, alice, conversation, "read")
    await api.mark_read(bob, conversation)
    await send(api, alice, conversation, "unread")
    await advance(processes, clock, 31)
    live = await api.listen(alice)
    await expire(api)
    await remove_expired(processes, clock)
    await live.expect_no_event()
    assert [row["_id"] for row in api.database["receipts"].find() if row["_id"].startswith(conversation)] == []


async def test_devices_are_sent_one_event_of_a_session(processes: list[Api], api: Api, clock: ManualClock) -> None:
    alice, bob, conversation = await begin(api, "private")
    for number in range(5):
        await send(api, alice, conversation, f"old {number}")
    await advance(processes, clock, 20)
    await send(api, alice, conversation, "new")
    await advance(processes, clock, 11)
    live = await processes[2].listen(bob, LIVE)
    await expire(api)
    event = await live.next()
    assert [session["unreadCount"] for session in event["sessions"]] == [1]
    await live.expect_no_event()


LIVE = "subscription { syncSession { reason reset sessions { unreadCount } } }"


@pytest.mark.parametrize("step", range(8))
async def test_another_server_continues_in_a_group(
    processes: list[Api], api: Api, clock: ManualClock, step: int
) -> None:
    alice, bob, group = await begin(api, "group")
    old = await send(api, alice, group, "old", mentions=[bob])
    await send(api, bob, old["id"], "a reply")
    await advance(processes, clock, 20)
    new = await send(api, alice, group, "new")
    await advance(processes, clock, 11)
    with dies_at_write(processes[-1].services.app.store.mongo, step):
        await expire(processes[-1])
        await remove_expired(processes, clock)
    await expire(api)
    await remove_expired(processes[:2], clock)
    assert [row["s"] for row in api.database["messages"].find({"c": group})] == [new["seq"]]
    for each in processes:
        assert (await session_of(each, bob, group))["unreadCount"] == 1
        assert await contents(each, bob, group) == ["new"]
    assert await find_differences(api.services.app.store) == []


async def test_sessions_of_members_who_only_looked_at_a_thread_are_removed(
    processes: list[Api], api: Api, clock: ManualClock
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    thread = thread_of(old := await send(api, alice, group, "old"))
    await send(api, bob, old["id"], "a reply")
    await api.mark_read(carol, thread)
    rows = [row["_id"] for row in api.database["sessions"].find() if row["_id"].endswith(thread)]
    assert f"{carol}\t{thread}" in rows
    await advance(processes, clock, 31)
    await expire(api)
    await remove_expired(processes, clock)
    assert [row["_id"] for row in api.database["sessions"].find() if row["_id"].endswith(thread)] == []

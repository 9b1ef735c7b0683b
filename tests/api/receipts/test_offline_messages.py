"""offlineMessages: what waits for a user's devices to come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.client import Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.receipt_calls import OFFLINE, Receipts


@pytest.fixture
def receipts(api: Api) -> Receipts:
    return Receipts(api)


def ids(messages: list[Json]) -> list[str]:
    return [message["id"] for message in messages]


async def test_what_was_not_delivered_waits_newest_first(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = [(await api.send(sender, to))["message"] for sender, to in ((alice, bob), (carol, group), (carol, bob)) * 2]
    sent += [(await api.send(alice, bob, subBiz="shop"))["message"]]
    waiting = await receipts.offline(bob)
    assert ids(waiting) == ids(sent[::-1])
    assert waiting[0]["conversationId"] == private_id(alice, bob, "shop")
    assert await receipts.offline(alice) == [m for m in waiting if m["conversationId"] == group]


async def test_ones_own_and_what_the_server_wrote_never_wait(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    await api.send(alice, bob)
    # An invitation after what bob was sent is in the way of neither.
    await api.invite(carol, group, dave)
    assert await receipts.offline(alice) == []
    assert await receipts.offline(dave) == []
    assert [m["contentType"] for m in await receipts.offline(bob)] == ["TEXT", "TEXT"]
    bot = (await api.send(dave, group, contentType="BOT_COMMAND"))["message"]
    assert ids(await receipts.offline(alice)) == [bot["id"]]


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (lambda api, user, where: api.ack(user, where, 2), 1),
        (lambda api, user, where: api.ack(user, where, 3), 0),
        (lambda api, user, where: api.mark_read(user, where, 1), 2),
        (lambda api, user, where: api.mark_read(user, where), 0),
        (lambda api, user, where: api.delete(user, where), 0),
        (lambda api, user, where: api.send(user, where), 0),
        (lambda api, user, where: api.mute(user, where), 3),
        (lambda api, user, where: api.set_unread(user, where), 3),
    ],
    ids=["ack in part", "ack", "read in part", "read", "delete", "send", "mute", "setUnread"],
)
async def test_what_shrinks_the_queue(receipts: Receipts, act: Callable[..., Any], left: int) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = [(await api.send(alice, group))["message"] for _ in range(3)]
    other = (await api.send(carol, bob))["message"]
    assert ids(await receipts.offline(bob)) == ids([other, *sent[::-1]])
    await act(api, bob, group)
    assert ids(await receipts.offline(bob)) == ids([other, *sent[3 - left :][::-1]])


async def test_what_comes_after_a_deletion_waits_and_what_came_before_does_not(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await api.delete(bob, private_id(alice, bob))
    later = (await api.send(alice, bob))["message"]
    assert ids(await receipts.offline(bob)) == [later["id"]]


async def test_whoever_joins_has_nothing_waiting_from_before(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, historyVisibility="FULL")
    await api.send(alice, group)
    await api.invite(alice, group, dave)
    assert await receipts.offline(dave) == []
    later = (await api.send(alice, group))["message"]
    assert ids(await receipts.offline(dave)) == [later["id"]]


async def test_pages_stay_where_they_are_while_messages_arrive(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = [(await api.send(sender, bob))["message"] for sender in (alice, carol) * 5]
    seen: list[str] = []
    after = None
    while True:
        page = (await api.data(bob, OFFLINE, first=3, after=after))["offlineMessages"]
        info = page["pageInfo"]
        assert info["hasPreviousPage"] == (after is not None)
        seen += [edge["node"]["id"] for edge in page["edges"]]
        after = info["endCursor"]
        if not info["hasNextPage"]:
            break
        assert len(page["edges"]) == 3
        await api.send(alice, bob)
    assert seen == ids(sent[::-1])


async def test_the_queue_is_whole_though_redis_lost_everything(open_api: OpenApi, deployments: Deployments) -> None:
    async with open_api("lost") as api:
        receipts = Receipts(api)
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        sent = [(await api.send(sender, to))["message"] for sender, to in ((alice, bob), (carol, group)) * 3]
        await api.ack(bob, group, 1)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        assert ids(await receipts.offline(bob)) == [
            m["id"] for m in sent[::-1] if (m["conversationId"], m["seq"]) != (group, 1)
        ]


async def test_conversations_that_one_query_can_not_hold_are_one_queue(
    receipts: Receipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.messages.message_store._MOST_RANGES", 4)
    api = receipts.api
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(10)))
    await gather_all(*(api.send(other, alice) for other in others * 2))
    waiting = await receipts.offline(alice, page=7)
    assert sorted(message["sender"]["id"] for message in waiting) == sorted(others * 2)
    numbers = [int(message["id"][2:]) for message in waiting]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize("first", [0, -1, 101, None])
async def test_a_page_has_from_1_to_100_messages(api: Api, first: int | None) -> None:
    (alice,) = await api.create_users("alice")
    assert await api.expect_refusal(alice, OFFLINE, first=first) == Refusal("INVALID_INPUT", "first")


async def test_a_cursor_is_good_for_its_user_only(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(2):
        await api.send(alice, bob)
    page = (await api.data(bob, OFFLINE, first=1))["offlineMessages"]
    cursor = page["pageInfo"]["endCursor"]
    assert len((await api.data(bob, OFFLINE, after=cursor))["offlineMessages"]["edges"]) == 1
    history = "query ($id: ID!) { messages(conversationId: $id, last: 1) { pageInfo { endCursor } } }"
    foreign = (await api.data(bob, history, id=private_id(alice, bob)))["messages"]["pageInfo"]["endCursor"]
    for user, wrong in ((alice, cursor), (bob, foreign), (bob, ""), (bob, "nonsense")):
        assert await api.expect_refusal(user, OFFLINE, after=wrong) == Refusal("INVALID_INPUT", "after")


async def test_nobody_without_a_token_has_a_queue(api: Api) -> None:
    assert (await api.expect_refusal(None, OFFLINE)).code == "UNAUTHENTICATED"

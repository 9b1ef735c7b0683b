"""offlineMessages: messages that no device of the user has received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.client import Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import Deployments
from tests.api.receipt_calls import OFFLINE, Receipts


@pytest.fixture
def receipts(api: Api) -> Receipts:
    return Receipts(api)


def message_ids(messages: list[Json]) -> list[str]:
    return [message["id"] for message in messages]


async def test_undelivered_messages_are_listed_newest_first(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = [(await api.send(sender, to))["message"] for sender, to in ((alice, bob), (carol, group), (carol, bob)) * 2]
    sent += [(await api.send(alice, bob, subBiz="shop"))["message"]]
    queue = await receipts.offline(bob)
    assert message_ids(queue) == message_ids(sent[::-1])
    assert queue[0]["conversationId"] == private_id(alice, bob, "shop")
    assert await receipts.offline(alice) == [m for m in queue if m["conversationId"] == group]


async def test_own_messages_and_system_messages_are_never_listed(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    await api.send(alice, bob)
    # The SYSTEM message of an invitation hides nothing that bob has not received, and is no offline message itself.
    await api.invite(carol, group, dave)
    assert await receipts.offline(alice) == []
    assert await receipts.offline(dave) == []
    assert [m["contentType"] for m in await receipts.offline(bob)] == ["TEXT", "TEXT"]
    bot = (await api.send(dave, group, contentType="BOT_COMMAND"))["message"]
    assert message_ids(await receipts.offline(alice)) == [bot["id"]]


@pytest.mark.parametrize(
    ("change", "remaining"),
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
async def test_the_queue_shrinks_by_messages_delivered_read_or_deleted(
    receipts: Receipts, change: Callable[..., Any], remaining: int
) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = [(await api.send(alice, group))["message"] for _ in range(3)]
    other = (await api.send(carol, bob))["message"]
    assert message_ids(await receipts.offline(bob)) == message_ids([other, *sent[::-1]])
    await change(api, bob, group)
    assert message_ids(await receipts.offline(bob)) == message_ids([other, *sent[3 - remaining :][::-1]])


async def test_only_messages_after_a_deletion_are_listed(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await api.delete(bob, private_id(alice, bob))
    later = (await api.send(alice, bob))["message"]
    assert message_ids(await receipts.offline(bob)) == [later["id"]]


async def test_messages_before_joining_are_not_listed(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, historyVisibility="FULL")
    await api.send(alice, group)
    await api.invite(alice, group, dave)
    assert await receipts.offline(dave) == []
    later = (await api.send(alice, group))["message"]
    assert message_ids(await receipts.offline(dave)) == [later["id"]]


async def test_pages_are_stable_while_messages_arrive(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = [(await api.send(sender, bob))["message"] for sender in (alice, carol) * 5]
    listed: list[str] = []
    after = None
    while True:
        page = (await api.data(bob, OFFLINE, first=3, after=after))["offlineMessages"]
        info = page["pageInfo"]
        assert info["hasPreviousPage"] == (after is not None)
        listed += [edge["node"]["id"] for edge in page["edges"]]
        after = info["endCursor"]
        if not info["hasNextPage"]:
            break
        assert len(page["edges"]) == 3
        await api.send(alice, bob)
    assert listed == message_ids(sent[::-1])


async def test_the_queue_survives_the_loss_of_redis(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    receipts = Receipts(api)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = [(await api.send(sender, to))["message"] for sender, to in ((alice, bob), (carol, group)) * 3]
    await api.ack(bob, group, 1)
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    assert message_ids(await receipts.offline(bob)) == [
        m["id"] for m in sent[::-1] if (m["conversationId"], m["seq"]) != (group, 1)
    ]


async def test_conversations_of_several_queries_make_one_queue(
    receipts: Receipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.messages.message_store._MAX_RANGES", 4)
    api = receipts.api
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(10)))
    await gather_all(*(api.send(other, alice) for other in others * 2))
    queue = await receipts.offline(alice, page=7)
    assert sorted(message["sender"]["id"] for message in queue) == sorted(others * 2)
    numbers = [int(message["id"][2:]) for message in queue]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize("first", [0, -1, 101, None])
async def test_a_page_has_from_1_to_100_messages(api: Api, first: int | None) -> None:
    (alice,) = await api.create_users("alice")
    assert await api.expect_refusal(alice, OFFLINE, first=first) == Refusal("INVALID_INPUT", "first")


async def test_a_cursor_is_valid_for_its_user_only(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(2):
        await api.send(alice, bob)
    page = (await api.data(bob, OFFLINE, first=1))["offlineMessages"]
    cursor = page["pageInfo"]["endCursor"]
    assert len((await api.data(bob, OFFLINE, after=cursor))["offlineMessages"]["edges"]) == 1
    history = "query ($id: ID!) { messages(conversationId: $id, last: 1) { pageInfo { endCursor } } }"
    history_cursor = (await api.data(bob, history, id=private_id(alice, bob)))["messages"]["pageInfo"]["endCursor"]
    for user, wrong in ((alice, cursor), (bob, history_cursor), (bob, ""), (bob, "nonsense")):
        assert await api.expect_refusal(user, OFFLINE, after=wrong) == Refusal("INVALID_INPUT", "after")


async def test_the_queue_needs_a_token(api: Api) -> None:
    assert (await api.expect_refusal(None, OFFLINE)).code == "UNAUTHENTICATED"

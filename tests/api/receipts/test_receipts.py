"""Message.receipts: the status of a message for each recipient."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pytest

from tests.api.client import Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import OpenApi
from tests.api.receipt_calls import RECEIPTS, Receipts


@pytest.fixture
def receipts(api: Api) -> Receipts:
    return Receipts(api)


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_the_status_of_a_private_message_only_grows(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob))["message"]
    (row,) = await receipts.rows(alice, message)
    assert row == {"user": {"id": bob}, "status": "SENT", "deliveredAt": None, "readAt": None}
    await api.ack(bob, private_id(alice, bob), 1)
    (delivered,) = await receipts.rows(alice, message)
    assert (delivered["status"], delivered["readAt"]) == ("DELIVERED", None)
    assert parse_time(delivered["deliveredAt"]) >= parse_time(message["createdAt"])
    await api.mark_read(bob, private_id(alice, bob))
    (read,) = await receipts.rows(alice, message)
    assert (read["status"], read["deliveredAt"]) == ("READ", delivered["deliveredAt"])
    assert parse_time(read["readAt"]) > parse_time(read["deliveredAt"])
    await api.ack(bob, private_id(alice, bob), 1)
    assert await receipts.rows(alice, message) == [read]


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_reading_an_undelivered_message_sets_both_times(receipts: Receipts, kind: str) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
    message = (await api.send(alice, conversation if kind == "group" else bob))["message"]
    await api.mark_read(bob, conversation)
    row = (await receipts.rows(alice, message))[0]
    assert row["user"] == {"id": bob}
    assert row["status"] == "READ"
    assert row["deliveredAt"] == row["readAt"] is not None


async def test_each_recipient_has_their_own_status_and_times(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    first, second, third = [(await api.send(alice, group))["message"] for _ in range(3)]
    await api.ack(bob, group, 2)
    await api.mark_read(carol, group, 1)
    await api.ack(carol, group, 3)
    assert await receipts.statuses(alice, first) == {bob: "DELIVERED", carol: "READ", dave: "SENT"}
    assert await receipts.statuses(alice, second) == {bob: "DELIVERED", carol: "DELIVERED", dave: "SENT"}
    assert await receipts.statuses(alice, third) == {bob: "SENT", carol: "DELIVERED", dave: "SENT"}
    early, late = [(await receipts.rows(alice, message))[1] for message in (first, second)]
    assert parse_time(early["deliveredAt"]) == parse_time(early["readAt"]) < parse_time(late["deliveredAt"])


async def test_times_are_those_of_the_first_acknowledgement_covering_a_message(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    messages = [(await api.send(alice, bob))["message"] for _ in range(4)]
    for seq in (2, 1, 3, 2, 4):
        await api.ack(bob, private_id(alice, bob), seq)
    rows = [(await receipts.rows(alice, message))[0] for message in messages]
    times = [parse_time(row["deliveredAt"]) for row in rows]
    assert times[0] == times[1] < times[2] < times[3]
    await api.mark_read(bob, private_id(alice, bob), 3)
    await api.mark_read(bob, private_id(alice, bob))
    read = [(await receipts.rows(alice, message))[0] for message in messages]
    assert [parse_time(row["deliveredAt"]) for row in read] == times
    times = [parse_time(row["readAt"]) for row in read]
    assert times[0] == times[1] == times[2] < times[3]


async def test_a_later_member_is_no_recipient_of_earlier_messages(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, historyVisibility="FULL")
    before = (await api.send(alice, group))["message"]
    await api.invite(alice, group, dave)
    after = (await api.send(alice, group))["message"]
    await api.mark_read(dave, group)
    await api.ack(bob, group, 3)
    assert await receipts.statuses(alice, before) == {bob: "DELIVERED", carol: "SENT"}
    assert await receipts.statuses(alice, after) == {bob: "DELIVERED", carol: "SENT", dave: "READ"}


async def test_receipts_can_be_filtered_by_status(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    message = (await api.send(alice, group))["message"]
    await api.ack(bob, group, 1)
    await api.mark_read(carol, group)
    for status, user in (("DELIVERED", bob), ("READ", carol), ("SENT", dave)):
        assert await receipts.statuses(alice, message, status=status) == {user: status}
    direct = (await api.send(alice, bob))["message"]
    assert await receipts.statuses(alice, direct, status="SENT") == {bob: "SENT"}
    assert await receipts.statuses(alice, direct, status="READ") == {}
    await api.mark_read(bob, private_id(alice, bob))
    assert await receipts.statuses(alice, direct, status="SENT") == {}
    assert await receipts.statuses(alice, direct, status="READ") == {bob: "READ"}


async def test_receipts_of_a_large_group_are_paged_by_user(open_api: OpenApi) -> None:
    async with open_api("large") as api:
        receipts = Receipts(api)
        alice, *_ = await api.create_users("alice")
        recipients = await api.create_many_users("u", 249)
        group = await api.create_group(alice, *recipients)
        message = (await api.send(alice, group))["message"]
        await gather_all(*(api.ack(user, group, 1) for user in recipients[::10]))
        edges: list[Json] = []
        after, more = None, True
        while more:
            page = await receipts.page(alice, message, first=100, after=after)
            assert page is not None
            info = page["pageInfo"]
            assert info["hasPreviousPage"] == (after is not None)
            edges += page["edges"]
            after, more = info["endCursor"], info["hasNextPage"]
        assert [edge["node"]["user"]["id"] for edge in edges] == sorted(recipients)
        assert len({edge["cursor"] for edge in edges}) == len(recipients)
        statuses = {edge["node"]["user"]["id"]: edge["node"]["status"] for edge in edges}
        assert statuses == {user: "DELIVERED" if i % 10 == 0 else "SENT" for i, user in enumerate(recipients)}
        delivered = await receipts.statuses(alice, message, first=7, status="DELIVERED")
        assert list(delivered) == recipients[::10][:7]


async def test_a_cursor_is_valid_for_one_message_only(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group, other = [await api.create_group(alice, bob, carol, dave) for _ in range(2)]
    message, next_message = [(await api.send(alice, group))["message"] for _ in range(2)]
    other_message = (await api.send(alice, other))["message"]
    page = await receipts.page(alice, message, first=1)
    assert page is not None
    cursor = page["pageInfo"]["endCursor"]
    assert list(await receipts.statuses(alice, message, after=cursor)) == [carol, dave]
    members = "query ($id: ID!) { group(id: $id) { members(first: 1) { pageInfo { endCursor } } } }"
    members_cursor = (await api.data(alice, members, id=group))["group"]["members"]["pageInfo"]["endCursor"]
    for wrong, message_read in (
        (cursor, next_message),
        (cursor, other_message),
        (members_cursor, message),
        ("", message),
        ("x", message),
    ):
        refusal = await api.expect_refusal(alice, RECEIPTS, id=message_read["id"], after=wrong)
        assert refusal == Refusal("INVALID_INPUT", "after"), wrong


@pytest.mark.parametrize("first", [0, -1, 101, None])
async def test_a_page_has_from_1_to_100_receipts(receipts: Receipts, first: int | None) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob))["message"]
    assert await api.expect_refusal(alice, RECEIPTS, id=message["id"], first=first) == Refusal("INVALID_INPUT", "first")


async def test_only_the_sender_sees_receipts(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(alice, group))["message"]
    await api.invite(alice, group, dave)
    direct = (await api.send(alice, bob))["message"]
    system = (await api.history(alice, group))[-1]
    assert (system["contentType"], system["sender"]["id"]) == ("SYSTEM", alice)
    for viewer, message_read in ((bob, message), (carol, message), (bob, direct), (alice, system)):
        assert await receipts.page(viewer, message_read) is None
    assert await receipts.page(alice, message) is not None


async def test_receipts_of_a_page_of_messages_count_towards_the_query_cost(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    query = """query ($id: ID!, $rows: Int!) { messages(conversationId: $id, last: 100) {
        edges { node { receipts(first: $rows) { edges { node { status } } } } } } }"""
    assert "errors" not in await api.run(alice, query, id=group, rows=90)
    assert (await api.expect_refusal(alice, query, id=group, rows=100)).code == "QUERY_TOO_COMPLEX"


async def test_times_never_go_back_with_concurrent_acknowledgements(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    messages = [(await api.send(alice, group))["message"] for _ in range(8)]
    await gather_all(
        *(api.ack(bob, group, seq) for seq in (3, 8, 1, 6)), *(api.mark_read(bob, group, seq) for seq in (2, 7, 5))
    )
    rows = [(await receipts.rows(alice, message))[0] for message in messages]
    assert [row["status"] for row in rows] == ["READ"] * 7 + ["DELIVERED"]
    for row in rows[:7]:
        assert parse_time(row["deliveredAt"]) <= parse_time(row["readAt"])
    for earlier, later in pairwise(rows):
        assert parse_time(earlier["deliveredAt"]) <= parse_time(later["deliveredAt"])

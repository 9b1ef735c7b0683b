"""Receipts are found by their marks, and a search costs what it finds, not what is stored."""

from __future__ import annotations

from itertools import zip_longest
from random import Random
from typing import Any

import pytest
from pymongo import MongoClient

from store.base.ids import ConversationId, UserId, private_id
from store.mongo.collections import MEMBERS, RECEIPTS, member_row_id, receipt_row_id
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark
from store.receipts.receipt_pages import Receipt, ReceiptQuery, ReceiptWindow, receipts_pipeline
from store.store import Store

GROUP = ConversationId("g_1")
ANNA, BEN = UserId("anna"), UserId("ben")
MEMBER_COUNT, MARKS = 300, 40


async def _group(store: Store, *intervals: tuple[str, list[list[int]]]) -> None:
    rows = [{"_id": member_row_id(GROUP, UserId(user)), "r": "MEMBER", "i": i, "j": 1, "v": 0} for user, i in intervals]
    await store.mongo.insert_many(MEMBERS, rows)


def _query(seq: int, **more: Any) -> ReceiptQuery:
    return ReceiptQuery(GROUP, ANNA, seq, status=None, after="", limit=100)._replace(**more)


async def _read(store: Store, query: ReceiptQuery) -> list[Receipt]:
    return (await store.receipts.read_receipts([query]))[query].page(query)


async def _found(store: Store, seq: int, **more: Any) -> list[UserId]:
    return [r.user for r in await _read(store, _query(seq, **more))]


async def test_recipients_are_the_members_at_the_time_of_the_message(store: Store) -> None:
    stays, left, back = [[1, -1]], [[1, 4]], [[2, 3], [6, -1]]
    await _group(store, ("anna", stays), ("ben", stays), ("carol", left), ("dave", back))
    there = {1: ["ben", "carol"], 2: ["ben", "carol", "dave"], 4: ["ben", "carol"], 5: ["ben"], 6: ["ben", "dave"]}
    assert {seq: await _found(store, seq) for seq in there} == there


async def test_other_conversations_and_members_are_unaffected(store: Store) -> None:
    # Ids with the same beginning.
    await _group(store, ("ben", [[1, -1]]), ("ben.b", [[1, -1]]))
    await store.mongo.insert_many(MEMBERS, [{"_id": "g_12 ben", "r": "MEMBER", "i": [[1, -1]], "j": 1, "v": 0}])
    await store.receipts.save_marks([ReceiptMark(GROUP, BEN, ReceiptKind.READ, 3)], 100)
    rows = await _read(store, _query(2))
    assert [(r.user, r.status, r.delivered_at_ms, r.read_at_ms) for r in rows] == [
        ("ben", ReceiptKind.READ, 100, 100),
        ("ben.b", None, None, None),
    ]
    assert await _found(store, 2, after="ben") == ["ben.b"]
    assert await _found(store, 2, status="SENT") == ["ben.b"]


@pytest.mark.parametrize("conversation", [GROUP, private_id(ANNA, BEN)])
async def test_a_repeated_mark_keeps_its_time_and_no_position_goes_back(
    store: Store, conversation: ConversationId
) -> None:
    await _group(store, ("ben", [[1, -1]]))
    if conversation != GROUP:
        await store.conversations.open_private(conversation, 1)
    for seq, kind, at in ((5, ReceiptKind.READ, 50), (3, ReceiptKind.DELIVERED, 60), (5, ReceiptKind.READ, 70)):
        await store.receipts.save_marks([ReceiptMark(conversation, BEN, kind, seq)], at)
    people = (await store.receipts.list_recipients([conversation]))[conversation]
    assert {p.user: (p.delivered, p.read) for p in people}[BEN] == (5, 5)
    (row,) = await _read(store, _query(4, conversation=conversation))
    assert (row.delivered_at_ms, row.read_at_ms) == (50, 50)
    assert [await store.receipts.find_last_read(conversation, BEN, seq) for seq in (1, 5, 6, 9)] == [0, 0, 5, 5]


async def test_acknowledging_creates_no_membership(store: Store) -> None:
    await store.receipts.save_marks([ReceiptMark(GROUP, BEN, ReceiptKind.READ, 1)], 1)
    assert await store.mongo.find(MEMBERS, {}) == []


async def test_a_page_of_receipts_reads_only_its_own_marks(store: Store, mongo_url: str, emptied_database: str) -> None:
    users = [f"u{number:03}" for number in range(MEMBER_COUNT)]
    await _group(store, *((user, [[1, -1]]) for user in users))
    kinds = ("D", "R")
    rows = [
        {"_id": receipt_row_id(GROUP, UserId(user), kind, seq), "at": seq}
        for user in users
        for kind in kinds
        for seq in range(1, MARKS + 1)
    ]
    await store.mongo.insert_many(RECEIPTS, rows)
    pipeline = receipts_pipeline(ReceiptWindow.of([_query(7, after="u099", limit=20), _query(9)]))
    with MongoClient[dict[str, Any]](mongo_url) as client:
        command = {"aggregate": MEMBERS, "pipeline": pipeline, "cursor": {}}
        plan = client[emptied_database].command("explain", command, verbosity="executionStats")
    stages = plan["stages"]
    looked = stages[0]["$cursor"]["executionStats"]
    assert looked["totalDocsExamined"] <= 21
    lookups = [stage for stage in stages if "$lookup" in stage]
    assert len(lookups) == 2
    for stage in lookups:
        assert stage["indexesUsed"] == ["_id_"]
        assert stage["collectionScans"] == 0
        # For each recipient on the page, a mark at each seq of the window and the next one.
        assert stage["totalDocsExamined"] <= 20 * 4


@pytest.mark.parametrize("seed", range(3))
async def test_messages_that_are_read_together_have_the_receipts_of_each_alone(store: Store, seed: int) -> None:
    random, last = Random(seed), 80
    members = {f"u{number:02}": _intervals(random, last) for number in range(12)}
    await _group(store, *members.items())
    marks: dict[tuple[str, ReceiptKind], dict[int, int]] = {}
    for user in members:
        for kind in ReceiptKind:
            seqs = sorted(random.sample(range(1, last), random.choice((0, 1, 5, 40))))
            marks[user, kind] = {seq: 1_000 + 10 * seq + random.randrange(10) for seq in seqs}
            for seq, at in marks[user, kind].items():
                await store.receipts.save_marks([ReceiptMark(GROUP, UserId(user), kind, seq)], at)

    def expected(query: ReceiptQuery) -> list[Receipt]:
        page = []
        for user, intervals in members.items():
            times = {k: next((at for s, at in marks[user, k].items() if s >= query.seq), None) for k in ReceiptKind}
            reached = [time for time in times.values() if time is not None]
            read = times[ReceiptKind.READ]
            status = ReceiptKind.READ if read is not None else ReceiptKind.DELIVERED if reached else None
            is_member = any(first <= query.seq and end in (-1, *range(query.seq, last)) for first, end in intervals)
            is_wanted = query.status in (None, status.name if status else "SENT")
            if user > query.after and is_member and is_wanted:
                page.append(Receipt(UserId(user), status, min(reached, default=None), read))
        return page[: query.limit]

    queries = [
        _query(seq, status=status, after=after, limit=limit)
        for seq in random.sample(range(1, last), 50)
        for status in (None, "READ", "DELIVERED", "SENT")
        for after, limit in (("", 100), ("u03", 3))
    ]
    found = await store.receipts.read_receipts(queries)
    assert {query: rows.page(query) for query, rows in found.items()} == {query: expected(query) for query in queries}


def _intervals(random: Random, last: int) -> list[list[int]]:
    """Return one or two memberships of a user, the last of which may not have ended."""
    ends = sorted(random.sample(range(1, last), random.choice((1, 2, 3, 4))))
    return [[first, end] for first, end in zip_longest(ends[::2], ends[1::2], fillvalue=-1)]

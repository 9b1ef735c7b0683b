"""The messages of one user in a conversation: complete, in order, in bounded steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from store.base.ids import BUCKET_SIZE, ConversationId, MessageId, UserId
from store.base.snowflakes import EPOCH_MS, first_id_at
from store.messages import written_messages
from store.messages.message import Message, MessageKind
from store.messages.written_messages import SEQS_PER_STEP, WrittenBatch
from store.mongo.collections import MESSAGES
from store.store import Store
from tests.targeting import as_sharded

CONVERSATION = ConversationId("g_1.1")
ALICE, BOB = UserId("alice"), UserId("bob")
SECOND = 1_000


async def insert(store: Store, seqs: Iterable[int], sender: UserId) -> None:
    """Insert messages, the one with seq n sent n seconds after the epoch of ids."""
    rows = [
        Message(MessageId(first_id_at(EPOCH_MS + seq * SECOND)), CONVERSATION, sender, MessageKind.TEXT, "", seq=seq)
        for seq in seqs
    ]
    await store.mongo.insert_many(MESSAGES, [message.to_document() for message in rows])


async def collect(batches: AsyncIterator[WrittenBatch]) -> tuple[list[int], list[int]]:
    """Return the seqs of all messages, and the last seq of each batch."""
    found = [batch async for batch in batches]
    return [message.seq for batch in found for message in batch.messages], [batch.last_seq for batch in found]


async def test_batches_have_all_messages_of_the_user_in_order(store: Store) -> None:
    own = [1, 2, SEQS_PER_STEP, SEQS_PER_STEP + 1, BUCKET_SIZE - 1, BUCKET_SIZE, BUCKET_SIZE + 7]
    await insert(store, own, ALICE)
    await insert(store, set(range(1, BUCKET_SIZE + 10)) - set(own), BOB)
    with as_sharded(filled=True) as watch:
        seqs, ends = await collect(store.written_messages.list_batches(CONVERSATION, [ALICE]))
        assert watch.untargeted == []
    assert seqs == own
    assert ends == [SEQS_PER_STEP, 2 * SEQS_PER_STEP, BUCKET_SIZE + 9]
    assert (await collect(store.written_messages.list_batches(CONVERSATION, [ALICE], 2, BUCKET_SIZE)))[0] == own[2:-1]


async def test_a_long_gap_costs_one_step(store: Store) -> None:
    await insert(store, [1, 50 * SEQS_PER_STEP], ALICE)
    seqs, ends = await collect(store.written_messages.list_batches(CONVERSATION, [ALICE]))
    assert seqs == [1, 50 * SEQS_PER_STEP]
    assert len(ends) == 3


async def test_a_conversation_without_messages_has_no_batches(store: Store) -> None:
    assert await collect(store.written_messages.list_batches(CONVERSATION, [ALICE])) == ([], [])
    assert await collect(store.written_messages.list_since(CONVERSATION, ALICE, EPOCH_MS)) == ([], [])


@pytest.mark.parametrize(("since", "expected"), [(0, 300), (250, 51), (300, 1), (301, 0)])
async def test_messages_since_a_time_are_found(store: Store, since: int, expected: int) -> None:
    await insert(store, range(1, 301), ALICE)
    since_ms = EPOCH_MS + since * SECOND
    seqs, _ = await collect(store.written_messages.list_since(CONVERSATION, ALICE, since_ms))
    assert seqs == list(range(301 - expected, 301))


async def test_a_scan_continues_after_a_batch(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_messages, "SEQS_PER_STEP", 10)
    await insert(store, range(1, 35), ALICE)
    first = await anext(store.written_messages.list_since(CONVERSATION, ALICE, EPOCH_MS))
    rest, _ = await collect(store.written_messages.list_since(CONVERSATION, ALICE, EPOCH_MS, first.last_seq))
    assert [message.seq for message in first.messages] + rest == list(range(1, 35))

"""Messages that are stored again, or at a seq that is taken: their effects happen once, at the right seq."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId, MessageId, UserId, private_id
from store.messages.message import CommittedMessage, Message, MessageKind, ReservedMessage
from store.messages.outbox.places import ReservationReason
from store.mongo.collections import CONVERSATIONS, SESSIONS, session_row_id
from store.redis.cache import Call
from store.store import Store

ALICE, BOB = UserId("alice"), UserId("bob")
TALK = private_id(ALICE, BOB)


@pytest.fixture
async def talk(store: Store) -> ConversationId:
    """A conversation without messages."""
    await store.conversations.open_private(TALK, 1)
    await store.conversations.find(TALK)
    return TALK


async def _reserved(store: Store, conversation: ConversationId, *mentions: UserId) -> ReservedMessage:
    message = Message(MessageId(store.ids.next()), conversation, ALICE, MessageKind.TEXT, "hello", mentions=mentions)
    place = await store.outbox.reserve(message)
    assert isinstance(place, ReservedMessage)
    return place


async def _commit(
    store: Store, reserved: ReservedMessage, *, after_ms: int = 0, messages_first: bool = False
) -> tuple[list[CommittedMessage], list[ReservedMessage]]:
    return await store.commits.commit(
        [reserved], [reserved.message.created_at_ms + after_ms], messages_first=messages_first
    )


async def test_a_message_stored_again_keeps_its_commit_timestamp(store: Store, talk: ConversationId) -> None:
    reserved = await _reserved(store, talk)
    await _commit(store, reserved)
    before = await store.mongo.find_one(CONVERSATIONS, {"_id": talk})
    assert before is not None and before["w"] == reserved.message.created_at_ms
    (durable,), again = await _commit(store, reserved, after_ms=60_000, messages_first=True)
    assert (durable.at_ms, again) == (reserved.message.created_at_ms, [])
    assert await store.mongo.find_one(CONVERSATIONS, {"_id": talk}) == before


async def test_a_stored_message_keeps_its_seq_when_given_another(store: Store, talk: ConversationId) -> None:
    first = await _reserved(store, talk)
    await _commit(store, first)
    later = await store.outbox.reserve(first.message.with_place(0, 0), ReservationReason.DISPLACED_MESSAGE)
    assert isinstance(later, ReservedMessage) and later.message.seq == 2
    (durable,), again = await _commit(store, later, messages_first=True)
    assert (durable.reserved.message.seq, durable.reserved.message.n, again) == (1, 1, [])
    head = await store.mongo.find_one(CONVERSATIONS, {"_id": talk})
    assert head is not None and (head["s"], head["n"]) == (1, 1)


@pytest.mark.parametrize("messages_first", [False, True])
@pytest.mark.parametrize("mentioned", [False, True], ids=["nobody", "the same one"])
async def test_a_message_whose_seq_is_taken_changes_no_mention_count(
    store: Store, talk: ConversationId, mentioned: bool, messages_first: bool
) -> None:
    await _commit(store, await _reserved(store, talk, *[BOB] * mentioned))
    # Redis is behind MongoDB, and gives the seq out once more.
    head = store.keys.conversation(talk)[0]
    await store.cache.one(Call("HSET", (head,), ("s", 0, "n", 0)))
    late = await _reserved(store, talk, BOB)
    assert await _commit(store, late, messages_first=messages_first) == ([], [late])
    row = await store.mongo.find_one(SESSIONS, {"_id": session_row_id(BOB, talk)})
    assert row is not None and row.get("ms", []) == [1] * mentioned


async def test_a_delivery_finished_after_the_recall_shows_the_recall(store: Store, talk: ConversationId) -> None:
    """An older snapshot of Redis restores the message's outbox entry with the recalled content."""
    reserved = await _reserved(store, talk)
    await _commit(store, reserved)
    recalled = await store.revisions.recall(reserved.message, BOB, 1)
    assert recalled is not None
    (durable,), _ = await _commit(store, reserved, messages_first=True)
    assert durable.reserved.message == recalled
    assert durable.reserved.message.text is None


async def test_a_private_message_reads_for_its_sender_without_a_session_write(
    store: Store, talk: ConversationId
) -> None:
    await store.sessions.load(ALICE)
    row = {"_id": session_row_id(ALICE, talk)}
    before = await store.mongo.find_one(SESSIONS, row)
    await _commit(store, await _reserved(store, talk))
    assert await store.mongo.find_one(SESSIONS, row) == before
    read = {user: (await store.session_rows.read(user)).records[talk] for user in (ALICE, BOB)}
    assert [(rec["r"], rec["rn"], rec["d"]) for rec in read.values()] == [(1, 1, 1), (0, 0, 0)]


async def test_a_private_message_clears_its_senders_mention_count(store: Store, talk: ConversationId) -> None:
    row = {"_id": session_row_id(ALICE, talk)}
    await store.mongo.update_one(SESSIONS, row, {"$set": {"ms": [1]}})
    await store.conversations.drop(talk)
    await store.mongo.update_one(CONVERSATIONS, {"_id": talk}, {"$set": {"s": 1, "n": 1}})
    await store.sessions.load(ALICE)
    await store.conversations.find(talk)
    await _commit(store, await _reserved(store, talk))
    written = await store.mongo.find_one(SESSIONS, row)
    assert written is not None and (written["ms"], written["r"]) == ([], 2)

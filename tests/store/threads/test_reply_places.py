"""Places of replies, and the followers that they bring."""

from __future__ import annotations

import asyncio

import pytest

from store.conversations.conversation_fields import MAX_FOLLOWERS
from store.messages.message import ReservedMessage
from store.messages.outbox.places import Refusal
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS, session_row_id
from store.redis.cache import Call
from store.store import Store
from tests.store.threads.sample_threads import ALICE, BOB, CAROL, DAVE, SampleThread, begin_thread


@pytest.fixture
async def thread(store: Store) -> SampleThread:
    return await begin_thread(store)


async def _forget(thread: SampleThread) -> None:
    """Remove head and followers of the thread from Redis, as an eviction does."""
    keys = thread.store.keys.conversation(thread.id)
    await thread.store.cache.one(Call("DEL", keys[:2]))


async def test_the_first_reply_opens_the_thread_and_its_sender_follows(thread: SampleThread) -> None:
    first = await thread.reply(BOB)
    assert (first.message.seq, first.message.n, first.message.parent_seq) == (1, 1, 1)
    head = await thread.head()
    assert (head.reply_count, head.member_count, head.version) == (1, 1, 1)
    assert head.thread is not None and (head.thread.participant_count, head.thread.participants) == (1, (BOB,))
    (row,) = await thread.store.mongo.find(MESSAGES, {"_id": thread.parent.id})
    assert row["th"] is True
    (row,) = await thread.store.mongo.find(CONVERSATIONS, {"_id": thread.id})
    assert (row["tp"], row["s"], row["n"], row["mc"], row["rp"]) == (thread.parent.conversation, 1, 1, 1, 1)
    (row,) = await thread.store.mongo.find(SESSIONS, {"_id": session_row_id(BOB, thread.id)})
    assert (row["r"], row["rn"], row["fw"]) == (1, 1, True) and "ch" not in row


async def test_a_further_reply_of_the_same_sender_changes_no_followers(thread: SampleThread) -> None:
    await thread.reply(BOB)
    second = await thread.reply(BOB)
    assert second.change is None and second.message.n == 2
    (row,) = await thread.store.mongo.find(MEMBERS, {"_id": f"{thread.id} {BOB}"})
    assert row["lr"] == 2


async def test_mentioned_users_follow_with_everything_before_read(thread: SampleThread) -> None:
    await thread.reply(BOB)
    reply = await thread.reply(BOB, [CAROL])
    assert reply.change is not None and reply.change.joined == (CAROL,)
    (row,) = await thread.store.mongo.find(SESSIONS, {"_id": session_row_id(CAROL, thread.id)})
    assert (row["r"], row["rn"]) == (1, 1)
    assert await thread.followers() == [BOB, CAROL]
    # Her own first reply changes no followers, and counts her among those who replied.
    own = await thread.reply(CAROL)
    assert own.change is not None and own.change.joined == ()
    head = await thread.head()
    assert head.thread is not None
    assert (head.member_count, head.thread.participant_count, head.thread.participants) == (2, 2, (CAROL, BOB))


async def test_nobody_who_has_stopped_following_is_made_to_follow_again(thread: SampleThread) -> None:
    await thread.reply(BOB)
    await thread.change(leaving=(BOB,))
    await thread.reply(BOB)
    await thread.change(leaving=(CAROL,))
    assert (await thread.placed(ALICE, [BOB, CAROL])).change is not None
    assert await thread.followers() == [ALICE]
    await _forget(thread)
    await thread.store.conversations.load((thread.id,), with_members=True)
    snapshot = await thread.store.conversations.find_group_snapshot(thread.id, [BOB, CAROL])
    assert snapshot is not None and all(member.unfollowed for member in snapshot.members.values())


async def test_following_again_begins_with_the_next_reply(thread: SampleThread) -> None:
    await thread.reply(BOB)
    await thread.change(leaving=(BOB,))
    await thread.reply(ALICE)
    follow = await thread.change(joining=(BOB,))
    assert follow.message.seq == 0
    third = await thread.reply(ALICE)
    recipients = await thread.store.thread_recipients.find_followers(third)
    assert set(recipients) == {ALICE, BOB}
    (row,) = await thread.store.mongo.find(SESSIONS, {"_id": session_row_id(BOB, thread.id)})
    assert (row["r"], row["rn"], row["fw"]) == (2, 2, True)
    members = {member.user: member for member in await thread.store.conversations.list_members(thread.id)}
    assert members[BOB].intervals == ((1, 1), (3, None)) and not members[BOB].unfollowed


async def test_in_a_locked_thread_only_moderators_and_the_parents_sender_write(store: Store) -> None:
    thread = await begin_thread(store, (BOB, ALICE, CAROL))
    await thread.reply(ALICE)
    await thread.change(fields={"locked": True})
    assert await thread.place(CAROL) is Refusal.LOCKED
    assert isinstance(await thread.place(BOB), ReservedMessage)
    head = await thread.head()
    assert head.thread is not None and head.thread.is_locked and head.reply_count == 1
    (row,) = await store.mongo.find(CONVERSATIONS, {"_id": thread.id})
    assert (row["lk"], row["rp"]) == (True, 1)


async def test_users_outside_the_group_neither_reply_nor_are_mentioned(thread: SampleThread) -> None:
    assert await thread.place(DAVE) is Refusal.NOT_A_MEMBER
    assert await thread.place(BOB, [DAVE]) is Refusal.MENTION_NOT_A_MEMBER
    # Nothing was changed: there is not even a thread.
    assert await thread.store.mongo.find(CONVERSATIONS, {"_id": thread.id}) == []
    (row,) = await thread.store.mongo.find(MESSAGES, {"_id": thread.parent.id})
    assert "th" not in row


async def test_two_first_replies_at_once_make_one_thread(thread: SampleThread) -> None:
    async def reply(sender: object) -> None:
        await thread.reply(sender)  # type: ignore[arg-type]

    await asyncio.gather(reply(BOB), reply(CAROL), reply(ALICE))
    head = await thread.head()
    assert head.thread is not None
    assert (head.reply_count, head.member_count, head.thread.participant_count) == (3, 3, 3)
    assert await thread.followers() == [ALICE, BOB, CAROL]


async def test_nobody_follows_automatically_beyond_the_limit(thread: SampleThread) -> None:
    await thread.reply(BOB)
    key = thread.store.keys.head(thread.id)
    await thread.store.cache.one(Call("HSET", (key,), ("mc", MAX_FOLLOWERS)))
    reply = await thread.reply(CAROL, [ALICE])
    assert reply.change is not None and reply.change.joined == ()
    assert await thread.followers() == [BOB]
    head = await thread.head()
    assert head.thread is not None and head.thread.participant_count == 2
    assert (await thread.reply(CAROL)).change is None

"""Notes of messages that wait for the index."""

from __future__ import annotations

import asyncio

from store.base.ids import ConversationId, MessageId, UserId, private_id
from store.messages.message import Message, MessageKind
from store.search.unindexed_messages import UnindexedMessages
from store.store import Store

TALK = ConversationId(private_id(UserId("anna"), UserId("bert")))


def _message(number: int, text: str | None = "text", kind: MessageKind = MessageKind.TEXT) -> Message:
    return Message(MessageId(number), TALK, UserId("anna"), kind, text, seq=number)


async def _note(store: Store, *messages: Message) -> None:
    await store.cache.run(store.unindexed_messages.note_calls(messages))


async def test_noted_messages_are_listed_in_the_order_of_their_notes(store: Store) -> None:
    await _note(store, _message(2), _message(1)._replace(edits=3))

    waiting = await store.unindexed_messages.list_all()

    assert [(m.id, m.conversation, m.seq, m.edits) for m in waiting.messages] == [(1, TALK, 1, 3), (2, TALK, 2, 0)]
    assert waiting.is_whole
    assert waiting.epoch == store.deployment.redis_epoch


async def test_messages_without_text_and_system_messages_are_not_noted(store: Store) -> None:
    await _note(store, _message(1, ""), _message(2, None), _message(3, "joined", MessageKind.SYSTEM))

    assert (await store.unindexed_messages.list_all()).messages == []


async def test_removing_an_earlier_state_keeps_the_note_of_a_later_edit(store: Store) -> None:
    message = _message(1)
    edited = message._replace(edits=1)
    await _note(store, message)
    await _note(store, edited)

    await store.unindexed_messages.remove([message])

    assert [m.edits for m in (await store.unindexed_messages.list_all()).messages] == [1]
    await store.unindexed_messages.remove([edited])
    assert (await store.unindexed_messages.list_all()).messages == []


async def test_a_list_that_is_cut_is_not_whole(store: Store) -> None:
    await _note(store, *(_message(number) for number in range(1, 5)))

    assert len((await store.unindexed_messages.list_all(limit=3)).messages) == 3
    assert not (await store.unindexed_messages.list_all(limit=3)).is_whole
    assert (await store.unindexed_messages.list_all(limit=4)).is_whole


async def test_concurrent_callers_share_one_read(store: Store) -> None:
    await _note(store, _message(1))
    trips = store.cache.trips

    lists = await asyncio.gather(*(store.unindexed_messages.list_all() for _ in range(10)))

    assert store.cache.trips == trips + 1
    assert all(len(waiting.messages) == 1 for waiting in lists)


async def test_a_caller_sees_what_was_noted_before_its_call(store: Store) -> None:
    for number in range(1, 30):
        earlier = asyncio.create_task(store.unindexed_messages.list_all())
        await asyncio.sleep(0)
        await _note(store, _message(number))
        waiting = await store.unindexed_messages.list_all()
        assert len(waiting.messages) == number
        await earlier


async def test_old_notes_are_those_that_wait_longer_than_a_time(store: Store) -> None:
    await _note(store, _message(1))

    assert await store.unindexed_messages.list_older(60_000, 10) == []
    assert [m.id for m in await store.unindexed_messages.list_older(-1_000, 10)] == [1]
    assert (await store.unindexed_messages.measure())[0] == 1


async def test_notes_in_several_keys_are_one_list(store: Store) -> None:
    waiting = UnindexedMessages(store.cache, store.keys, store.clock)
    waiting._places = 8
    messages = [_message(number)._replace(conversation=ConversationId(f"g_{number}")) for number in range(1, 40)]
    await store.cache.run(waiting.note_calls(messages))

    assert {m.id for m in (await waiting.list_all()).messages} == set(range(1, 40))
    await waiting.remove(messages)
    assert (await waiting.list_all()).messages == []

"""Pages from memory equal pages from MongoDB, whatever happens to the messages in between."""

from __future__ import annotations

import asyncio
import random

import pytest

from store.base.ids import ConversationId, MessageId, UserId
from store.conversations.conversation import Head
from store.messages import newest_messages
from store.messages.message import CommittedMessage, Message, MessageKind, ReservedMessage
from store.messages.newest_messages import MAX_AGE_SECONDS, NewestMessages
from store.mongo.collections import CONVERSATIONS, WORKSPACES
from store.previews.embed_updates import NewText
from store.redis.cache import Call
from store.store import Store

ALICE = UserId("alice")
CHANNEL = ConversationId("c_1.2")


class Channel:
    """A channel whose messages are written as servers write them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.kept = NewestMessages(store.messages)
        self.stored: list[Message] = []
        self.reads = 0
        read = store.messages.list_between

        async def counted(*args: object, **kwargs: object) -> list[Message]:
            self.reads += 1
            return await read(*args, **kwargs)  # type: ignore[arg-type]

        store.messages.list_between = counted  # type: ignore[method-assign]

    async def head(self) -> Head:
        head = await self.store.conversations.find(CHANNEL)
        assert head is not None
        return head

    async def reserve(self) -> ReservedMessage:
        await self.head()
        message = Message(MessageId(self.store.ids.next()), CHANNEL, ALICE, MessageKind.TEXT, "hello")
        place = await self.store.outbox.reserve(message)
        assert isinstance(place, ReservedMessage)
        return place

    async def commit(self, *places: ReservedMessage) -> None:
        durable, _ = await self.store.commits.commit(
            places, [place.message.created_at_ms for place in places], messages_first=False
        )
        for committed in durable:
            await self.show(committed)

    async def show(self, committed: CommittedMessage) -> None:
        calls = [self.store.commits.newest_message_call(committed), self.store.outbox.clear_call(committed.reserved)]
        await self.store.cache.run(calls)
        self.stored.append(committed.reserved.message)

    async def send(self, count: int = 1) -> None:
        await self.commit(*[await self.reserve() for _ in range(count)])

    async def revise(self, message: Message, *, recall: bool) -> None:
        store = self.store
        revised = await (
            store.revisions.recall(message, ALICE, 1)
            if recall
            else store.revisions.edit(message, NewText(f"edited {store.ids.next()}"), ALICE, 1)
        )
        if revised is not None:
            await store.cache.one(store.revisions.newest_message_call(revised, 1))

    async def page(
        self, limit: int = 51, first: int = 1, last: int | None = None, *, newest_first: bool = True
    ) -> list[Message]:
        """Return a page that is the same in MongoDB."""
        head = await self.head()
        ranges = [(first, head.seq if last is None else min(last, head.seq))]
        return await self.compare(head, ranges, limit, newest_first=newest_first)

    async def compare(
        self, head: Head, ranges: list[tuple[int, int]], limit: int, *, newest_first: bool
    ) -> list[Message]:
        kept = await self.kept.list_between(head, ranges, limit, newest_first=newest_first)
        reads = self.reads
        assert kept == await self.store.messages.list_between(CHANNEL, ranges, limit, newest_first=newest_first)
        self.reads = reads
        return kept


@pytest.fixture
async def channel(store: Store) -> Channel:
    head = {"_id": CHANNEL, "k": "C", "s": 0, "n": 0, "at": 1, "w": 0}
    await store.mongo.insert_one(CONVERSATIONS, head)
    await store.mongo.insert_one(WORKSPACES, {"_id": "w_1", "pv": 1})
    return Channel(store)


async def test_all_who_ask_at_once_share_one_read(channel: Channel) -> None:
    await channel.send(60)
    head = await channel.head()
    pages = await asyncio.gather(
        *(channel.kept.list_between(head, [(1, head.seq)], size, newest_first=True) for size in [51, 20, 101] * 20)
    )
    assert (len(pages[0]), len(pages[1]), len(pages[2]), channel.reads) == (51, 20, 60, 1)
    await channel.page()
    assert channel.reads == 1


async def test_a_new_message_is_added_without_a_read(channel: Channel) -> None:
    await channel.send(3)
    for _ in range(3):
        await channel.page()
        await channel.send()
    await channel.page()
    assert channel.reads == 1
    await channel.send(2)
    await channel.page()
    assert channel.reads == 2


async def test_a_message_that_is_durable_after_a_later_one_is_shown(channel: Channel) -> None:
    late = await channel.reserve()
    await channel.send()
    assert [message.seq for message in await channel.page()] == [2]
    await channel.commit(late)
    assert [message.seq for message in await channel.page()] == [2, 1]


async def test_a_revised_message_is_shown_as_it_is(channel: Channel) -> None:
    await channel.send(3)
    await channel.page()
    await channel.revise(channel.stored[0], recall=False)
    await channel.revise(channel.stored[1], recall=True)
    newest, recalled, edited = await channel.page()
    assert (newest.text, recalled.text, edited.edits) == ("hello", None, 1)


async def test_a_head_that_was_evicted_makes_messages_unusable(channel: Channel) -> None:
    await channel.send(3)
    await channel.page()
    await channel.store.cache.one(Call("DEL", (channel.store.keys.head(CHANNEL),)))
    revised = await channel.store.revisions.edit(channel.stored[0], NewText("edited"), ALICE, 1)
    assert revised is not None
    await channel.store.cache.one(channel.store.revisions.newest_message_call(revised, 1))
    assert (await channel.page())[-1].text == "edited"


async def test_messages_are_not_kept_for_a_head_without_a_contents_version(channel: Channel) -> None:
    """A server of the version before has loaded it, and its edits would not be noticed."""
    await channel.send(3)
    head = channel.store.keys.head(CHANNEL)
    await channel.store.cache.one(Call("HDEL", (head,), ("cv",)))
    await channel.page()
    await channel.page()
    await channel.revise(channel.stored[0], recall=True)
    await channel.page()
    assert channel.reads == 3
    assert await channel.store.cache.one(Call("HGET", (head,), ("cv",))) is None


async def test_memory_is_bounded_in_bytes_and_age(channel: Channel, store: Store) -> None:
    await channel.send(3)
    now = 0.0
    channel.kept = NewestMessages(store.messages, lambda: now, max_bytes=1)
    await channel.page()
    assert (channel.kept.bytes, len(channel.kept._windows)) == (0, 0)
    channel.kept = NewestMessages(store.messages, lambda: now)
    await channel.page()
    assert 3 * 600 < channel.kept.bytes < 3 * 1_000
    now = MAX_AGE_SECONDS + 1
    channel.reads = 0
    await channel.page()
    assert channel.reads == 1 and len(channel.kept._windows) == 1


async def test_pages_from_memory_equal_those_of_mongodb(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random sends, late commits, revisions, evictions, old heads and pages, with small windows."""
    monkeypatch.setattr(newest_messages, "MOST_MESSAGES", 7)
    rng = random.Random(1)
    waiting: list[ReservedMessage] = []
    await channel.send()
    head = await channel.head()
    for _ in range(400):
        match rng.randrange(12):
            case 0 | 1:
                await channel.send(rng.choice([1, 1, 1, 1, 2, 9]))
            case 2:
                waiting.append(await channel.reserve())
            case 3 | 6 if waiting:
                await channel.commit(waiting.pop(rng.randrange(len(waiting))))
            case 4:
                await channel.revise(rng.choice(channel.stored[-10:]), recall=rng.random() < 0.3)
            case 5 if rng.random() < 0.2:
                await channel.store.conversations.drop(CHANNEL)
            case _:
                # The head of a request may be a little older than that of another one.
                if rng.random() < 0.8:
                    head = await channel.head()
                seqs = sorted(rng.sample(range(1, head.seq + 3), 2)) if rng.random() < 0.5 else [1, head.seq]
                middle = rng.randint(*seqs)
                ranges = [(seqs[0], middle), (middle + 2, seqs[1])] if rng.random() < 0.3 else [(seqs[0], seqs[1])]
                ranges = [(first, min(last, head.seq)) for first, last in ranges if first <= min(last, head.seq)]
                limit, newest_first = rng.randint(1, 8), rng.random() < 0.7
                if head == await channel.head():
                    await channel.compare(head, ranges, limit, newest_first=newest_first)
                else:
                    await channel.kept.list_between(head, ranges, limit, newest_first=newest_first)

"""Messages: their places, their storage, their history.

`messages` {_id snowflake, c, b, s, n, u, k, t, …} as `store.messages.records` says, unique (c, b, s), shard key (c, b). Insert-only
here (`store.revisions` changes what is there): a seq that is taken stays taken, so two servers that believe to own the same
one find out when they write.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import orjson

from store.base.counters import SECONDS, SIZES, Histogram
from store.base.errors import Unreachable
from store.base.ids import PARTITIONS, ConversationId, MessageId, UserId, bucket_of
from store.base.snowflakes import first_at
from store.conversations.group_changes import group_change_from
from store.messages.commit_writes import head_updates, row_updates, unmention
from store.messages.message_origins import OriginStore
from store.messages.records import Message, MessageKind, Reserved, message_from
from store.messages.revision_store import Revision, revision_from
from store.mongo.client import Mongo
from store.mongo.collections import (
    BY_ID,
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    PLACE,
    RECEIPTS,
    SESSIONS,
    at_place,
    between_places,
)
from store.receipts import receipt_store as receipts
from store.receipts.receipt_store import Mark, ReceiptKind
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_SPANS = 250
"""Conversations that one query looks into at most."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a message or a change got no place: see `reserve.lua` and `change_group.lua`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Committed:
    """A durable message. `at_ms` is the moment its commit began: what the head and the sessions take their times from."""

    reserved: Reserved
    at_ms: int


class MessageStore:
    """Messages in MongoDB, their places and the outbox in Redis."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self.origins = OriginStore(mongo)
        self.commit_sizes = Histogram(SIZES)
        self.commit_seconds = Histogram(SECONDS)

    # --- places

    async def reserve(
        self, message: Message, *, by_moderator: bool = False, again: Reserved | None = None
    ) -> Reserved | Refused:
        """Checks that the sender may write, gives the message its place and puts it into the outbox, in one step.

        again: it had a place that turned out to be taken; the rights were checked then. One with an idempotency key gets no second place otherwise: Refused("twice").
        """
        args = (
            message.sender,
            int(message.kind.countable),
            message.to_json(),
            int(by_moderator),
            int(again is not None),
            message.conversation,
            *message.mentions,
        )
        keys = self._keys.conversation(message.conversation)
        if message.key is not None:
            keys = (*keys, self._keys.reservation(message.conversation, message.id))
        answer, epoch, record = await self._cache.run(
            [
                Call("reserve", keys, args),
                Call("HGET", (self._keys.of_user(message.sender, "meta"),), ("epoch",)),
                Call("HGET", (self._keys.of_user(message.sender, "sessions"),), (message.conversation,)),
            ]
        )
        if answer[0] != b"ok":
            return Refused(answer[0].decode())
        _, seq, n, version, entry = answer
        known = orjson.loads(record) if epoch and record else {"rn": -1, "ms": True}
        return Reserved(
            message.at(seq, n),
            version.decode(),
            entry.decode(),
            sender_in_use=bool(epoch),
            # More than its own are between. What the sender sent just before may be among them, and not be known there yet.
            reads=n - message.kind.countable > known["rn"],
            was_mentioned="ms" in known,
        )

    async def reserve_change(
        self,
        message: Message,
        version: str,
        moves: Sequence[tuple[UserId, str]],
        fields: Mapping[str, Any],
        *,
        told: bool,
    ) -> Reserved | Refused:
        """Changes a group in the cache, gives the SYSTEM message that tells of it its place and puts both into the outbox, in
        one step; not told: it goes without a place. `moves`: what becomes of whom: join, leave, or a role.

        Only if the membership is still of the version that the change was decided on, and no other one is on its way.
        """
        flat = [part for move in moves for part in move]
        args = (version, message.created_at_ms, message.to_json(), int(told), orjson.dumps(dict(fields)), *flat)
        answer = await self._cache.one(Call("change_group", self._keys.conversation(message.conversation), args))
        if answer[0] != b"ok":
            return Refused(answer[0].decode())
        _, seq, n, after, entry, text = answer
        return Reserved(message.at(seq, n), after.decode(), entry.decode(), group_change_from(orjson.loads(text)))

    async def outbox_age_ms(self) -> int:
        """How long ago, by Redis's own time, the oldest message was reserved that is not delivered yet; 0 where there is none. One
        round trip that nobody waits for."""
        streams = [Call("XRANGE", (self._keys.outbox(p),), ("-", "+", "COUNT", 1)) for p in range(PARTITIONS)]
        (seconds, micros), *found = await self._cache.run_in_background([Call("TIME", ()), *streams])
        oldest = [int(entries[0][0].partition(b"-")[0]) for entries in found if entries]
        return max(0, int(seconds) * 1000 + int(micros) // 1000 - min(oldest)) if oldest else 0

    async def list_outbox(self, partitions: Iterable[int], idle_ms: int, limit: int) -> list[Reserved | Revision]:
        """What has been waiting in outboxes for longer than idle_ms of Redis's own time: one round trip and a bit."""
        seconds, micros = await self._cache.one(Call("TIME", ()))
        now = int(seconds) * 1000 + int(micros) // 1000
        streams = await self._cache.run(
            [Call("XRANGE", (self._keys.outbox(p),), ("-", now - idle_ms, "COUNT", limit)) for p in partitions]
        )
        rows = [(entry.decode(), fields) for stream in streams for entry, fields in stream]
        # The version is not known any more: the membership is read anew.
        return [revision_from(entry, fields, now) or _reserved_from(entry, fields, "") for entry, fields in rows]

    async def is_in_outbox(self, conversation: ConversationId, message: MessageId) -> bool:
        """Whether a message of the conversation has a place and is not delivered yet."""
        rows = await self._cache.one(Call("XRANGE", (self._keys.conversation(conversation)[2],), ("-", "+")))
        reserved = [_reserved_from("", fields, "") for _, fields in rows if revision_from("", fields) is None]
        return any(found.message.id == message for found in reserved)

    def clear(self, reserved: Reserved) -> Call:
        """The call that takes a delivered message out of the outbox."""
        outbox = self._keys.conversation(reserved.message.conversation)[2]
        return Call("XDEL", (outbox,), (reserved.entry,))

    def show(self, committed: Committed) -> Call:
        """The call that makes a durable message the newest one its readers see."""
        reserved = committed.reserved
        message, change = reserved.message, reserved.change
        at_ms = committed.at_ms if change is None or change.told or change.dissolves else 0
        changed = (reserved.entry, change.to_json()) if change is not None else ()
        return Call(
            "committed",
            self._keys.conversation(message.conversation),
            (message.seq, message.to_json(), at_ms, int(message.kind.countable), *changed),
        )

    # --- storage

    async def commit(
        self, batch: Sequence[Reserved], stamps: Sequence[int], *, careful: bool
    ) -> tuple[list[Committed], list[Reserved]]:
        """Stores a batch with everything that follows from it, in one waited round trip. `stamps`: the time of each, in ms.

        careful: some of them may have been stored before, or their places be taken. Then what follows is written once it is
        known what got in, and where: one round trip more.

        Answers what is durable, and what must get another place because MongoDB holds another message there. A message
        that had been stored before, by whomever, counts as durable in the place it has. Idempotent.
        Raises Unreachable: then nothing is known of the outcome.
        """
        began = time.perf_counter()
        outcome = await self._commit(batch, stamps, careful)
        self.commit_sizes.observe(len(batch))
        self.commit_seconds.observe(time.perf_counter() - began)
        return outcome

    async def _commit(
        self, batch: Sequence[Reserved], stamps: Sequence[int], careful: bool
    ) -> tuple[list[Committed], list[Reserved]]:
        taken: set[int] = set()

        async def insert() -> None:
            documents = [reserved.message.to_document() for reserved in batch]
            taken.update(await self._mongo.insert_each(MESSAGES, documents))

        origins = self.origins.writes([reserved.message for reserved in batch])

        all_new = [Committed(reserved, at_ms) for reserved, at_ms in zip(batch, stamps, strict=True)]
        if not careful:
            await self._mongo.gather(insert(), *origins, *self._effects(all_new))
            return await self._resolve(batch, taken, stamps) if taken else (all_new, [])
        await self._mongo.gather(insert(), *origins)
        durable, again = await self._resolve(batch, taken, stamps) if taken else (all_new, [])
        if durable:
            await self._mongo.gather(*self._effects(durable))
        return durable, again

    def _effects(self, durable: Sequence[Committed]) -> list[Awaitable[Any]]:
        batch, stamps = [committed.reserved for committed in durable], [committed.at_ms for committed in durable]
        writes: list[Awaitable[Any]] = [self._mongo.update_each(CONVERSATIONS, head_updates(batch, stamps))]
        rows = [update for committed in durable for update in row_updates(committed.reserved)]
        if rows:
            writes.append(self._mongo.update_each(SESSIONS, rows))
        reading = [c for c in durable if c.reserved.reads and c.reserved.message.kind.countable]
        if reading:
            marks = [receipts.mark_row(_mark(c.reserved.message), c.at_ms) for c in reading]
            writes.append(self._mongo.insert_each(RECEIPTS, marks))
        members = receipts.progress_updates(_mark(c.reserved.message) for c in reading)
        if members:
            writes.append(self._mongo.update_each(MEMBERS, members))
        return writes

    async def _resolve(
        self, batch: Sequence[Reserved], taken: set[int], stamps: Sequence[int]
    ) -> tuple[list[Committed], list[Reserved]]:
        """Which of the collisions were with the very same message, stored by an earlier attempt."""
        doubtful = [batch[i].message for i in taken]
        places = [at_place(m.conversation, m.seq) for m in doubtful]
        by_id = [{"c": m.conversation, "_id": int(m.id)} for m in doubtful]
        found = await self._mongo.find(MESSAGES, {"$or": [*by_id, *places]})
        ids = {m.id for m in doubtful}
        # As it is by now: it may have been edited or recalled since.
        stored = {row["_id"]: message_from(row) for row in found if row["_id"] in ids}
        known = await self._known_heads({row["c"] for row in found if row["_id"] in ids})
        occupied = {(row["c"], row["s"]): row for row in found}
        done: list[Committed] = []
        again: list[Reserved] = []
        for i, reserved in enumerate(batch):
            message = reserved.message
            if i not in taken:
                done.append(Committed(reserved, stamps[i]))
            elif message.id in stored:
                placed = stored[message.id]
                # What its head says already keeps its time: a later one would move it once more.
                told = known.get(message.conversation, 0) >= placed.seq
                at_ms = message.created_at_ms if told else stamps[i]
                done.append(Committed(replace(reserved, message=placed), at_ms))
            elif (message.conversation, message.seq) in occupied:
                again.append(reserved)
            else:
                raise Unreachable("what a message collided with is not held by a majority yet")
        heads, rows = unmention([(r.message, occupied[r.message.conversation, r.message.seq]) for r in again])
        if heads:
            await self._mongo.bulk_write(CONVERSATIONS, heads)
        if rows:
            await self._mongo.bulk_write(SESSIONS, rows)
        return done, again

    async def _known_heads(self, conversations: set[ConversationId]) -> dict[ConversationId, int]:
        """How far heads are."""
        if not conversations:
            return {}
        query = {"_id": {"$in": list(conversations)}}
        rows = await self._mongo.find(CONVERSATIONS, query, projection={"s": 1})
        return {row["_id"]: row["s"] for row in rows}

    # --- reading

    async def find_many(
        self, places: Iterable[tuple[ConversationId, int]]
    ) -> dict[tuple[ConversationId, int], Message]:
        """Messages by conversation and seq, those that exist: one round trip."""
        wanted = list(places)
        if not wanted:
            return {}
        query = {"$or": [at_place(c, s) for c, s in wanted]}
        rows = await self._mongo.find(MESSAGES, query)
        return {(m.conversation, m.seq): m for m in map(message_from, rows)}

    async def find_by_ids(self, ids: Iterable[MessageId]) -> dict[MessageId, Message]:
        """Messages by id, those that exist: one round trip, two where they are spread over shards."""
        wanted = list(ids)
        query = await self.origins.query_for(wanted)
        rows = await self._mongo.find(MESSAGES, query) if query is not None else []
        return {m.id: m for m in map(message_from, rows)}

    async def find_in(self, conversation: ConversationId, message: MessageId) -> Message | None:
        """A message of a conversation by its id: one round trip."""
        rows = await self._mongo.find(MESSAGES, {"_id": int(message), "c": conversation}, hint=BY_ID)
        return message_from(rows[0]) if rows else None

    async def find_by_key(
        self, conversation: ConversationId, sender: UserId, key: str, since_ms: int
    ) -> Message | None:
        """The message a sender stored under an idempotency key since a time, in whichever conversation. `conversation`: where
        the same message would be, if it was stored."""
        query = {"u": sender, "ik": key, "_id": {"$gte": first_at(since_ms)}}
        row = await self._mongo.find_one(MESSAGES, query | await self.origins.of_key(conversation, sender, key))
        return message_from(row) if row else None

    async def list_between(
        self, conversation: ConversationId, ranges: Sequence[tuple[int, int]], limit: int, *, newest_first: bool
    ) -> list[Message]:
        """Messages whose seq lies in one of the ranges (ends included), in order, at most limit of them: one round trip."""
        spans = [(first, last) for first, last in ranges if first <= last]
        if not spans:
            return []
        # Each span with its buckets, so that the index leads from one to the next: what lies between is not read.
        places = [between_places(conversation, first, last) for first, last in spans]
        query: dict[str, Any] = places[0] if len(places) == 1 else {"$or": places}
        direction = -1 if newest_first else 1
        rows = await self._mongo.find(
            MESSAGES, query, sort=[("c", direction), ("b", direction), ("s", direction)], limit=limit
        )
        return [message_from(row) for row in rows]

    async def list_from_others(
        self,
        user: UserId,
        waiting: Mapping[ConversationId, tuple[int, int]],
        before: MessageId | None,
        limit: int,
    ) -> list[Message]:
        """Countable messages of anybody else after a seq and up to another in each of the conversations, the newest ids first,
        before an id: one round trip."""
        spans = [between_places(c, after + 1, upto) for c, (after, upto) in waiting.items()]
        which: dict[str, Any] = {"u": {"$ne": user}, "k": {"$ne": MessageKind.SYSTEM.value}}
        if before is not None:
            which["_id"] = {"$lt": int(before)}
        # Of itself MongoDB might look for the newest of all messages, and would try which is better for each conversation.
        reads = [
            self._mongo.find(
                MESSAGES, which | {"$or": spans[i : i + _SPANS]}, sort=[("_id", -1)], limit=limit, hint=PLACE
            )
            for i in range(0, len(spans), _SPANS)
        ]
        found = await self._mongo.gather(*reads) if reads else []
        rows = sorted((row for part in found for row in part), key=itemgetter("_id"), reverse=True)
        return [message_from(row) for row in rows[:limit]]

    async def find_place(self, conversation: ConversationId, seq: int) -> tuple[int, int]:
        """The newest message up to and with seq, and how many countable ones there are up to and with it."""
        query = {"c": conversation, "b": {"$lte": bucket_of(seq)}, "s": {"$lte": seq}}
        row = await self._mongo.find_one(MESSAGES, query, sort=[("c", -1), ("b", -1), ("s", -1)])
        return (row["s"], row["n"]) if row else (0, 0)

    async def list_senders(self, conversation: ConversationId, after: int, upto: int) -> set[UserId]:
        """Who wrote countable messages after a seq, up to and with another."""
        query = between_places(conversation, after + 1, upto) | {"k": {"$ne": MessageKind.SYSTEM.value}}
        rows = await self._mongo.aggregate(MESSAGES, [{"$match": query}, {"$group": {"_id": "$u"}}])
        return {UserId(row["_id"]) for row in rows}


def _mark(message: Message) -> Mark:
    """Sending reads."""
    return Mark(message.conversation, message.sender, ReceiptKind.READ, message.seq)


def _reserved_from(entry: str, fields: Any, version: str) -> Reserved:
    values = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
    message = message_from(orjson.loads(values[b"m"])).at(int(values[b"s"]), int(values[b"n"]))
    change = group_change_from(orjson.loads(values[b"g"])) if b"g" in values else None
    return Reserved(message, version, entry, change)

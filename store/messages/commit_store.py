"""Group commit: makes reserved messages durable, together with the updates of heads, sessions and receipts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pymongo.errors import DuplicateKeyError

from store.base.counters import SECONDS, SIZES, Histogram
from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId
from store.conversations.conversation_fields import ConversationField
from store.conversations.heads import head_writes
from store.messages.key_owners import KeyOwners, keeps_key
from store.messages.message import CommittedMessage, Message, ReservedMessage, message_from
from store.messages.message_fields import MessageField
from store.messages.message_origins import OriginStore
from store.messages.revision_store import COUNT_RECALLED, is_counted_reply
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, RECEIPTS, SESSIONS, at_place
from store.mongo.writes import Write
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark, mark_row, progress_updates
from store.redis.cache import Call
from store.redis.keys import Keys
from store.reports.flag_reports import FlagReports
from store.sessions import row_writes
from store.threads.reply_writes import is_reply, reply_updates


class CommitStore:
    """Writes batches of messages to MongoDB. `sizes` and `seconds` measure the batches."""

    def __init__(self, mongo: Mongo, keys: Keys, flag_reports: FlagReports) -> None:
        self._flag_reports = flag_reports
        self._mongo = mongo
        self._keys = keys
        self._origins = OriginStore(mongo)
        self._key_owners = KeyOwners(mongo)
        self.sizes = Histogram(SIZES)
        self.seconds = Histogram(SECONDS)

    async def commit(
        self, batch: Sequence[ReservedMessage], timestamps_ms: Sequence[int], *, messages_first: bool
    ) -> tuple[list[CommittedMessage], list[ReservedMessage]]:
        """Store a batch with the writes that depend on it, in one awaited round trip.

        A message that any server has stored before counts as durable at the place it has. Idempotent.

        Args:
            batch: The messages.
            timestamps_ms: Commit timestamp of each.
            messages_first: Some messages may have been stored before, or their places may be taken. Then the dependent
                writes follow when the places are known, in a second round trip.

        Returns:
            The durable messages, and those that MongoDB refused: it has another message at the place, or with the
            sender's idempotency key (`KeyOwners.find`). Copies of refused replies are in neither.

        Raises:
            Unreachable: The outcome is not known.
        """
        began = time.perf_counter()
        outcome = await self._commit(batch, timestamps_ms, messages_first)
        self.sizes.observe(len(batch))
        self.seconds.observe(time.perf_counter() - began)
        return outcome

    async def _commit(
        self, batch: Sequence[ReservedMessage], timestamps_ms: Sequence[int], messages_first: bool
    ) -> tuple[list[CommittedMessage], list[ReservedMessage]]:
        messages = [reserved.message for reserved in batch]
        inserts = [Write.inserts(MESSAGES, [message.to_document() for message in messages])]
        inserts += self._origins.prepare_writes(messages)
        inserts += self._flag_reports.prepare_writes(messages)
        all_new = [CommittedMessage(reserved, at_ms) for reserved, at_ms in zip(batch, timestamps_ms, strict=True)]
        dependent = [] if messages_first else self._dependent_writes(all_new)
        collided = set((await self._mongo.write([*inserts, *dependent]))[0].duplicates)
        durable, displaced = await self._resolve(batch, collided, timestamps_ms) if collided else (all_new, [])
        if messages_first and durable:
            await self._mongo.write(self._dependent_writes(durable))
        return [without_flag(committed) for committed in durable], displaced

    def _dependent_writes(self, durable: Sequence[CommittedMessage]) -> list[Write]:
        """Return the writes to heads, sessions, receipts and memberships."""
        writes = [Write.updates(CONVERSATIONS, head_writes.head_updates(durable))]
        rows = [update for committed in durable for update in row_writes.message_updates(committed)]
        if rows:
            writes.append(Write.updates(SESSIONS, rows))
        reading = [c for c in durable if c.reserved.reads_unread and c.reserved.message.has_receipts]
        if reading:
            marks = [mark_row(_read_mark(c.reserved.message), c.at_ms) for c in reading]
            writes.append(Write.inserts(RECEIPTS, marks))
        members = progress_updates(_read_mark(c.reserved.message) for c in reading)
        members += reply_updates(committed.reserved.message for committed in durable)
        if members:
            writes.append(Write.updates(MEMBERS, members))
        return writes

    async def _resolve(
        self, batch: Sequence[ReservedMessage], collided: set[int], timestamps_ms: Sequence[int]
    ) -> tuple[list[CommittedMessage], list[ReservedMessage]]:
        """Separate messages that an earlier attempt stored from messages whose place or key another one has."""
        messages = [batch[i].message for i in collided]
        found = await self._find_collisions(messages)
        ids = {m.id for m in messages}
        own_rows = [row for row in found if row[MessageField.ID] in ids]
        # In their present state: a message may have been edited or recalled since.
        stored = {row[MessageField.ID]: message_from(row) for row in own_rows}
        heads = await self._find_head_seqs({row[MessageField.CONVERSATION] for row in own_rows})
        occupied = {(row[MessageField.CONVERSATION], row[MessageField.SEQ]): row for row in found}
        owners = _key_owners(found)
        durable: list[CommittedMessage] = []
        displaced: list[ReservedMessage] = []
        may_use_key: list[int] = []
        copies_of_refused = set[int]()
        for i, reserved in enumerate(batch):
            message = reserved.message
            owner = owners.get((message.sender, message.key))
            if i not in collided:
                durable.append(CommittedMessage(reserved, timestamps_ms[i]))
            elif message.id in stored and (owner is None or stored[message.id].key == message.key):
                # Without its key it was refused, and emptied by another server.
                placed = stored[message.id]
                # A message that the head includes keeps its time: a later one would move the session once more.
                in_head = heads.get(message.conversation, 0) >= placed.seq
                at_ms = message.created_at_ms if in_head else timestamps_ms[i]
                durable.append(CommittedMessage(replace(reserved, message=placed), at_ms))
            elif owner is not None:
                if not keeps_key(owner, message):
                    may_use_key.append(i)
                    continue
                displaced.append(reserved)
                copies_of_refused.add(message.copy_id or 0)
            elif (message.conversation, message.seq) in occupied:
                displaced.append(reserved)
            else:
                raise Unreachable("the message at a taken place, or with a used key, is not on a majority yet")
        await self._take_back_mentions(displaced, occupied)
        # A report names the place of its message.
        await self._flag_reports.take_back(reserved.message for reserved in displaced)
        if may_use_key:
            await self._key_owners.release_all(
                [owners[batch[i].message.sender, batch[i].message.key] for i in may_use_key]
            )
            again = await self._commit([batch[i] for i in may_use_key], [timestamps_ms[i] for i in may_use_key], True)
            durable, displaced = durable + again[0], displaced + again[1]
            copies_of_refused |= {each.message.copy_id or 0 for each in again[1]}
        durable = [each for each in durable if each.reserved.message.id not in copies_of_refused]
        return durable, [each for each in displaced if each.message.id not in copies_of_refused]

    async def _find_collisions(self, messages: Sequence[Message]) -> list[Document]:
        """Return the rows that have the messages' ids, places or keys."""
        places = [at_place(m.conversation, m.seq) for m in messages]
        by_id = [{MessageField.CONVERSATION: m.conversation, MessageField.ID: int(m.id)} for m in messages]
        by_key = [self._key_owners.query(m) for m in messages if m.key is not None]
        return await self._mongo.find(MESSAGES, {"$or": [*by_id, *places, *by_key]})

    async def store_emptied(self, message: Message) -> bool:
        """Store a message that was emptied at its place, or empty it there. Return False if another message is there.

        May be repeated. Raises Unreachable.
        """
        at = {MessageField.ID: int(message.id)} | at_place(message.conversation, message.seq)
        document = message.to_document()

        async def work(session: Any) -> None:
            row = await self._mongo.find_one(MESSAGES, at, session=session)
            if row is None:
                await self._mongo.insert_one(MESSAGES, document, session=session)
            elif MessageField.RECALLED_AT in row:
                return
            else:
                update: Document = {"$set": {name: value for name, value in document.items() if name not in at}}
                if content := {name: "" for name in row if name not in document}:
                    update["$unset"] = content
                await self._mongo.find_one_and_update(MESSAGES, at, update, session=session)
            if is_counted_reply(message):
                thread = {"_id": message.conversation}
                await self._mongo.find_one_and_update(CONVERSATIONS, thread, [COUNT_RECALLED], session=session)

        try:
            await self._mongo.transaction(work)
        except DuplicateKeyError:
            return False
        await self._origins.save([message])
        return True

    async def _find_head_seqs(self, conversations: set[str]) -> dict[str, int]:
        if not conversations:
            return {}
        fields = {ConversationField.SEQ: 1}
        rows = await self._mongo.find(CONVERSATIONS, {"_id": {"$in": sorted(conversations)}}, projection=fields)
        return {row["_id"]: row[ConversationField.SEQ] for row in rows}

    async def _take_back_mentions(
        self, displaced: Sequence[ReservedMessage], occupied: Mapping[tuple[ConversationId, int], Document]
    ) -> None:
        placed = [(r, occupied.get((r.message.conversation, r.message.seq), {})) for r in displaced]
        heads = [update for r, occupant in placed for update in head_writes.unmention_updates(r.message, occupant)]
        rows = [update for r, occupant in placed for update in row_writes.unmention_updates(r, occupant)]
        if heads:
            await self._mongo.bulk_write(CONVERSATIONS, heads)
        if rows:
            await self._mongo.bulk_write(SESSIONS, rows)

    def mention_all_call(self, message: Message) -> Call:
        """Return the call that notes in the head of a channel that a message mentions everybody."""
        return Call("note_mention_all", (self._keys.head(message.conversation),), (message.seq,))

    def newest_message_call(self, committed: CommittedMessage) -> Call:
        """Return the call that makes a durable message its head's newest one, which readers see."""
        reserved = committed.reserved
        message, change = reserved.message, reserved.change
        at_ms = committed.at_ms if change is None or change.announced or change.dissolves else 0
        if change is not None and change.updates_group:
            at_ms = change.update_time_ms(committed.at_ms)
        changed = (reserved.outbox_entry, change.to_json()) if change is not None else ("", "")
        replier = message.sender if is_reply(message) else ""
        place = (message.seq, message.to_json(), at_ms, int(message.kind.countable))
        return Call(
            "set_newest_message",
            self._keys.conversation(message.conversation),
            (*place, *changed, replier, message.n, message.parent_seq),
        )


def without_flag(committed: CommittedMessage) -> CommittedMessage:
    """Return a durable message without its flag: the report about it is durable too."""
    reserved = committed.reserved
    if reserved.message.flag is None:
        return committed
    return replace(committed, reserved=replace(reserved, message=reserved.message._replace(flag=None)))


def _key_owners(rows: Sequence[Document]) -> dict[tuple[UserId, str | None], Message]:
    """Return the messages that own their keys, by sender and key."""
    owners = [row for row in rows if MessageField.KEY in row and MessageField.KEY_RELEASED not in row]
    return {(owner.sender, owner.key): owner for owner in map(message_from, owners)}


def _read_mark(message: Message) -> ReceiptMark:
    """Return the mark of the sender: sending reads."""
    return ReceiptMark(message.conversation, message.sender, ReceiptKind.READ, message.seq)

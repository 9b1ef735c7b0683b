"""Receipts: the position up to which each recipient has received and read, and the times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from store.base.ids import ConversationId, UserId, parse_private
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, MEMBERS, RECEIPTS, marks_between, members_of, seq_of_receipt
from store.mongo.writes import Write
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark, mark_row, peer_updates, progress_updates
from store.receipts.receipt_pages import (
    LAST_SEQ,
    ReceiptQuery,
    ReceiptRows,
    ReceiptWindow,
    receipts_pipeline,
    windows_of,
)
from store.receipts.recipients import MEMBER_PROGRESS, PEER_PROGRESS, Recipient, member_from_row, peers_from_row


class ReceiptStore:
    """Marks in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    def prepare_writes(self, marks: Sequence[ReceiptMark], at_ms: int) -> list[Write]:
        """Return the writes that store marks and their users' progress, to be sent with other writes.

        May be repeated: a mark that exists keeps its time.
        """
        writes = (
            Write.inserts(RECEIPTS, [mark_row(mark, at_ms) for mark in marks]),
            Write.updates(MEMBERS, progress_updates(marks)),
            Write.updates(CONVERSATIONS, peer_updates(marks, at_ms)),
        )
        return [write for write in writes if write.statements]

    async def save_marks(self, marks: Sequence[ReceiptMark], at_ms: int) -> None:
        """Store marks and their users' progress: one round trip."""
        await self._mongo.write(self.prepare_writes(marks, at_ms))

    async def find_last_read(self, conversation: ConversationId, user: UserId, before: int) -> int:
        """Return the seq of a user's last READ mark before a seq; 0 if there is none."""
        query = marks_between(conversation, user, ReceiptKind.READ.value, 0, before - 1)
        row = await self._mongo.find_one(RECEIPTS, query, sort=[("_id", -1)])
        return seq_of_receipt(row["_id"]) if row else 0

    async def list_recipients(self, conversations: Sequence[ConversationId]) -> dict[ConversationId, list[Recipient]]:
        """Return all current and former members of conversations: one round trip."""
        groups = [c for c in dict.fromkeys(conversations) if parse_private(c) is None]
        private = [c for c in conversations if parse_private(c) is not None]
        reads = [self._mongo.find(MEMBERS, members_of(c), projection=MEMBER_PROGRESS) for c in groups]
        if private:
            reads.append(self._mongo.find(CONVERSATIONS, {"_id": {"$in": private}}, projection=PEER_PROGRESS))
        answers = await self._mongo.gather(*reads)
        found = {c: [member_from_row(c, row) for row in rows] for c, rows in zip(groups, answers, strict=False)}
        return found | {head["_id"]: peers_from_row(head) for heads in answers[len(groups) :] for head in heads}

    async def read_receipts(self, queries: Iterable[ReceiptQuery]) -> dict[ReceiptQuery, ReceiptRows]:
        """Read pages of receipts: one round trip.

        Two, if the recipients of messages that are close to each other differ so much that a page is incomplete.
        """
        found = await self._read_windows(windows_of(queries))
        incomplete = [query for query, rows in found.items() if not rows.has_page(query)]
        if incomplete:
            found |= await self._read_windows([ReceiptWindow.of([query]) for query in incomplete])
        return found

    async def _read_windows(self, windows: Sequence[ReceiptWindow]) -> dict[ReceiptQuery, ReceiptRows]:
        answers = await self._mongo.gather(*map(self._read_window, windows))
        return {query: rows for window, rows in zip(windows, answers, strict=True) for query in window.queries}

    async def _read_window(self, window: ReceiptWindow) -> ReceiptRows:
        conversation = window.template.conversation
        if parse_private(conversation) is not None:
            return await self._read_peer(window)
        found = await self._mongo.aggregate(MEMBERS, receipts_pipeline(window))
        delivered, read = ReceiptKind.DELIVERED.value, ReceiptKind.READ.value
        rows = [(member_from_row(conversation, row), row[delivered], row[read]) for row in found]
        return ReceiptRows(window, rows)

    async def _read_peer(self, window: ReceiptWindow) -> ReceiptRows:
        """Read the one recipient of messages in a private conversation."""
        conversation = window.template.conversation
        people = parse_private(conversation)
        assert people is not None
        peer = people[1] if people[0] == window.template.sender else people[0]
        marks = [
            self._mongo.find(
                RECEIPTS,
                marks_between(conversation, peer, kind.value, window.first, LAST_SEQ),
                sort=[("_id", 1)],
                limit=window.max_marks,
            )
            for kind in (ReceiptKind.DELIVERED, ReceiptKind.READ)
        ]
        heads, delivered, read = await self._mongo.gather(
            self._mongo.find(CONVERSATIONS, {"_id": conversation}, projection=PEER_PROGRESS), *marks
        )
        recipients = [person for head in heads for person in peers_from_row(head) if person.user == peer]
        return ReceiptRows(window, [(recipient, delivered, read) for recipient in recipients])

"""Acknowledgements: the common part of reading and receiving, after the new position is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.sessions.user_transactions import Decision, commit
from store.base.errors import Fenced, Unreachable
from store.base.ids import ConversationId
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark
from store.sessions.changes import Delivered, Read
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from store.sessions.user_transactions import UserTransaction
from subscriptions.realtime.events.receipts import ReceiptAdvanced


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Everything in a session up to a seq is read or received.

    advances: The position moves, and senders are notified. If it does not move, only the unread mark is removed.
    """

    before: Session
    change: Read | Delivered
    advances: bool = True

    @property
    def kind(self) -> ReceiptKind:
        """READ or DELIVERED."""
        return ReceiptKind.READ if isinstance(self.change, Read) else ReceiptKind.DELIVERED

    @property
    def previous_seq(self) -> int:
        """Position that the senders were notified of so far."""
        return self.before.acknowledged_seq if isinstance(self.change, Read) else self.before.received_seq

    @property
    def may_cover_messages(self) -> bool:
        """False if no message of another user can be between the positions."""
        return self.advances and (not isinstance(self.change, Read) or self.covers_unread)

    @property
    def covers_unread(self) -> bool:
        """True if a message of another user is between the positions. Sending reads, so own messages are not unread."""
        return isinstance(self.change, Read) and self.change.n > self.before.read_n

    @property
    def receipt(self) -> ReceiptAdvanced | None:
        """The receipt for the senders."""
        if not self.advances:
            return None
        return ReceiptAdvanced(self.change.conversation, self.before.user, self.kind, self.change.seq)

    @property
    def decision(self) -> Decision:
        """The change of the session, for the user's devices."""
        reason = SyncReason.READ if isinstance(self.change, Read) else SyncReason.DELIVERED
        return Decision(self.change, reason, self.receipt)


async def acknowledge(
    app: Confab, transaction: UserTransaction, due: Sequence[Acknowledgement]
) -> dict[ConversationId, Session]:
    """Commit acknowledgements with their receipts, and notify the senders.

    Returns the sessions after the change; empty if the user's state is not cached.
    """
    marks = [
        ReceiptMark(each.change.conversation, transaction.user, each.kind, each.change.seq)
        for each in due
        if each.advances
    ]
    receipt_writes = app.store.receipts.prepare_writes(marks, transaction.at)
    try:
        changed = await commit(app, transaction, [each.decision for each in due], receipt_writes)
    except (Fenced, Unreachable, asyncio.CancelledError):
        # A part may have been written, so a retry may find nothing left to do.
        for each in due:
            _notify_senders(app, each, transaction.at, store_mark=True)
        raise
    for each in due:
        _notify_senders(app, each, transaction.at, store_mark=False)
    return changed


def _notify_senders(app: Confab, each: Acknowledgement, at_ms: int, *, store_mark: bool) -> None:
    receipt = each.receipt
    if receipt is not None and (store_mark or each.may_cover_messages):
        app.receipts.notify(
            receipt, each.previous_seq, at_ms=at_ms, covers_unread=each.covers_unread, store_mark=store_mark
        )

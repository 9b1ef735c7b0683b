"""Acknowledgements: the common part of reading and receiving, after the new position is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.sessions.user_transactions import Decision, commit, find_sessions_after_change
from store.base.errors import Fenced, Unreachable
from store.base.ids import ConversationId, gateway_id, parse_private
from store.conversations.conversation import Head
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark
from store.sessions.changes import AcknowledgeMany, Delivered, Read
from store.sessions.channel_changes import ChannelChange
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from store.sessions.session_lists import is_thread
from store.sessions.user_transactions import UserTransaction
from subscriptions.realtime.events.receipts import ReceiptAdvanced

MAX_SESSIONS = 200
"""Sessions in one change. The limit bounds the time that Redis is blocked, and the size of the devices' event."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Everything in a session up to a seq is read or received.

    advances: The position moves, and senders are notified. If it does not move, only the unread mark is removed. In
        channels and threads nobody is notified.
    """

    before: Session
    change: Read | Delivered | ChannelChange
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
    def concerns_others(self) -> bool:
        """True if others may have to be notified: their session shows the position, or they wrote messages up to it.

        In groups nobody wrote what was read if the number of messages is the same: sending reads, so own messages are
        not unread.
        """
        is_shown = parse_private(self.change.conversation) is not None
        return is_shown or not isinstance(self.change, Read) or self.change.n > self.before.read_n

    @property
    def receipt(self) -> ReceiptAdvanced | None:
        """The receipt for the senders."""
        if not self.advances or isinstance(self.change, ChannelChange) or is_thread(self.change.conversation):
            return None
        return ReceiptAdvanced(self.change.conversation, self.before.user, self.kind, self.change.seq)

    @property
    def reason(self) -> SyncReason:
        """The reason in the event for the user's devices."""
        if isinstance(self.change, ChannelChange):
            return SyncReason.READ if self.change.delivered_seq is None else SyncReason.DELIVERED
        return SyncReason.READ if isinstance(self.change, Read) else SyncReason.DELIVERED


async def acknowledge(
    app: Confab,
    transaction: UserTransaction,
    due: Sequence[Acknowledgement],
    before: Mapping[ConversationId, Session],
    heads: Mapping[ConversationId, Head],
) -> dict[ConversationId, Session]:
    """Commit acknowledgements of one kind with their receipts as one change, and notify the senders.

    Args:
        app: The application.
        transaction: The user's transaction.
        due: The acknowledgements.
        before: Sessions before the change.
        heads: The heads of the channels among them.

    Returns:
        The sessions after the change, and the gateways that it moved.
    """
    if not due:
        return dict(before)
    marks = [
        ReceiptMark(receipt.conversation, transaction.user, each.kind, receipt.seq)
        for each in due
        if (receipt := each.receipt) is not None
    ]
    receipt_writes = app.store.receipts.prepare_writes(marks, transaction.at)
    try:
        changed = await commit(app, transaction, [_decision(due)], receipt_writes, heads)
    except (Fenced, Unreachable, asyncio.CancelledError):
        # A part may have been written, so a retry may find nothing left to do.
        for each in due:
            _notify_senders(app, each, transaction.at, store_mark=True)
        raise
    for each in due:
        _notify_senders(app, each, transaction.at, store_mark=False)
    moved = [each.change.conversation for each in due]
    gateways = {gateway_id(each.before.sub_biz) for each in due if each.before.sub_biz is not None}
    return await find_sessions_after_change(app, transaction.user, before, [*moved, *sorted(gateways)], changed)


def _decision(due: Sequence[Acknowledgement]) -> Decision:
    """Return the change of the sessions, with the receipts, as one event for the user's devices."""
    if len(due) == 1:
        return Decision(due[0].change, due[0].reason, due[0].receipt)
    parts = [(each.change, each.receipt.log_entry() if each.receipt is not None else None) for each in due]
    receipts = [each.receipt for each in due if each.receipt is not None]
    return Decision(AcknowledgeMany(parts), due[0].reason, receipts=receipts)


def _notify_senders(app: Confab, each: Acknowledgement, at_ms: int, *, store_mark: bool) -> None:
    receipt = each.receipt
    if receipt is not None and (store_mark or each.concerns_others):
        app.receipts.notify(receipt, each.previous_seq, at_ms=at_ms, store_mark=store_mark)

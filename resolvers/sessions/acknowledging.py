"""Acknowledgements: the common part of reading and receiving, after the new position is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.sessions.user_transactions import Decision, commit, find_sessions_after_change
from store.base.errors import Fenced, Unreachable
from store.base.ids import ConversationId, gateway_id, parse_private
from store.conversations.conversation import Head
from store.mongo.writes import Write
from store.receipts.held_receipts import HeldReceipt
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
    *,
    held_until_ms: int | None = None,
) -> dict[ConversationId, Session]:
    """Commit acknowledgements of one kind with their receipts as one change, and notify the senders.

    Args:
        app: The application.
        transaction: The user's transaction.
        due: The acknowledgements.
        before: Sessions before the change.
        heads: The heads of the channels among them.
        held_until_ms: The user is INVISIBLE: receipts are held back, and at this time (ms) any server checks whether
            the user is visible again. None: the user is visible.

    Returns:
        The sessions after the change, and the gateways that it moved.
    """
    if not due:
        return dict(before)
    receipts = _Receipts(app, transaction, due, held_until_ms)
    try:
        changed = await commit(app, transaction, [_decision(due)], receipts.writes(), heads)
    except (Fenced, Unreachable, asyncio.CancelledError):
        # A part may have been written, so a retry may find nothing left to do.
        receipts.complete(are_stored=False)
        raise
    receipts.complete(are_stored=True)
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


class _Receipts:
    """The receipts of acknowledgements: for the senders now, or held back (ADR 81)."""

    def __init__(
        self, app: Confab, transaction: UserTransaction, due: Iterable[Acknowledgement], held_until_ms: int | None
    ) -> None:
        self._app = app
        self._transaction = transaction
        self._receipts = [(each, receipt) for each in due if (receipt := each.receipt) is not None]
        self._held_until_ms = held_until_ms
        self._held = [HeldReceipt(r.user, r.conversation, r.seq, each.previous_seq) for each, r in self._receipts]

    def writes(self) -> list[Write]:
        """Return the writes that store them, to be sent with those of the sessions."""
        store = self._app.store
        if self._held_until_ms is not None:
            return store.held_receipts.prepare_writes(self._held, self._held_until_ms)
        marks = [ReceiptMark(r.conversation, r.user, r.kind, r.seq) for _, r in self._receipts]
        return store.receipts.prepare_writes(marks, self._transaction.at)

    def complete(self, *, are_stored: bool) -> None:
        """Notify the senders, unless they are held back. Returns at once. are_stored: false if that is not known."""
        app = self._app
        if self._held_until_ms is not None:
            app.receipt_release.complete_hold(self._held, self._held_until_ms, are_stored=are_stored)
            return
        for each, receipt in self._receipts:
            if each.concerns_others or not are_stored:
                app.receipts.notify(receipt, each.previous_seq, at_ms=self._transaction.at, store_mark=not are_stored)

"""Acknowledging: what reading and receiving have in common once it is decided how far they go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resolvers.base.app import Confab
from resolvers.sessions.session_changes import announce, apply_held
from store.base.errors import Fenced, Unreachable
from store.base.ids import ConversationId, UserId
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark
from store.sessions.session import Session
from store.sessions.user_locks import UserLock
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.sessions import SessionChanged, SyncReason


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A session of which everything up to a seq is read or received. `n`: countable messages up to there, where it is read.
    advanced: further than before, which the senders learn; else a mark of being unread ends, which they don't."""

    before: Session
    kind: ReceiptKind
    seq: int
    n: int = 0
    advanced: bool = True

    @property
    def conversation(self) -> ConversationId:
        return self.before.conversation

    @property
    def reason(self) -> SyncReason:
        return SyncReason.READ if self.kind is ReceiptKind.READ else SyncReason.DELIVERED

    @property
    def after(self) -> int:
        """How far it was acknowledged before."""
        return self.before.acknowledged_seq if self.kind is ReceiptKind.READ else self.before.received_seq

    @property
    def may_cover(self) -> bool:
        """Whether there may be messages that it is about."""
        return self.advanced and (self.kind is ReceiptKind.DELIVERED or self.n > self.before.read_n)

    def receipt(self) -> ReceiptAdvanced | None:
        """What the senders learn."""
        return ReceiptAdvanced(self.conversation, self.before.user, self.kind, self.seq) if self.advanced else None

    def row_update(self, at: int) -> dict[str, Any]:
        """What it changes in the session's row."""
        if self.kind is ReceiptKind.DELIVERED:
            return {"$max": {"d": self.seq, "a": at}}
        return {
            "$max": {"r": self.seq, "rn": self.n, "d": self.seq, "a": at},
            "$pull": {"ms": {"$lte": self.seq}},
            "$unset": {"us": ""},
        }

    def change(self, at: int) -> tuple[str, dict[str, Any]]:
        """The same for the cached state."""
        fields = {
            "c": self.conversation,
            "at": at,
            "e": SessionChanged.log_entry(self.reason, [self.conversation], self.receipt()),
        }
        if self.kind is ReceiptKind.DELIVERED:
            return "delivered", fields | {"d": self.seq}
        return "read", fields | {"r": self.seq, "rn": self.n}


async def acknowledge(
    app: Confab, user: UserId, held: UserLock, due: Sequence[Acknowledgement]
) -> dict[ConversationId, Session]:
    """Carries out under the user's lock: in MongoDB, in the user's cached state, to the user's devices; and tells the senders.
    Answers the sessions as they are then, where the user's state is in use."""
    times = {each.conversation: held.at + offset for offset, each in enumerate(due)}
    marks = [ReceiptMark(each.conversation, user, each.kind, each.seq) for each in due if each.advanced]
    also = app.store.receipts.writes(marks, held.at)
    held.in_doubt = True
    updates = {each.conversation: each.row_update(times[each.conversation]) for each in due}
    try:
        await app.store.session_rows.write(user, held.fence, updates, also)
        outcomes = await apply_held(app, user, held, [each.change(times[each.conversation]) for each in due])
    except (Fenced, Unreachable, asyncio.CancelledError):
        # It may have been written in part, and when it is tried again it may not be due any more.
        for each in due:
            _tell_senders(app, each, keep=True)
        raise
    for each in due:
        _tell_senders(app, each, keep=False)
    events = [
        (SessionChanged(each.reason, o.sessions, o.total_unread, each.receipt()), o)
        for each, o in zip(due, outcomes, strict=False)
    ]
    announce(app, user, events, times)
    return {session.conversation: session for o in outcomes for session in o.sessions}


def _tell_senders(app: Confab, each: Acknowledgement, *, keep: bool) -> None:
    receipt = each.receipt()
    if receipt is not None and (keep or each.may_cover):
        app.receipts.advance(receipt, each.after, keep=keep)


async def find_session(app: Confab, user: UserId, conversation: ConversationId) -> Session:
    """The session after a change, where the change did not tell: it is there."""
    found = await app.store.sessions.find(user, conversation)
    assert found is not None
    return found

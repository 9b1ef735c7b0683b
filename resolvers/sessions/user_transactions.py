"""Commits and publishes the changes of sessions that a use case has decided.

Locking and storing is in `store/sessions/user_transactions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.errors import NotFound
from store.base.ids import ConversationId, UserId, kind_of
from store.mongo.writes import Write
from store.sessions.changes import RowChange
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from store.sessions.user_transactions import UserTransaction
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.outgoing_events import OutgoingEvents


@dataclass(frozen=True, slots=True)
class Decision:
    """A change that a use case has decided, and the reason that the user's devices get.

    Attributes:
        change: The change.
        reason: The reason.
        receipt: The user's own acknowledgement, if the change is one. It is part of the session's event.
        receipts: The acknowledgements of a change of several sessions. Each is an event after the session event.
    """

    change: RowChange
    reason: SyncReason
    receipt: ReceiptAdvanced | None = None
    receipts: Sequence[ReceiptAdvanced] = ()


async def commit(
    app: Confab,
    transaction: UserTransaction,
    decisions: Sequence[Decision],
    other_writes: Sequence[Write] = (),
) -> dict[ConversationId, Session]:
    """Commit decisions, and publish each as one event to all of the user's connections, the caller's included.

    Args:
        app: The application.
        transaction: The user's transaction, which this ends.
        decisions: At least one. Only the last one may have `receipts`.
        other_writes: Writes to MongoDB made in the same round trip.

    Returns:
        The sessions after the changes; empty if the user's state is not cached.

    Raises:
        Fenced: The lock was lost. MongoDB may hold some of the changes.
        Unreachable: A database did not answer. MongoDB may hold some of the changes.
    """
    changes = [(d.change, SessionChanged.log_entry(d.reason, d.change.conversations, d.receipt)) for d in decisions]
    committed = await transaction.commit(changes, other_writes)
    outgoing = OutgoingEvents()
    for decision, result in zip(decisions, committed.results, strict=True):
        event = SessionChanged(decision.reason, result.sessions, result.total_unread, decision.receipt)
        outgoing.add(event, [(transaction.user, result)], stored_at=committed.times)
        moved = {session.conversation for session in result.sessions}
        receipts = [receipt for receipt in decision.receipts if receipt.conversation in moved]
        for number, receipt in enumerate(receipts, start=1):
            outgoing.add(receipt, [(transaction.user, result.following(number))])
    app.bus.send(outgoing)
    return {session.conversation: session for result in committed.results for session in result.sessions}


async def find_sessions_after_change(
    app: Confab,
    user: UserId,
    before: Mapping[ConversationId, Session],
    due: Iterable[ConversationId],
    changed: Mapping[ConversationId, Session],
) -> dict[ConversationId, Session]:
    """Return sessions as they are after a change. A round trip reads those that its result does not contain.

    Args:
        app: The application.
        user: The user.
        before: Sessions before the change.
        due: The conversations whose sessions should change.
        changed: What `commit` returned.
    """
    after = {**before, **changed}
    missing = [conversation for conversation in due if conversation not in changed]
    if missing:
        found = await app.store.sessions.find_many(user, missing)
        after |= {session.conversation: session for session in found.sessions}
    return after


async def load_session(app: Confab, user: UserId, conversation: ConversationId) -> Session:
    """Return a session that exists, after a change that did not return it."""
    found = await app.store.sessions.find(user, conversation)
    assert found is not None
    return found


def known_conversation(conversation: str, argument: str) -> ConversationId:
    """Return a well-formed id. Raises NotFound, which names the argument."""
    if kind_of(conversation) is None:
        raise NotFound("there is no such conversation", field=argument)
    return ConversationId(conversation)


def existing_session(transaction: UserTransaction, conversation: ConversationId, argument: str) -> Session:
    """Return a session of the transaction. Raises NotFound, which names the argument."""
    session = transaction.sessions.get(conversation)
    if session is None or not session.exists:
        raise NotFound("there is no such conversation", field=argument)
    return session

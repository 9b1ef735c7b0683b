"""Commits and publishes the changes of sessions that a use case has decided.

Locking and storing is in `store/sessions/user_transactions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from resolvers.base.app import Confab
from resolvers.base.errors import NotFound
from store.base.ids import ConversationId, UserId, kind_of
from store.channels.channel_sessions import with_head
from store.conversations.conversation import Head
from store.mongo.writes import Write
from store.sessions.apply_results import ApplyResult
from store.sessions.changes import RowChange
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from store.sessions.user_transactions import UserTransaction
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.outgoing_events import OutgoingEvents

NO_HEADS: Mapping[ConversationId, Head] = {}


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
    heads: Mapping[ConversationId, Head] = NO_HEADS,
) -> dict[ConversationId, Session]:
    """Commit decisions, and publish each as one event to all of the user's connections, the caller's included.

    Args:
        app: The application.
        transaction: The user's transaction, which this ends.
        decisions: At least one. Only the last one may have `receipts`.
        other_writes: Writes to MongoDB made in the same round trip.
        heads: The heads of the channels, and of the threads that are not followed, that are changed.

    Returns:
        The sessions after the changes; empty if the user's state is not cached.

    Raises:
        Fenced: The lock was lost. MongoDB may hold some of the changes.
        Unreachable: A database did not answer. MongoDB may hold some of the changes.
    """
    changes = [(d.change, SessionChanged.log_entry(d.reason, d.change.conversations, d.receipt)) for d in decisions]
    committed = await transaction.commit(changes, other_writes)
    results = [_completed(result, heads) for result in committed.results] if heads else committed.results
    outgoing = OutgoingEvents()
    for decision, result in zip(decisions, results, strict=True):
        event = SessionChanged(decision.reason, result.sessions, result.total_unread, decision.receipt)
        outgoing.add(event, [(transaction.user, result)], stored_at=committed.times)
        moved = {session.conversation for session in result.sessions}
        receipts = [receipt for receipt in decision.receipts if receipt.conversation in moved]
        for number, receipt in enumerate(receipts, start=1):
            outgoing.add(receipt, [(transaction.user, result.following(number))])
    app.bus.send(outgoing)
    for decision in decisions:
        app.stale_notifications.add_changed(transaction.user, decision.reason, decision.change.conversations)
    return {session.conversation: session for result in results for session in result.sessions}


def _completed(result: ApplyResult, heads: Mapping[ConversationId, Head]) -> ApplyResult:
    """Return a result with those sessions completed that take something from the head."""
    sessions = (
        with_head(each, heads[each.conversation]) if each.comes_from_head and each.conversation in heads else each
        for each in result.sessions
    )
    return replace(result, sessions=tuple(sessions))


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
        shown = await app.store.channel_sessions.complete(user, found.sessions)
        after |= {session.conversation: session for session in shown}
    return after


async def load_session(app: Confab, user: UserId, conversation: ConversationId) -> Session:
    """Return a session that exists, after a change that did not return it."""
    found = await app.store.sessions.find_each(user, (conversation,))
    shown = await app.store.channel_sessions.complete(user, found)
    if not shown:
        # The user has lost access to the channel meanwhile.
        raise NotFound("there is no such conversation", field="conversationId")
    return shown[0]


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

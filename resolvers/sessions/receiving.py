"""Receiving: moves a user's delivered position, and notifies senders."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from resolvers.sessions.acknowledging import Acknowledgement, acknowledge
from resolvers.sessions.user_transactions import existing_session, known_conversation, load_session
from store.base.ids import UserId
from store.sessions.changes import Delivered
from store.sessions.session import Session
from store.sessions.user_transactions import UserTransaction


async def ack_delivered(app: Confab, user: UserId, conversation: str, up_to_seq: int) -> Session:
    """Mark all messages up to a seq as delivered. The position never goes back. Senders get receipts.

    An unread mark is kept. Raises InvalidInput, also for a gateway; NotFound.
    """
    if up_to_seq < 0:
        raise InvalidInput("upToSeq must not be negative", field="upToSeq")
    wanted = known_conversation(conversation, "conversationId")

    async def work(transaction: UserTransaction) -> Session:
        session = existing_session(transaction, wanted, "conversationId")
        if session.is_gateway:
            raise InvalidInput("this does not apply to a subBiz", field="conversationId")
        due = await _decide(app, session, up_to_seq)
        if due is None:
            return session
        return (await acknowledge(app, transaction, [due])).get(wanted) or await load_session(app, user, wanted)

    return await app.store.user_transactions.run(user, [wanted], work)


async def _decide(app: Confab, session: Session, seq: int) -> Acknowledgement | None:
    """Return the acknowledgement; None if there is nothing to acknowledge. Deleted messages are not acknowledged."""
    seq = min(seq, session.write_seq)
    if seq <= session.delivered_seq or not session.valid:
        return None
    if seq < session.write_seq:
        # A message that is not durable yet has not arrived, even if later ones have.
        seq, _ = await app.store.messages.find_place(session.conversation, seq)
    return Acknowledgement(session, Delivered(session.conversation, seq)) if seq > session.delivered_seq else None

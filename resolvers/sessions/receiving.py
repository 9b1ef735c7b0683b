"""Receiving: how far messages have arrived on one of a user's devices."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from resolvers.sessions.acknowledging import Acknowledgement, acknowledge, find_session
from resolvers.sessions.session_changes import existing_session, known_conversation, user_transaction
from store.base.ids import UserId
from store.receipts.receipt_marks import ReceiptKind
from store.sessions.session import Session
from store.sessions.user_locks import UserLock


async def ack_delivered(app: Confab, user: UserId, conversation: str, up_to_seq: int) -> Session:
    """Everything up to a seq has arrived. Never backwards; tells the senders. Leaves a mark of being unread.

    Raises InvalidInput, for a gateway too; NotFound.
    """
    if up_to_seq < 0:
        raise InvalidInput("upToSeq must not be negative", field="upToSeq")
    wanted = known_conversation(conversation, "conversationId")

    async def work(held: UserLock) -> Session:
        session = existing_session(held, wanted, "conversationId")
        if session.is_gateway:
            raise InvalidInput("this does not apply to a subBiz", field="conversationId")
        due = await _due(app, session, up_to_seq)
        if due is None:
            return session
        return (await acknowledge(app, user, held, [due])).get(wanted) or await find_session(app, user, wanted)

    return await user_transaction(app, user, [wanted], work)


async def _due(app: Confab, session: Session, seq: int) -> Acknowledgement | None:
    """None where that is known. What was deleted is not received any more."""
    place = min(seq, session.write_seq)
    if place <= session.delivered_seq or not session.valid:
        return None
    if place < session.write_seq:
        # What is not durable yet, though later ones are, has not arrived.
        place, _ = await app.store.messages.find_place(session.conversation, place)
    return Acknowledgement(session, ReceiptKind.DELIVERED, place) if place > session.delivered_seq else None

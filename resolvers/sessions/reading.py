"""Reading: how far a user has read, and telling those who wrote it."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.sessions.acknowledging import Acknowledgement, acknowledge, find_session
from resolvers.sessions.session_changes import existing_session, known_conversation, user_transaction
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.receipts.receipt_marks import ReceiptKind
from store.sessions.session import Session
from store.sessions.session_store import list_name
from store.sessions.user_locks import UserLock

_TOGETHER = 200


async def mark_read(app: Confab, user: UserId, conversation: str, up_to_seq: int | None) -> Session:
    """The user has read everything up to a seq (all there is where none is given). Never backwards; tells the senders.

    Of a subBiz: everything in it. Raises InvalidInput, NotFound.
    """
    if up_to_seq is not None and up_to_seq < 0:
        raise InvalidInput("upToSeq must not be negative", field="upToSeq")
    wanted = known_conversation(conversation, "conversationId")
    if kind_of(wanted) is ConversationKind.SUB_BIZ:
        return await _read_inside(app, user, wanted)

    async def work(held: UserLock) -> Session:
        session = existing_session(held, wanted, "conversationId")
        if up_to_seq is None or up_to_seq >= session.write_seq:
            due = _reading(session)
        else:
            due = await _read_in_part(app, session, up_to_seq)
        if due is None:
            return session
        return (await acknowledge(app, user, held, [due])).get(wanted) or await find_session(app, user, wanted)

    return await user_transaction(app, user, [wanted], work)


async def _read_inside(app: Confab, user: UserId, gateway: ConversationId) -> Session:
    """Everything that is in a subBiz at the moment, some hundred sessions at a time: a lock lasts for so long."""
    if await app.store.sessions.find(user, gateway) is None:
        raise NotFound("there is no such conversation", field="conversationId")
    inside = await app.store.sessions.list_names(user, list_name(gateway.removeprefix("b_"), None))

    async def work(held: UserLock) -> dict[ConversationId, Session]:
        due = [reading for session in held.sessions.values() if (reading := _reading(session)) is not None]
        return await acknowledge(app, user, held, due) if due else {}

    changed: dict[ConversationId, Session] = {}
    for start in range(0, len(inside), _TOGETHER):
        changed |= await user_transaction(app, user, inside[start : start + _TOGETHER], work)
    return changed.get(gateway) or await find_session(app, user, gateway)


def _reading(session: Session) -> Acknowledgement | None:
    """All of it; None where there is nothing left to read, nor a mark of being unread to take away. What was deleted is not
    read, whatever SYSTEM message came after."""
    if session.valid and session.write_seq > session.read_seq:
        return Acknowledgement(session, ReceiptKind.READ, session.write_seq, session.n)
    return _unmarking(session)


def _unmarking(session: Session) -> Acknowledgement | None:
    if not session.unread_status:
        return None
    return Acknowledgement(session, ReceiptKind.READ, session.acknowledged_seq, session.read_n, advanced=False)


async def _read_in_part(app: Confab, session: Session, seq: int) -> Acknowledgement | None:
    if seq <= session.read_seq or not session.valid:
        return _unmarking(session)
    # What is not durable yet, though later ones are, is not read.
    place, n = await app.store.messages.find_place(session.conversation, seq)
    return Acknowledgement(session, ReceiptKind.READ, place, n) if place > session.read_seq else _unmarking(session)

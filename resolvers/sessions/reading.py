"""Reading: moves a user's read position, and notifies senders."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.sessions.acknowledging import Acknowledgement, acknowledge
from resolvers.sessions.user_transactions import existing_session, known_conversation, load_session
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.sessions.changes import Read
from store.sessions.session import Session
from store.sessions.session_store import list_name
from store.sessions.user_transactions import UserTransaction

_SESSIONS_PER_TRANSACTION = 200
"""Sessions inside a subBiz that one transaction reads, because a lock lasts only some seconds."""


async def mark_read(app: Confab, user: UserId, conversation: str, up_to_seq: int | None) -> Session:
    """Mark all messages up to a seq as read; None: all messages. The position never goes back. Senders get receipts.

    For a subBiz, all sessions in it are read. Raises InvalidInput, NotFound.
    """
    if up_to_seq is not None and up_to_seq < 0:
        raise InvalidInput("upToSeq must not be negative", field="upToSeq")
    wanted = known_conversation(conversation, "conversationId")
    if kind_of(wanted) is ConversationKind.SUB_BIZ:
        return await _read_inside(app, user, wanted)

    async def work(transaction: UserTransaction) -> Session:
        session = existing_session(transaction, wanted, "conversationId")
        if up_to_seq is None or up_to_seq >= session.write_seq:
            due = _read_all(session)
        else:
            due = await _read_up_to(app, session, up_to_seq)
        if due is None:
            return session
        return (await acknowledge(app, transaction, [due])).get(wanted) or await load_session(app, user, wanted)

    return await app.store.user_transactions.run(user, [wanted], work)


async def _read_inside(app: Confab, user: UserId, gateway: ConversationId) -> Session:
    """Read all sessions that are in a subBiz now."""
    if await app.store.sessions.find(user, gateway) is None:
        raise NotFound("there is no such conversation", field="conversationId")
    inside = await app.store.sessions.list_names(user, list_name(gateway.removeprefix("b_"), None))

    async def work(transaction: UserTransaction) -> dict[ConversationId, Session]:
        due = [read for session in transaction.sessions.values() if (read := _read_all(session)) is not None]
        return await acknowledge(app, transaction, due) if due else {}

    changed: dict[ConversationId, Session] = {}
    for start in range(0, len(inside), _SESSIONS_PER_TRANSACTION):
        some = inside[start : start + _SESSIONS_PER_TRANSACTION]
        changed |= await app.store.user_transactions.run(user, some, work)
    return changed.get(gateway) or await load_session(app, user, gateway)


def _read_all(session: Session) -> Acknowledgement | None:
    """Return the acknowledgement of the whole session; None: nothing is left to read, and there is no unread mark.

    A deleted session is not read, even if a SYSTEM message came after the deletion.
    """
    if session.valid and session.write_seq > session.read_seq:
        return Acknowledgement(session, Read(session.conversation, session.write_seq, session.n))
    return _take_mark_away(session)


async def _read_up_to(app: Confab, session: Session, seq: int) -> Acknowledgement | None:
    if seq > session.read_seq and session.valid:
        # A message that is not durable yet does not count as read, even if later ones do.
        seq, n = await app.store.messages.find_place(session.conversation, seq)
        if seq > session.read_seq:
            return Acknowledgement(session, Read(session.conversation, seq, n))
    return _take_mark_away(session)


def _take_mark_away(session: Session) -> Acknowledgement | None:
    if not session.unread_status:
        return None
    same_position = Read(session.conversation, session.acknowledged_seq, session.read_n)
    return Acknowledgement(session, same_position, advances=False)

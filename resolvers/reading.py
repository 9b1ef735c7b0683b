"""Reading: how far a user has read, and telling those who wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resolvers.app import Confab
from resolvers.errors import InvalidInput, NotFound
from resolvers.session_changes import announce, apply_held, existing_session, hold_and, known_conversation
from store.errors import Fenced, Unreachable
from store.ids import ConversationId, ConversationKind, UserId, kind_of
from store.locks import Held
from store.receipts import Mark, ReceiptKind
from store.records import Session
from store.sessions import list_name
from subscriptions.events import ReceiptAdvanced, SessionChanged, SyncReason, log_session

_TOGETHER = 200


@dataclass(frozen=True, slots=True)
class _Reading:
    """A session that is read up to a seq, with n countable messages up to there. advanced: further than before."""

    before: Session
    seq: int
    n: int
    advanced: bool

    def receipt(self, user: UserId) -> ReceiptAdvanced | None:
        """What the senders learn."""
        return ReceiptAdvanced(self.before.conversation, user, ReceiptKind.READ, self.seq) if self.advanced else None


async def mark_read(app: Confab, user: UserId, conversation: str, up_to_seq: int | None) -> Session:
    """The user has read everything up to a seq (all there is where none is given). Never backwards; tells the senders.

    Of a subBiz: everything in it. Raises InvalidInput, NotFound.
    """
    if up_to_seq is not None and up_to_seq < 0:
        raise InvalidInput("upToSeq must not be negative", field="upToSeq")
    wanted = known_conversation(conversation, "conversationId")
    if kind_of(wanted) is ConversationKind.SUB_BIZ:
        return await _read_inside(app, user, wanted)

    async def work(held: Held) -> Session:
        session = existing_session(held, wanted, "conversationId")
        if up_to_seq is None or up_to_seq >= session.write_seq:
            due = _reading(session)
        else:
            due = await _read_in_part(app, session, up_to_seq)
        if due is None:
            return session
        return (await _carry_out(app, user, held, [due])).get(wanted) or await _find(app, user, wanted)

    return await hold_and(app, user, [wanted], work)


async def _read_inside(app: Confab, user: UserId, gateway: ConversationId) -> Session:
    """Everything that is in a subBiz at the moment, some hundred sessions at a time: a lock lasts for so long."""
    if await app.store.sessions.find(user, gateway) is None:
        raise NotFound("there is no such conversation", field="conversationId")
    inside = await app.store.sessions.list_names(user, list_name(gateway.removeprefix("b_"), None))

    async def work(held: Held) -> dict[ConversationId, Session]:
        due = [reading for session in held.sessions.values() if (reading := _reading(session)) is not None]
        return await _carry_out(app, user, held, due) if due else {}

    changed: dict[ConversationId, Session] = {}
    for start in range(0, len(inside), _TOGETHER):
        changed |= await hold_and(app, user, inside[start : start + _TOGETHER], work)
    return changed.get(gateway) or await _find(app, user, gateway)


async def _find(app: Confab, user: UserId, conversation: ConversationId) -> Session:
    found = await app.store.sessions.find(user, conversation)
    assert found is not None
    return found


def _reading(session: Session) -> _Reading | None:
    """All of it; None where there is nothing left to read, nor a mark of being unread to take away. What was deleted is not
    read, whatever SYSTEM message came after."""
    if session.valid and session.write_seq > session.read_seq:
        return _Reading(session, session.write_seq, session.n, advanced=True)
    return _unmarking(session)


def _unmarking(session: Session) -> _Reading | None:
    if not session.unread_status:
        return None
    return _Reading(session, session.acknowledged_seq, session.read_n, advanced=False)


async def _read_in_part(app: Confab, session: Session, seq: int) -> _Reading | None:
    if seq <= session.read_seq or not session.valid:
        return _unmarking(session)
    # What is not durable yet, though later ones are, is not read.
    place, n = await app.store.messages.find_place(session.conversation, seq)
    return _Reading(session, place, n, advanced=True) if place > session.read_seq else _unmarking(session)


async def _carry_out(
    app: Confab, user: UserId, held: Held, readings: Sequence[_Reading]
) -> dict[ConversationId, Session]:
    """Reads in MongoDB, in the user's cached state, to the user's devices; and tells the senders. Answers the sessions as
    they are then, where the user's state is in use."""
    store, at = app.store, held.at
    times = {reading.before.conversation: at + offset for offset, reading in enumerate(readings)}
    marks = [Mark(r.before.conversation, user, ReceiptKind.READ, r.seq) for r in readings if r.advanced]
    also = [store.receipts.insert(marks, at), store.receipts.show_peers(marks, at)] if marks else []
    changes = [("read", _change(reading, user, times[reading.before.conversation])) for reading in readings]
    held.in_doubt = True
    updates = {r.before.conversation: _row_update(r, times[r.before.conversation]) for r in readings}
    try:
        await store.session_rows.write(user, held.fence, updates, also)
        outcomes = await apply_held(app, user, held, changes)
    except (Fenced, Unreachable):
        # It may have been written, and then it is not due any more when it is tried again.
        _tell_senders(app, user, readings)
        raise
    _tell_senders(app, user, readings)
    events = [
        (SessionChanged(SyncReason.READ, o.sessions, o.total_unread, reading.receipt(user)), o)
        for reading, o in zip(readings, outcomes, strict=False)
    ]
    announce(app, user, events, times)
    return {session.conversation: session for o in outcomes for session in o.sessions}


def _tell_senders(app: Confab, user: UserId, readings: Sequence[_Reading]) -> None:
    for reading in readings:
        receipt = reading.receipt(user)
        if receipt is not None and reading.n > reading.before.read_n:
            app.receipts.advance(receipt, reading.before.acknowledged_seq)


def _row_update(reading: _Reading, at: int) -> dict[str, Any]:
    return {
        "$max": {"r": reading.seq, "rn": reading.n, "d": reading.seq, "a": at},
        "$pull": {"ms": {"$lte": reading.seq}},
        "$unset": {"us": ""},
    }


def _change(reading: _Reading, user: UserId, at: int) -> dict[str, Any]:
    conversation = reading.before.conversation
    event = log_session(SyncReason.READ, [conversation], reading.receipt(user))
    return {"c": conversation, "r": reading.seq, "rn": reading.n, "at": at, "e": event}

"""Reading: how far a user has read, and telling those who wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resolvers.app import Confab
from resolvers.errors import InvalidInput
from resolvers.session_changes import announce, apply_held, existing_session, hold_and, known_conversation
from store.ids import ConversationId, UserId
from store.locks import Held
from store.receipts import Mark, ReceiptKind
from store.records import Session
from store.sessions import list_name
from subscriptions.events import ReceiptAdvanced, SessionChanged, SyncReason, log_session

_INSIDE_AT_ONCE = 500
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

    async def work(held: Held) -> Session:
        session = existing_session(held, wanted, "conversationId")
        if session.is_gateway:
            due = [_reading(inside) for inside in await _list_inside(app, user, wanted)]
        elif up_to_seq is None or up_to_seq >= session.write_seq:
            due = [_reading(session)]
        else:
            due = [await _read_in_part(app, session, up_to_seq)]
        readings = [reading for reading in due if reading is not None]
        changed = await _carry_out(app, user, held, readings) if readings else {}
        if wanted in changed or not readings:
            return changed.get(wanted, session)
        found = await app.store.sessions.find(user, wanted)
        assert found is not None
        return found

    return await hold_and(app, user, [wanted], work)


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
    n = await app.store.messages.countable_at(session.conversation, seq)
    return _Reading(session, seq, n, advanced=True)


async def _list_inside(app: Confab, user: UserId, gateway: ConversationId) -> list[Session]:
    """All valid sessions of a subBiz."""
    found: list[Session] = []
    after = None
    while True:
        name = list_name(gateway.removeprefix("b_"), None)
        page = await app.store.sessions.list_page(user, name, _INSIDE_AT_ONCE, after)
        found += page.sessions
        if len(page.sessions) < _INSIDE_AT_ONCE:
            return found
        after = (page.positions[-1], page.sessions[-1].conversation)


async def _carry_out(
    app: Confab, user: UserId, held: Held, readings: Sequence[_Reading]
) -> dict[ConversationId, Session]:
    """Reads in MongoDB; from then on it is certain, and the senders are told. Then in the user's cached state, to the user's devices. Answers the sessions as
    they are then, where the user's state is in use."""
    store, at = app.store, held.at
    times = {reading.before.conversation: at + offset for offset, reading in enumerate(readings)}
    marks = [Mark(r.before.conversation, user, ReceiptKind.READ, r.seq) for r in readings if r.advanced]
    also = [store.receipts.insert(marks, at), store.receipts.show_peers(marks, at)] if marks else []
    held.in_doubt = True
    updates = {r.before.conversation: _row_update(r, times[r.before.conversation]) for r in readings}
    await store.session_rows.write(user, held.fence, updates, also)
    try:
        return await _apply(app, user, held, readings, times)
    finally:
        for reading in readings:
            receipt = reading.receipt(user)
            if receipt is not None and reading.n > reading.before.read_n:
                app.receipts.advance(receipt, reading.before.acknowledged_seq)


async def _apply(
    app: Confab, user: UserId, held: Held, readings: Sequence[_Reading], times: Mapping[ConversationId, int]
) -> dict[ConversationId, Session]:
    changed: dict[ConversationId, Session] = {}
    for start in range(0, len(readings), _TOGETHER):
        part = readings[start : start + _TOGETHER]
        changes = [("read", _change(reading, user, times[reading.before.conversation])) for reading in part]
        outcomes = await apply_held(app, user, held, changes, last=start + _TOGETHER >= len(readings))
        events = [
            (SessionChanged(SyncReason.READ, o.sessions, o.total_unread, reading.receipt(user)), o)
            for reading, o in zip(part, outcomes, strict=False)
        ]
        announce(app, user, events, times)
        changed |= {session.conversation: session for o in outcomes for session in o.sessions}
    return changed


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

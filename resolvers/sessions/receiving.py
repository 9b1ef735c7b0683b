"""Receiving: moves a user's delivered positions, and notifies senders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from resolvers.sessions.acknowledging import MAX_SESSIONS, Acknowledgement, acknowledge
from resolvers.sessions.channel_sessions import NamedSessions, find_named
from resolvers.sessions.user_transactions import known_conversation
from store.base.ids import ConversationId, UserId
from store.sessions.changes import Delivered
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from store.sessions.user_transactions import UserTransaction
from subscriptions.delivery.receipts.receipt_release import next_check_ms


class DeliveryMark(NamedTuple):
    """States that everything up to a seq of a conversation has arrived."""

    conversation: str
    up_to_seq: int


async def ack_delivered(app: Confab, user: UserId, conversation: str, up_to_seq: int) -> Session:
    """Mark all messages up to a seq as delivered. The position never goes back. Senders get receipts.

    While the user is INVISIBLE, receipts are held back (ADR 81). An unread mark is kept.

    Raises InvalidInput, also for a gateway; NotFound.
    """
    (session,) = await ack_many_delivered(app, user, [DeliveryMark(conversation, up_to_seq)])
    return session


async def ack_many_delivered(app: Confab, user: UserId, marks: Sequence[DeliveryMark]) -> list[Session]:
    """Like `ack_delivered` for several conversations, as one change. If one mark is refused, nothing is changed.

    If a conversation has several marks, the highest one counts. Returns each session once, in the order of the marks.
    """
    if len(marks) > MAX_SESSIONS:
        raise InvalidInput(f"at most {MAX_SESSIONS} marks at a time", field="marks")
    if any(mark.up_to_seq < 0 for mark in marks):
        raise InvalidInput("upToSeq must not be negative", field="upToSeq")
    seqs: dict[ConversationId, int] = {}
    for conversation, seq in marks:
        wanted = known_conversation(conversation, "conversationId")
        seqs[wanted] = max(seqs.get(wanted, 0), seq)
    if not seqs:
        return []

    async def work(transaction: UserTransaction) -> list[Session]:
        named = await find_named(app, transaction, list(seqs), "conversationId")
        if any(session.is_gateway for session in named.sessions.values()):
            raise InvalidInput("this does not apply to a subBiz", field="conversationId")
        due = await _decide(app, named, seqs)
        held_until_ms = await _held_until(app, user, *transaction.answers) if due else None
        after = await acknowledge(app, transaction, due, named.sessions, named.heads, held_until_ms=held_until_ms)
        return [after[name] for name in seqs]

    return await app.store.user_transactions.run(user, list(seqs), work, app.store.visibility.read_calls((user,)))


async def _held_until(app: Confab, user: UserId, presence: Sequence[bytes]) -> int | None:
    """Return when to check whether an INVISIBLE user is visible again (ms); None: the user is visible."""
    setting = await app.store.visibility.setting(user, presence)
    now_ms = app.store.clock.now_ms()
    return next_check_ms(setting, now_ms) if setting.is_hidden_at(now_ms) else None


async def _decide(app: Confab, named: NamedSessions, seqs: Mapping[ConversationId, int]) -> list[Acknowledgement]:
    """Return the acknowledgements that change a session. Deleted messages are not acknowledged."""
    sessions = named.sessions
    due = {
        name: min(seq, sessions[name].write_seq)
        for name, seq in seqs.items()
        if sessions[name].has_counts and min(seq, sessions[name].write_seq) > sessions[name].delivered_seq
    }
    # A message that is not durable yet has not arrived, even if later ones have.
    in_part = [(name, seq) for name, seq in due.items() if seq < sessions[name].write_seq]
    due |= {name: place.seq for name, place in (await app.store.messages.find_places(in_part)).items()}
    decided = [
        Acknowledgement(sessions[name], _received(sessions[name], seq))
        for name, seq in due.items()
        if seq > sessions[name].delivered_seq
    ]
    return decided + [Acknowledgement(sessions[name], _begun(sessions[name])) for name in seqs if name in named.new]


def _received(session: Session, seq: int) -> Delivered | ChannelChange:
    if session.comes_from_head:
        return ChannelChange(session.conversation, (0, 0), delivered_seq=seq)
    return Delivered(session.conversation, seq)


def _begun(session: Session) -> ChannelChange:
    """Return the change with which a session in a channel or thread begins: everything is read and delivered."""
    place = session.write_seq, session.n
    return ChannelChange(session.conversation, place, delivered_seq=session.write_seq)

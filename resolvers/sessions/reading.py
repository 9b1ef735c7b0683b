"""Reading: moves a user's read positions, and notifies senders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from resolvers.sessions.acknowledging import MAX_SESSIONS, Acknowledgement, acknowledge
from resolvers.sessions.channel_sessions import find_named
from resolvers.sessions.user_transactions import known_conversation
from store.base.ids import ConversationId, ConversationKind, UserId, gateway_id, kind_of
from store.sessions.changes import Read
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from store.sessions.session_store import list_name
from store.sessions.user_transactions import UserTransaction


async def mark_read(app: Confab, user: UserId, conversation: str, up_to_seq: int | None) -> Session:
    """Mark all messages up to a seq as read; None: all messages. The position never goes back. Senders get receipts.

    For a subBiz, all sessions in it are read. Raises InvalidInput, NotFound.
    """
    if up_to_seq is not None and up_to_seq < 0:
        raise InvalidInput("upToSeq must not be negative", field="upToSeq")
    wanted = known_conversation(conversation, "conversationId")
    read = await _read_named(app, user, [wanted], "conversationId", None if _is_gateway(wanted) else up_to_seq)
    return read[wanted]


async def mark_many_read(app: Confab, user: UserId, conversations: Sequence[str] | None) -> list[Session]:
    """Mark all messages of some conversations as read, as one change. If one of them is unknown, none is read.

    conversations: None for all that are unread or marked unread, with one change for each MAX_SESSIONS of them.

    Returns the sessions of the conversations, each once and in the given order; for None the sessions that were read,
    and their gateways. Raises InvalidInput, NotFound.
    """
    if conversations is None:
        unread = [session for session in await app.store.sessions.list_unread_candidates(user) if session.is_unread]
        newest_first = sorted(unread, key=lambda session: (-session.write_ts, session.conversation))
        names = [session.conversation for session in newest_first]
        gateways = dict.fromkeys(gateway_id(s.sub_biz) for s in newest_first if s.sub_biz is not None)
        read = await _read(app, user, names, (), "conversationIds")
        return [read[name] for name in (*names, *gateways) if name in read]
    if len(conversations) > MAX_SESSIONS:
        raise InvalidInput(f"at most {MAX_SESSIONS} conversations at a time", field="conversationIds")
    wanted = [known_conversation(name, "conversationIds") for name in dict.fromkeys(conversations)]
    read = await _read_named(app, user, wanted, "conversationIds")
    return [read[name] for name in wanted]


def _is_gateway(conversation: ConversationId) -> bool:
    return kind_of(conversation) is ConversationKind.SUB_BIZ


async def _read_named(
    app: Confab, user: UserId, wanted: Sequence[ConversationId], argument: str, up_to_seq: int | None = None
) -> dict[ConversationId, Session]:
    """Mark the conversations that a client named as read; for a subBiz all sessions in it.

    Returns their sessions. Raises NotFound with the argument as field.
    """
    lists = [list_name(name.removeprefix("b_"), None) for name in wanted if _is_gateway(name)]
    inside = await asyncio.gather(*(app.store.sessions.list_names(user, name) for name in lists))
    names = list(dict.fromkeys([*wanted, *(name for names in inside for name in names)]))
    return await _read(app, user, names, wanted, argument, up_to_seq)


async def _read(
    app: Confab,
    user: UserId,
    names: Sequence[ConversationId],
    required: Sequence[ConversationId],
    argument: str,
    up_to_seq: int | None = None,
) -> dict[ConversationId, Session]:
    """Mark sessions as read, with one change for each MAX_SESSIONS of them: a lock lasts only a few seconds.

    required: The first names, at most MAX_SESSIONS. Unless the user has a session of each, nothing is changed.
    """

    async def work(transaction: UserTransaction) -> dict[ConversationId, Session]:
        named = await find_named(app, transaction, unchecked, argument)
        before = {**transaction.sessions, **named.sessions}
        due = []
        for name, session in before.items():
            if session.comes_from_head:
                decided = await decide_in_channel(app, session, up_to_seq, is_new=name in named.new)
            else:
                decided = await _decide(app, session, up_to_seq) if not session.is_gateway else None
            if decided is not None:
                due.append(decided)
        return await acknowledge(app, transaction, due, before, named.heads)

    read: dict[ConversationId, Session] = {}
    unchecked = required
    for start in range(0, len(names), MAX_SESSIONS):
        read |= await app.store.user_transactions.run(user, names[start : start + MAX_SESSIONS], work)
        unchecked = ()
    return read


async def _decide(app: Confab, session: Session, up_to_seq: int | None) -> Acknowledgement | None:
    """Return the acknowledgement up to a seq; None if all is read and there is no unread mark."""
    if up_to_seq is None or up_to_seq >= session.write_seq:
        return _read_all(session)
    return await _read_up_to(app, session, up_to_seq)


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


async def decide_in_channel(
    app: Confab, session: Session, up_to_seq: int | None, *, is_new: bool
) -> Acknowledgement | None:
    """Return the acknowledgement up to a seq of a channel, or of a thread that the user does not follow.

    None if all is read and there is no unread mark. A session begins with it if there is none.
    """
    place = session.write_seq, session.n
    if up_to_seq is not None and up_to_seq < session.write_seq:
        place = await app.store.messages.find_place(session.conversation, up_to_seq)
    if is_new:
        return Acknowledgement(session, ChannelChange(session.conversation, (0, 0), read=place))
    if place[0] <= session.read_seq and not session.unread_status:
        return None
    read = max(place, (session.acknowledged_seq, session.read_n))
    return Acknowledgement(
        session, ChannelChange(session.conversation, (0, 0), read=read, values={Session.unread_mark: None})
    )


def _take_mark_away(session: Session) -> Acknowledgement | None:
    if not session.unread_status:
        return None
    same_position = Read(session.conversation, session.acknowledged_seq, session.read_n)
    return Acknowledgement(session, same_position, advances=False)

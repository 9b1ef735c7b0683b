"""What a user missed: their log, with what its references point to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection

from store.base.ids import ConversationId, MessageId, UserId, gateway_id
from store.messages.message_store import MessageStore
from store.sessions.session import Session
from store.sessions.session_store import SessionStore
from subscriptions.realtime.events import (
    MessageCreated,
    MessageRecalled,
    MessageReference,
    MessageUpdated,
    ReceiptAdvanced,
    RevisionReference,
    SessionChanged,
    SessionReference,
    parse_logged,
    revised,
)
from subscriptions.realtime.mailboxes import Delivered, Position

Place = tuple[ConversationId, int]

Readable = Callable[[UserId, Collection[Place]], Awaitable[Collection[Place]]]
"""Which messages, by conversation and seq, a user may read now."""

MOST_AHEAD = 40

LONGEST_REPLAY = 5_000
"""Events that are replayed one by one at most; the log is trimmed well below."""


class Replayer:
    """Reads logs back into events."""

    def __init__(self, sessions: SessionStore, messages: MessageStore, list_readable: Readable) -> None:
        self._sessions = sessions
        self._messages = messages
        self._list_readable = list_readable

    async def since(self, user: UserId, position: Position) -> list[Delivered] | None:
        """Every event after a position, in order of the user's clock, or None if not all of them can be told."""
        rows = await self._sessions.read_log(user, position.epoch, position.tick, LONGEST_REPLAY)
        if rows is None or len(rows) >= LONGEST_REPLAY:
            return None
        entries = [(Position(position.epoch, tick), parse_logged(text)) for tick, _, text in rows]
        places = {(e.conversation, e.seq) for _, e in entries if isinstance(e, MessageReference | RevisionReference)}
        # They were told before; but a group may be gone since, or not show any more what came before one joined.
        messages = await self._messages.find_many(await self._list_readable(user, places))
        references = [entry for _, entry in entries if isinstance(entry, SessionReference)]
        sessions, total = await self._present(user, {c for entry in references for c in entry.conversations})
        replayed: list[Delivered] = []
        for at, entry in entries:
            match entry:
                case MessageReference(conversation, seq):
                    message = messages.get((conversation, seq))
                    if message is not None:
                        replayed.append(Delivered(at, MessageCreated(message)))
                case RevisionReference(kind, conversation, seq):
                    message = messages.get((conversation, seq))
                    event = revised(kind, message) if message is not None else None
                    if event is not None:
                        replayed.append(Delivered(at, event))
                case ReceiptAdvanced():
                    replayed.append(Delivered(at, entry))
                case SessionReference(reason, conversations, receipt):
                    changed = [sessions[c] for c in conversations if c in sessions]
                    gateways = dict.fromkeys(gateway_id(s.sub_biz) for s in changed if s.sub_biz is not None)
                    changed += [sessions[c] for c in gateways if c in sessions]
                    if changed:
                        replayed.append(Delivered(at, SessionChanged(reason, tuple(changed), total, receipt)))
        return replayed

    async def _present(
        self, user: UserId, conversations: Collection[ConversationId]
    ) -> tuple[dict[ConversationId, Session], int]:
        """Sessions as they are now, with the gateways they are behind, and the total."""
        if not conversations:
            return {}, 0
        now = await self._sessions.find_many(user, list(conversations))
        sessions = {session.conversation: session for session in now.sessions}
        gateways = {gateway_id(s.sub_biz) for s in now.sessions if s.sub_biz is not None} - set(sessions)
        if gateways:
            now = await self._sessions.find_many(user, list(gateways))
            sessions |= {session.conversation: session for session in now.sessions}
        return sessions, now.total_unread


def in_order_of_seq(start: Position, logged: list[Delivered]) -> list[Delivered]:
    """The logged events that were not told ahead of the start, messages of one conversation in order of seq, each with a
    position to resume from: everything before it has been told by then. No revision comes before its message.

    Where messages were logged out of order (two servers wrote), that lies before the event's own, with what was told ahead
    of it; past MOST_AHEAD such events, resuming there repeats some, and skips none.
    """
    ahead = set(start.ahead)
    missed = [item for item in logged if item.position.tick not in ahead]
    places: defaultdict[ConversationId, list[int]] = defaultdict(list)
    for index, item in enumerate(missed):
        if isinstance(item.event, MessageCreated):
            places[item.event.message.conversation].append(index)
    ordered = list(missed)
    for indexes in places.values():
        for index, item in zip(indexes, sorted((missed[i] for i in indexes), key=_seq), strict=True):
            ordered[index] = item
    ordered = _creations_first(ordered)
    behind = 0
    tick = start.tick
    for index, item in enumerate(ordered):
        ahead.add(item.position.tick)
        while behind < len(logged) and logged[behind].position.tick in ahead:
            tick = logged[behind].position.tick
            ahead.remove(tick)
            behind += 1
        ordered[index] = Delivered(Position(start.epoch, tick, tuple(sorted(ahead)[:MOST_AHEAD])), item.event)
    return ordered


def _creations_first(ordered: list[Delivered]) -> list[Delivered]:
    """The same events, with revisions that stand before their message's creation moved behind it."""
    to_come = {item.event.message.id for item in ordered if isinstance(item.event, MessageCreated)}
    waiting: defaultdict[MessageId, list[Delivered]] = defaultdict(list)
    moved: list[Delivered] = []
    for item in ordered:
        match item.event:
            case MessageCreated(message):
                to_come.discard(message.id)
                moved += [item, *waiting.pop(message.id, ())]
            case MessageUpdated(message) | MessageRecalled(message) if message.id in to_come:
                waiting[message.id].append(item)
            case _:
                moved.append(item)
    return moved


def _seq(item: Delivered) -> int:
    return item.event.message.seq if isinstance(item.event, MessageCreated) else 0

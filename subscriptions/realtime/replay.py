"""Replay: reads missed events from a user's log, with the content that the log entries refer to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from store.base.ids import ConversationId, MessageId, UserId, gateway_id
from store.conversations.conversation import Head
from store.messages.message import Message
from store.messages.message_store import MessageStore
from store.sessions.session import Session
from store.sessions.session_store import NAMES_PER_CALL, SessionStore
from subscriptions.realtime.events.base import LogEntry, MessagePlace, ReplayContent
from subscriptions.realtime.events.registry import parse_log_entry
from subscriptions.realtime.mailboxes import MailboxEvent, Position

ListReadable = Callable[[UserId, Collection[MessagePlace]], Awaitable[Collection[MessagePlace]]]
"""Returns the messages that a user may read at present."""

CompleteSessions = Callable[[UserId, Sequence[Session]], Awaitable[list[Session]]]
"""Completes a user's sessions in channels, and leaves out those that the user can't see."""

ListGroups = Callable[[UserId, Collection[ConversationId]], Awaitable[Mapping[ConversationId, Head]]]
"""Returns groups as a user may see them."""

MAX_AHEAD = 40
"""Largest number of additional ticks in a cursor."""

LONGEST_REPLAY = 5_000
"""Largest number of events in one replay. The log holds fewer."""

_CONSISTENT_READS = 3
"""Attempts to read sessions and all events up to their state.

An attempt fails if other sessions change at the same time. If all fail, the sessions of the last one are used.
"""


class Replayer:
    """Turns entries of users' logs back into events."""

    def __init__(
        self,
        sessions: SessionStore,
        messages: MessageStore,
        list_readable: ListReadable,
        list_groups: ListGroups,
        complete_sessions: CompleteSessions,
    ) -> None:
        self._sessions = sessions
        self._messages = messages
        self._list_readable = list_readable
        self._list_groups = list_groups
        self._complete_sessions = complete_sessions

    async def since(self, user: UserId, position: Position) -> list[MailboxEvent] | None:
        """Return every event after a position, in the order of the user's clock; None if some of them are not known.

        Events show the present state, and only messages that the user may read now: a group may have ended since, or
        may hide messages from before the user joined. Sessions have their state at the last event: if they were newer,
        the next live event would show an older state.
        """
        for _ in range(_CONSISTENT_READS):
            logged = await self._read_log(user, position)
            if logged is None or len(logged) >= LONGEST_REPLAY:
                return None
            entries = logged
            content, clock = await self._read_content(user, [entry for _, entry in entries])
            if clock is None or clock <= entries[-1][0].tick:
                break
            if len(content.sessions) >= NAMES_PER_CALL:
                # They may have been read at several moments.
                continue
            later = [item for item in await self._read_log(user, entries[-1][0]) or () if item[0].tick <= clock]
            if later and all(content.sessions.keys() >= set(entry.session_conversations) for _, entry in later):
                # The sessions have their state at the last of these events.
                others = [entry for _, entry in later]
                messages, groups = await self._read_messages(user, others), await self._read_groups(user, others)
                content = replace(
                    content, messages={**content.messages, **messages}, groups={**content.groups, **groups}
                )
                entries += later
                break
        replayed = [(at, entry.replay(content)) for at, entry in last_entries(entries)]
        return [MailboxEvent(at, event) for at, event in replayed if event is not None]

    async def _read_log(self, user: UserId, position: Position) -> list[tuple[Position, LogEntry]] | None:
        """Return the entries of the log after a position; None if the log lacks some."""
        rows = await self._sessions.read_log(user, position.epoch, position.tick, LONGEST_REPLAY)
        if rows is None:
            return None
        return [(Position(position.epoch, tick), parse_log_entry(text)) for tick, _, text in rows]

    async def _read_messages(self, user: UserId, entries: Sequence[LogEntry]) -> Mapping[MessagePlace, Message]:
        """Return the messages that entries refer to, as far as the user may read them."""
        places = {place for entry in entries for place in entry.message_places}
        return await self._messages.find_many(await self._list_readable(user, places))

    async def _read_content(self, user: UserId, entries: Sequence[LogEntry]) -> tuple[ReplayContent, int | None]:
        """Read the content that the entries refer to, each part once.

        Returns it with the user's clock at that moment; None if no sessions were read.
        """
        messages, groups = await self._read_messages(user, entries), await self._read_groups(user, entries)
        conversations = {name for entry in entries for name in entry.session_conversations}
        sessions, total, clock = await self._find_sessions(user, conversations)
        return ReplayContent(messages, sessions, total, groups), clock

    async def _read_groups(self, user: UserId, entries: Sequence[LogEntry]) -> Mapping[ConversationId, Head]:
        """Return the groups that entries refer to, as the user sees them in queries."""
        wanted = {entry.group for entry in entries if entry.group is not None}
        return await self._list_groups(user, wanted) if wanted else {}

    async def _find_sessions(
        self, user: UserId, conversations: Collection[ConversationId]
    ) -> tuple[dict[ConversationId, Session], int, int | None]:
        """Return sessions at present, their gateways, the total unread count, and the user's clock."""
        if not conversations:
            return {}, 0, None
        present = await self._sessions.find_many(user, list(conversations))
        sessions = {session.conversation: session for session in present.sessions}
        gateways = {gateway_id(s.sub_biz) for s in present.sessions if s.sub_biz is not None} - set(sessions)
        if gateways:
            # All of them at one moment, the moment of the clock.
            present = await self._sessions.find_many(user, [*conversations, *gateways])
            sessions = {session.conversation: session for session in present.sessions}
        shown = await self._complete_sessions(user, list(sessions.values()))
        return {session.conversation: session for session in shown}, present.total_unread, present.clock


def last_entries(entries: Sequence[tuple[Position, LogEntry]]) -> list[tuple[Position, LogEntry]]:
    """Return the entries without those for which a later entry shows the present state of the same thing."""
    last = {key: at.tick for at, entry in entries if (key := entry.shown_once) is not None}
    return [(at, entry) for at, entry in entries if last.get(entry.shown_once, at.tick) == at.tick]


def sort_replay(start: Position, logged: list[MailboxEvent]) -> list[MailboxEvent]:
    """Return logged events in the order for a client, without those that it received ahead of the start.

    Messages of one conversation are in the order of seq. No event about a message is before its creation. Each event
    has the position to resume from: a client that has applied the event has everything up to that position, and the
    events `ahead` of it.

    Where two servers logged messages out of order, that position is before the event's own tick. With more than
    MAX_AHEAD such events, resuming there repeats some and skips none.
    """
    ahead = set(start.ahead)
    missed = [item for item in logged if item.position.tick not in ahead]
    return _with_positions(start, logged, _creations_first(_sort_creations(missed)))


def _sort_creations(items: Sequence[MailboxEvent]) -> list[MailboxEvent]:
    """Sort the creations of each conversation by seq. Other events keep their indexes."""
    creations: defaultdict[ConversationId, list[tuple[int, int]]] = defaultdict(list)
    for index, item in enumerate(items):
        message = item.event.created_message
        if message is not None:
            creations[message.conversation].append((message.seq, index))
    ordered = list(items)
    for found in creations.values():
        indexes = [index for _, index in found]
        for index, (_, origin) in zip(indexes, sorted(found), strict=True):
            ordered[index] = items[origin]
    return ordered


def _creations_first(items: Sequence[MailboxEvent]) -> list[MailboxEvent]:
    """Move events about a message behind the message's creation."""
    created = (item.event.created_message for item in items)
    to_come = {message.id for message in created if message is not None}
    waiting: defaultdict[MessageId, list[MailboxEvent]] = defaultdict(list)
    ordered: list[MailboxEvent] = []
    for item in items:
        message, follows = item.event.created_message, item.event.follows_message
        if message is not None:
            to_come.discard(message.id)
            ordered += [item, *waiting.pop(message.id, ())]
        elif follows is not None and follows in to_come:
            waiting[follows].append(item)
        else:
            ordered.append(item)
    return ordered


def _with_positions(
    start: Position, logged: Sequence[MailboxEvent], ordered: Sequence[MailboxEvent]
) -> list[MailboxEvent]:
    """Give each event the position to resume from after it."""
    ahead, tick, passed = set(start.ahead), start.tick, 0
    placed = []
    for item in ordered:
        ahead.add(item.position.tick)
        while passed < len(logged) and logged[passed].position.tick in ahead:
            tick = logged[passed].position.tick
            ahead.remove(tick)
            passed += 1
        position = Position(start.epoch, tick, tuple(sorted(ahead)[:MAX_AHEAD]))
        placed.append(MailboxEvent(position, item.event))
    return placed

"""Brings noted events into the order of each conversation's history.

Servers commit messages of a conversation at the same time, and note them when they are committed. So the note of a
message may come before that of an earlier one. Before an event of a new message is written, all earlier messages of its
conversation are found: their events are written first, or the event waits for them.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from store.base.ids import ConversationId, partition_of
from store.messages.message import Message, ReservedMessage
from store.store import Store
from store.webhooks.event_notes import EventEntry
from store.webhooks.event_rows import NotedEvent
from subscriptions.delivery.webhooks.message_events import events_of

_log = structlog.get_logger()

LONGEST_WAIT_MS = 30_000
"""Time after which an event no longer waits for earlier messages of its conversation."""

_LOOK_BACK_MS = 60_000
"""Messages that were sent longer before an event than this have been noted before it."""

_LOOK_BACK = 1_000
"""Seqs before a new message that are checked, if it is not known how far the events of its conversation are written."""

_MOST_KNOWN = 50_000
_IN_OUTBOX = 1_000
_FUTURE_MS = -60_000
"""Includes all entries of an outbox, however new they are."""


@dataclass(slots=True)
class ArrangedEvents:
    """Events in the order in which they are written.

    Attributes:
        events: The events, and whether each was found without its note.
        done: Entries with no event that waits.
        waiting: Conversations with events that wait.
        positions: Conversations with the newest seq whose events are written with these.
    """

    events: list[tuple[NotedEvent, bool]] = field(default_factory=list)
    done: list[EventEntry] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)


_BySeq = dict[int, list[tuple[NotedEvent, bool]]]


class EventOrder:
    """Remembers how far the events of conversations are written. Only the process with the lease uses it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written: OrderedDict[str, int] = OrderedDict()
        """Newest seq of conversations up to which all events are in the log."""

    async def arrange(self, entries: Sequence[EventEntry], waiting: Collection[str] = frozenset()) -> ArrangedEvents:
        """Return the events of entries in order. No round trip if each follows the last one. Raises StoreError.

        waiting: Conversations with events in earlier entries that wait: all later ones wait too.
        """
        new: defaultdict[str, _BySeq] = defaultdict(dict)
        newest: dict[str, int] = {}
        since_ms: dict[str, int] = {}
        for event in (event for entry in entries for event in entry.events if _place_of(event)):
            if event.conversation in waiting:
                continue
            if event.seq:
                new[event.conversation].setdefault(event.seq, []).append((event, False))
            newest[event.conversation] = max(_place_of(event), newest.get(event.conversation, 0))
            since_ms[event.conversation] = min(event.at_ms, since_ms.get(event.conversation, event.at_ms))
        unsure = {
            conversation: seq for conversation, seq in newest.items() if not self._follows(conversation, new, seq)
        }
        waits_from = await self._complete(unsure, new, since_ms) if unsure else {}
        waits_from |= dict.fromkeys(waiting, 0)
        return _in_order(entries, new, waits_from)

    def note_written(self, arranged: ArrangedEvents) -> None:
        """Remember that events are in the log."""
        for conversation, seq in arranged.positions.items():
            self._written[conversation] = max(seq, self._written.get(conversation, 0))
            self._written.move_to_end(conversation)
        while len(self._written) > _MOST_KNOWN:
            self._written.popitem(last=False)

    def _follows(self, conversation: str, new: Mapping[str, _BySeq], newest: int) -> bool:
        """Return whether events continue what is written without a gap. newest: seq of the last message of them."""
        written = self._written.get(conversation)
        if written is None:
            return False
        later = sum(seq > written for seq in new.get(conversation, ()))
        return newest <= written + later

    async def _complete(
        self, newest: Mapping[str, int], new: defaultdict[str, _BySeq], since_ms: Mapping[str, int]
    ) -> dict[str, int]:
        """Add the events of earlier messages. Return the seq of the first message that some conversations wait for.

        newest: The conversations, and the seq of the last message of each that events are about.
        """
        store = self._store
        # In this order: a message that is in no outbox any more is in MongoDB.
        in_flight = await self._list_in_flight(newest)
        messages = await store.changed_messages.list_between(
            [
                (
                    ConversationId(conversation),
                    self._written.get(conversation, max(0, min(new[conversation], default=last) - _LOOK_BACK)) + 1,
                    last,
                    since_ms[conversation] - _LOOK_BACK_MS,
                )
                for conversation, last in newest.items()
            ]
        )
        for message in messages:
            found = self._events_of(message)
            if found:
                new[message.conversation].setdefault(message.seq, found)
        stored = {(message.conversation, message.seq) for message in messages}
        waits_from: dict[str, int] = {}
        oldest_ms = store.clock.now_ms() - LONGEST_WAIT_MS
        for conversation, seq in in_flight:
            if seq in new[conversation] or (conversation, seq) in stored or seq > newest[conversation]:
                continue
            if since_ms[conversation] < oldest_ms:
                _log.warning("webhook_events_out_of_order", conversation=conversation, seq=seq)
                continue
            waits_from[conversation] = min(seq, waits_from.get(conversation, seq))
        return waits_from

    def _events_of(self, message: Message) -> list[tuple[NotedEvent, bool]]:
        wants = self._store.webhook_registry.wants
        return [(event, True) for event in events_of(message, None, wants, message.created_at_ms)]

    async def _list_in_flight(self, conversations: Iterable[str]) -> set[tuple[ConversationId, int]]:
        """Return the messages of conversations that have a place and are not delivered yet."""
        wanted = set(map(ConversationId, conversations))
        waiting = await self._store.outbox.list_waiting(sorted(map(partition_of, wanted)), _FUTURE_MS, _IN_OUTBOX)
        messages = [entry.message for entry in waiting if isinstance(entry, ReservedMessage)]
        return {(message.conversation, message.seq) for message in messages if message.conversation in wanted}


def _place_of(event: NotedEvent) -> int:
    """Return the seq of the message that an event is about: it comes after that of the new message. 0: of none."""
    if event.seq or not event.conversation:
        return event.seq
    first = event.reference[0]
    return first if isinstance(first, int) else 0


def _in_order(
    entries: Sequence[EventEntry], new: Mapping[str, _BySeq], waits_from: Mapping[str, int]
) -> ArrangedEvents:
    arranged = ArrangedEvents()
    order = {conversation: sorted(by_seq, reverse=True) for conversation, by_seq in new.items()}

    def up_to(conversation: str, seq: int) -> Iterator[tuple[NotedEvent, bool]]:
        seqs = order.get(conversation, [])
        while seqs and seqs[-1] <= seq:
            yield from new[conversation][seqs.pop()]

    for entry in entries:
        is_done = True
        for event in entry.events:
            first = waits_from.get(event.conversation)
            if first is not None and not 0 < event.seq < first:
                is_done = False
                arranged.waiting.add(event.conversation)
                continue
            if place := _place_of(event):
                arranged.events += up_to(event.conversation, place)
                known = arranged.positions.get(event.conversation, 0)
                arranged.positions[event.conversation] = max(known, place)
            if not event.seq:
                arranged.events.append((event, False))
        if is_done:
            arranged.done.append(entry)
    return arranged

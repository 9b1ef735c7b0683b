"""Replay of events on shared clocks, with the content that the log entries refer to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from store.base.ids import ConversationId, UserId
from store.clocks.shared_clocks import LoggedEvent, SharedClocks
from store.messages.message_store import MessageStore
from subscriptions.realtime.events.base import MessagePlace, ReplayContent, WholeEvent
from subscriptions.realtime.events.shared import ChannelEvent, SharedEvent, WorkspaceUpdate
from subscriptions.realtime.events.shared_registry import parse_shared_entry
from subscriptions.realtime.mailboxes import MailboxEvent, Position
from subscriptions.realtime.replay import last_entries
from subscriptions.realtime.shared.log_windows import PAGE, LogWindow, LogWindows, WindowEvent

ListReadable = Callable[[Collection[MessagePlace]], Awaitable[Collection[MessagePlace]]]
"""Returns the messages that a user may read at present."""

WaitForRights = Callable[[str, int, Collection[UserId]], Awaitable[None]]
"""Waits until rights on a clock are judged under a version or a later one, with the present nicknames of some users."""

LONGEST_REPLAY = 5_000
"""Largest number of events in one replay; more are a reset."""


class ChannelReplay(NamedTuple):
    """Missed events about messages, in the order of the clock, and the channels whose position can be resumed."""

    items: list[tuple[Position, ChannelEvent]]
    resumed: frozenset[ConversationId]


class SharedReplayer:
    """Turns entries of the logs of shared clocks back into events, with the present state of messages."""

    def __init__(self, clocks: SharedClocks, messages: MessageStore, wait_for_rights: WaitForRights) -> None:
        self._clocks = clocks
        self._messages = messages
        self._wait_for_rights = wait_for_rights
        self._windows = LogWindows(clocks)

    def close(self) -> None:
        """Drop what is kept of logs."""
        self._windows.close()

    async def since(self, owner: str, position: Position) -> list[MailboxEvent] | None:
        """Return every event of a clock after a position, for all subscribers; None if some are not known.

        Raises StoreError.
        """
        logged = await self._read_log(owner, position)
        if logged is None:
            return None
        entries = [(Position(position.epoch, event.tick), parse_shared_entry(event.entry)) for event in logged]
        whole = [entry.event for _, entry in entries if isinstance(entry, WholeEvent)]
        renamed = {user for event in whole if isinstance(event, WorkspaceUpdate) for user in event.renamed}
        await self._wait_for_rights(owner, max((int(event.version or 0) for event in logged), default=0), renamed)
        places = {place for _, entry in entries for place in entry.message_places}
        content = ReplayContent(await self._messages.find_many(places) if places else {}, {}, 0)
        replayed = [(at.tick, entry.replay(content)) for at, entry in last_entries(entries)]
        return [
            MailboxEvent(Position(position.epoch, tick), event.at(tick))
            for tick, event in replayed
            if isinstance(event, SharedEvent)
        ]

    async def _read_log(self, owner: str, position: Position) -> list[LoggedEvent] | None:
        logged = list[LoggedEvent]()
        last = position.tick
        while len(logged) <= LONGEST_REPLAY:
            page = await self._clocks.read_log(owner, last, PAGE)
            if page.epoch != position.epoch or not page.earliest <= last <= page.clock:
                return None
            logged += page.events
            if len(page.events) < PAGE:
                return logged
            last = logged[-1].tick
        return None

    async def read_channels(
        self, owner: str, start: Position, revs: Mapping[ConversationId, int], list_readable: ListReadable
    ) -> ChannelReplay:
        """Return the events of messages in channels after a position in each, up to `start`.

        Clients that resume at the same time share the reads.

        Args:
            owner: The owner of the clock.
            start: All later events are live.
            revs: The positions.
            list_readable: Leaves out messages that the user may not read.

        Raises:
            StoreError: A database is unavailable.
        """
        # A client may have a later position from another server.
        until = max(start.tick, *revs.values())
        window = await self._windows.read(owner, start.epoch, min(revs.values()), until)
        if window is None:
            return ChannelReplay([], frozenset())
        resumed, wanted = _select(window, start, revs)
        await self._wait_for_rights(owner, window.version, ())
        readable = set(await list_readable({event.place for event in wanted})) if wanted else set()
        events = [event for event in wanted if event.place in readable]
        shown = await window.replay(_last_events(events), self._messages.find_many) if events else []
        return ChannelReplay([(Position(start.epoch, event.rev), event) for event in shown], resumed)


def _select(
    window: LogWindow, start: Position, revs: Mapping[ConversationId, int]
) -> tuple[frozenset[ConversationId], list[WindowEvent]]:
    """Return the channels whose positions can be resumed, and their events; the latest positions if they are many."""
    resumed: set[ConversationId] = set()
    wanted = list[WindowEvent]()
    for channel, rev in sorted(revs.items(), key=lambda pair: -pair[1]):
        if window.first <= rev <= window.last:
            events = window.find(channel, rev, start.tick)
            if len(wanted) + len(events) > LONGEST_REPLAY:
                break
            resumed.add(channel)
            wanted += events
    wanted.sort(key=lambda event: event.tick)
    return frozenset(resumed), wanted


def _last_events(events: Sequence[WindowEvent]) -> list[WindowEvent]:
    """Return the events without those for which a later one shows the present state of the same thing."""
    last = {key: event.tick for event in events if (key := event.entry.shown_once) is not None}
    return [event for event in events if last.get(event.entry.shown_once, event.tick) == event.tick]

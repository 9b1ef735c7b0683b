"""Windows of the logs of shared clocks: read once for all clients that resume at about the same time."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from store.base.ids import ConversationId
from store.clocks.clock_constants import LOG_LENGTH
from store.clocks.shared_clocks import LoggedEvent, SharedClocks
from store.messages.message import Message
from subscriptions.realtime.events.base import LogEntry, MessagePlace, ReplayContent
from subscriptions.realtime.events.shared import ChannelEvent
from subscriptions.realtime.events.shared_registry import parse_shared_entry

FindMessages = Callable[[Collection[MessagePlace]], Awaitable[Mapping[MessagePlace, Message]]]

PAGE = 1_000
"""Events in one read: some milliseconds of Redis and of the event loop."""

_KEPT_SECONDS = 30.0
"""Time for which a window is kept after its last use."""

_MAX_EVENTS = 60_000
"""Events in all windows, about 30 MB. Beyond that the window that was not used for the longest time is dropped."""

_MAX_REPLAYED = 5_000
"""Events of a window that are kept with their messages."""


class WindowEvent(NamedTuple):
    """An event about a message, with its tick."""

    tick: int
    place: MessagePlace
    entry: LogEntry


class LogWindow:
    """The events about messages on one clock after `first`, up to `last`.

    Attributes:
        epoch: The clock's epoch.
        first: All events after it are known.
        last: The newest known tick.
        version: Policy version under which subscribers may see the events.
    """

    def __init__(self, epoch: str, first: int) -> None:
        """Begin without events."""
        self.epoch = epoch
        self.first = self.last = first
        self.version = 0
        self.earliest = 0
        """The log has no events before that."""
        self._channels: dict[str, list[WindowEvent]] = {}
        self._ticks: dict[MessagePlace, list[int]] = {}
        self._replayed: dict[int, ChannelEvent | None] = {}
        self._replaying = asyncio.Lock()
        self.size = 0

    def find(self, channel: ConversationId, after: int, until: int) -> Sequence[WindowEvent]:
        """Return the events of a channel between two ticks, the second one included."""
        events = self._channels.get(channel, [])
        return events[bisect_right(events, after, key=_tick) : bisect_right(events, until, key=_tick)]

    def add_later(self, logged: Iterable[LoggedEvent], last: int) -> None:
        """Add the events after `last`."""
        for event in self._parse(logged):
            self._channels.setdefault(event.place[0], []).append(event)
            ticks = self._ticks.setdefault(event.place, [])
            ticks.append(event.tick)
            for tick in ticks:
                # The message has changed since it was read.
                self._replayed.pop(tick, None)
        self.last = last

    def add_earlier(self, logged: Iterable[LoggedEvent], first: int) -> None:
        """Add the events after a position, up to `first`."""
        by_channel: defaultdict[str, list[WindowEvent]] = defaultdict(list)
        by_place: defaultdict[MessagePlace, list[int]] = defaultdict(list)
        for event in self._parse(logged):
            by_channel[event.place[0]].append(event)
            by_place[event.place].append(event.tick)
        for channel, events in by_channel.items():
            self._channels[channel] = events + self._channels.get(channel, [])
        for place, ticks in by_place.items():
            self._ticks[place] = ticks + self._ticks.get(place, [])
        self.first = first

    def _parse(self, logged: Iterable[LoggedEvent]) -> Iterable[WindowEvent]:
        for event in logged:
            self.version = max(self.version, int(event.version or 0))
            if event.channel:
                entry = parse_shared_entry(event.entry)
                for place in entry.message_places:
                    self.size += 1
                    yield WindowEvent(event.tick, place, entry)

    async def replay(self, events: Sequence[WindowEvent], find: FindMessages) -> list[ChannelEvent]:
        """Return events with their messages as they are at `last` or later; without those that show nothing.

        The same objects for all callers, so that each is executed once. Raises StoreError.
        """
        async with self._replaying:
            if len(self._replayed) > _MAX_REPLAYED:
                self._replayed.clear()
            shown = {event.tick: self._replayed[event.tick] for event in events if event.tick in self._replayed}
            missing = [event for event in events if event.tick not in shown]
            if missing:
                read_at = self.last
                content = ReplayContent(await find({event.place for event in missing}), {}, 0)
                for event in missing:
                    replayed = event.entry.replay(content)
                    placed = replayed.at(event.tick) if isinstance(replayed, ChannelEvent) else None
                    shown[event.tick] = placed
                    if self._ticks[event.place][-1] <= read_at:
                        self._replayed[event.tick] = placed
        return [found for event in events if (found := shown[event.tick]) is not None]


def _tick(event: WindowEvent) -> int:
    return event.tick


class _Span(NamedTuple):
    """Consecutive events after `first`, up to `last`. earliest: the earliest position that can be resumed."""

    first: int
    last: int
    earliest: int
    events: Sequence[LoggedEvent]


class _KeptWindow:
    """The window of one clock, if it is known."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.window: LogWindow | None = None
        self.used_at = 0.0


class LogWindows:
    """The windows of one process, by the owner of the clock."""

    def __init__(self, clocks: SharedClocks) -> None:
        self._clocks = clocks
        self._kept: OrderedDict[str, _KeptWindow] = OrderedDict()
        """The window that was used last is the last one."""
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Drop all windows."""
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()

    async def read(self, owner: str, epoch: str, since: int, until: int) -> LogWindow | None:
        """Return a window of a clock; None if its epoch has ended.

        It has the events after `since` up to `until`, as far as the log has them. Its `last` is the present clock if
        that is before `until`. Raises StoreError.
        """
        kept = self._kept.setdefault(owner, _KeptWindow())
        self._kept.move_to_end(owner)
        async with kept.lock:
            kept.used_at = asyncio.get_running_loop().time()
            known = kept.window
            if known is not None and (known.epoch != epoch or known.size > 2 * LOG_LENGTH):
                known = None
            # A window that was changed in part is not used again.
            kept.window = None
            window = kept.window = await self._extend(owner, epoch, known, since, until)
        self._drop_unused()
        return window

    async def _extend(
        self, owner: str, epoch: str, window: LogWindow | None, since: int, until: int
    ) -> LogWindow | None:
        if window is not None and max(since, window.earliest) < window.first:
            span = await self._read(owner, epoch, since, window.first)
            if span is None:
                return None
            window.earliest = span.earliest
            if span.first < window.first:
                window.add_earlier([event for event in span.events if event.tick <= window.first], span.first)
        if window is not None and window.last < until:
            span = await self._read(owner, epoch, window.last, until)
            if span is None:
                return None
            if span.first == window.last:
                window.add_later(span.events, span.last)
                return window
            # The log has lost events meanwhile.
            window = None
        if window is None:
            span = await self._read(owner, epoch, since, until)
            if span is None:
                return None
            window = LogWindow(epoch, span.first)
            window.earliest = span.earliest
            window.add_later(span.events, span.last)
        return window

    async def _read(self, owner: str, epoch: str, since: int, until: int) -> _Span | None:
        """Return the events after a tick, up to another one or later; None if the epoch has ended."""
        events = list[LoggedEvent]()
        first = last = since
        while True:
            page = await self._clocks.read_log(owner, last, PAGE)
            if page.epoch != epoch:
                return None
            if page.earliest > last:
                events.clear()
                first = page.earliest
            events += page.events
            if len(page.events) < PAGE:
                return _Span(min(first, page.clock), page.clock, page.earliest, events)
            last = page.events[-1].tick
            if last >= until:
                return _Span(first, last, page.earliest, events)

    def _drop_unused(self) -> None:
        """Drop windows that were not used for a while, and the oldest ones if there are too many events."""
        loop = asyncio.get_running_loop()
        size = sum(kept.window.size for kept in self._kept.values() if kept.window is not None)
        for owner, kept in list(self._kept.items()):
            if kept.lock.locked():
                continue
            if size <= _MAX_EVENTS and loop.time() - kept.used_at < _KEPT_SECONDS:
                break
            size -= kept.window.size if kept.window is not None else 0
            del self._kept[owner]
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(_KEPT_SECONDS, self._drop_unused) if self._kept else None

"""Typing in channels: gathered by the owner of the channel, at most one frame a second to each server.

In a busy channel hundreds of people type at once. A signal goes to the server that owns the channel on the ring, not to
all servers that look at it. The owner sends the first one at once, and the others together at the end of the second.
Nothing is stored. If an owner dies, at most the signals of a second are lost. If servers disagree about the owner for a
moment, each owner sends its own frame.

A channel's viewers get at most MOST_STARTED announcements a second, and the end of those that they got.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import structlog

from store.base.clock import Clock
from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId
from store.base.tasks import end_tasks
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.base import EphemeralEvent
from subscriptions.realtime.events.registry import EPHEMERAL_KINDS
from subscriptions.realtime.events.shared import ChannelMessage, MessageChange
from subscriptions.realtime.events.typing import TypingStarted
from subscriptions.realtime.recent_keys import RecentKeys
from subscriptions.realtime.ring.server_ring import ServerRing

_log = structlog.get_logger()

SECONDS_BETWEEN = 1.0
"""Time between two frames about a channel to a server."""

SECONDS_BETWEEN_QUESTIONS = 0.25
"""Time between two questions of a server to an owner, about all channels."""

MOST_USERS = 50
"""Users in one frame about a channel. Signals of more users are dropped."""

MOST_STARTED = 5
"""Users in one frame who have begun to type: each is an event for each viewer, and nobody reads more names."""

_SHOWN_MS = 10_000
"""Time for which it is known that viewers saw a user typing. Clients stop showing the user earlier."""

_MOST_SIGNALS = 5_000
"""Signals for one owner that wait. More are dropped."""

_MESSAGE_MS = 10_000
"""Time for which it is known that a user has sent a message."""

_ATTEMPTS = 2
"""Owners that are asked to announce a signal."""

_FRAME = "channel_typing"
_QUESTION = "typing"


class _Signal(NamedTuple):
    """An event, and the servers that look at its channel."""

    event: EphemeralEvent
    servers: Collection[str]
    attempts: int = 0


class _Gathered:
    """The events of a channel since the last frame about it: the newest of each user, within both limits."""

    def __init__(self) -> None:
        self.events: dict[UserId, EphemeralEvent] = {}
        self.servers: set[str] = set()

    def add(self, event: EphemeralEvent, *, ends_shown: bool) -> None:
        """Add an event if there is room. ends_shown: it ends what viewers saw, which has no limit of its own."""
        others = [other for user, other in self.events.items() if user != event.user]
        is_full = len(others) >= MOST_USERS or (_is_start(event) and sum(map(_is_start, others)) >= MOST_STARTED)
        if ends_shown or not is_full:
            self.events[event.user] = event


class TypingRelay:
    """Sends the typing of this process's users, gathers that of the channels it owns, and delivers what arrives."""

    def __init__(self, bus: Bus, ring: ServerRing, clock: Clock, deliver: Callable[[EphemeralEvent], None]) -> None:
        """Listen to the bus. `deliver` hands an event to those who look at its channel on this process."""
        self._bus = bus
        self.ring = ring
        self._clock = clock
        self._deliver = deliver
        self._waiting: dict[str, list[_Signal]] = {}
        """The signals for each owner that is being asked, or was asked a moment ago."""
        self._gathered: dict[ConversationId, _Gathered] = {}
        """The channels about which a frame was sent within the last second."""
        self._timers: dict[ConversationId, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._senders = RecentKeys[tuple[ConversationId, UserId]](_MESSAGE_MS)
        self._shown = RecentKeys[tuple[ConversationId, UserId]](_SHOWN_MS)
        bus.on_frame(_FRAME, self._receive)
        bus.calls.answer_kind(_QUESTION, self._answer)

    async def close(self) -> None:
        """Drop what waits."""
        for timer in self._timers.values():
            timer.cancel()
        await end_tasks(self._tasks)

    def send(self, event: EphemeralEvent, servers: Collection[str]) -> None:
        """Announce that a user of this process types in a channel, or has stopped. Best effort.

        servers: those that look at the channel's workspace, this one included.
        """
        self._pass_on(_Signal(event, servers))

    def note_message(self, event: ChannelMessage) -> None:
        """Note a new message: typing that began before it must not be shown after it."""
        message = event.message
        if event.change is MessageChange.CREATED:
            self._senders.add((message.conversation, message.sender), message.created_at_ms)

    # To the owner

    def _pass_on(self, signal: _Signal) -> None:
        others = [server for server in signal.servers if server != self.ring.server]
        owner = self.ring.owner_of(signal.event.conversation) if others else self.ring.server
        if owner == self.ring.server:
            self._gather(signal.event, signal.servers)
        elif owner in self._waiting:
            if len(self._waiting[owner]) < _MOST_SIGNALS:
                self._waiting[owner].append(signal)
        else:
            self._waiting[owner] = [signal]
            task = asyncio.create_task(self._ask(owner))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, owner: str) -> None:
        """Ask an owner to announce the signals that wait, until there are none for a while."""
        try:
            while signals := self._waiting[owner]:
                self._waiting[owner] = []
                await self.ring.ask(owner, {_QUESTION: [_encode(signal) for signal in signals]})
                signals = []
                await asyncio.sleep(SECONDS_BETWEEN_QUESTIONS)
        except Unreachable:
            signals += self._waiting[owner]
        finally:
            del self._waiting[owner]
        for signal in signals:
            if signal.attempts + 1 < _ATTEMPTS:
                self._pass_on(signal._replace(attempts=signal.attempts + 1))

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        for values, servers in question[_QUESTION]:
            event = _decode(values)
            if event is not None:
                self._gather(event, servers)
        return {}

    # As the owner

    def _gather(self, event: EphemeralEvent, servers: Collection[str]) -> None:
        channel = event.conversation
        gathered = self._gathered.get(channel)
        if gathered is None:
            self._announce(channel, (event,), servers)
        else:
            gathered.add(event, ends_shown=not _is_start(event) and self._is_shown(event))
            gathered.servers.update(servers)

    def _announce(self, channel: ConversationId, events: Collection[EphemeralEvent], servers: Iterable[str]) -> None:
        self._gathered[channel] = _Gathered()
        self._timers[channel] = asyncio.get_running_loop().call_later(SECONDS_BETWEEN, self._end_second, channel)
        body = [[event.frame, *event.encode()] for event in events]
        others = [server for server in servers if server != self.ring.server]
        self._bus.send_frames(_FRAME, dict.fromkeys(others, body))
        self._show(events)

    def _end_second(self, channel: ConversationId) -> None:
        del self._timers[channel]
        gathered = self._gathered.pop(channel)
        if gathered.events:
            self._announce(channel, gathered.events.values(), gathered.servers)

    # Where the channel is looked at

    def _receive(self, body: Any) -> None:
        self._show(event for values in body if (event := _decode(values)) is not None)

    def _show(self, events: Iterable[EphemeralEvent]) -> None:
        now_ms = self._clock.now_ms()
        for event in events:
            if _is_start(event):
                key = event.conversation, event.user
                sent_at_ms = self._senders.added_at(key, now_ms)
                if sent_at_ms is None or sent_at_ms < event.at_ms:
                    self._shown.add(key, now_ms)
                    self._deliver(event)
            elif self._is_shown(event):
                self._deliver(event)

    def _is_shown(self, event: EphemeralEvent) -> bool:
        return self._shown.contains((event.conversation, event.user), self._clock.now_ms())


def _is_start(event: EphemeralEvent) -> bool:
    return isinstance(event, TypingStarted)


def _encode(signal: _Signal) -> list[Any]:
    return [[signal.event.frame, *signal.event.encode()], list(signal.servers)]


def _decode(values: Any) -> EphemeralEvent | None:
    frame, *rest = values
    kind = next((kind for kind in EPHEMERAL_KINDS if kind.frame == frame), None)
    return kind.decode(rest) if kind is not None else None

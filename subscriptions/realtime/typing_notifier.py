"""Telling the members of a conversation who are connected that somebody is typing. Nothing of it is kept."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId
from store.base.tasks import end_tasks
from store.conversations.typing_store import WINDOW_MS, Routes
from store.store import Store
from subscriptions.realtime.bus import EVERYWHERE, Bus, OutgoingEvents
from subscriptions.realtime.events import TypingStarted
from subscriptions.realtime.hub import Hub

_log = structlog.get_logger()

MOST_NAMED = 200
"""Other members up to whom each is looked up, and named to the server that holds their connections. Where there are more,
all servers are told once, and each picks those that it knows."""

_FRAME = "typing"
_NOW = 1 << 53
_REMEMBERED = 10_000


class TypingNotifier:
    """Tells of typing: at most once in WINDOW_MS for each user and conversation, whichever servers are asked."""

    def __init__(self, store: Store, hub: Hub, bus: Bus) -> None:
        self._store = store
        self._hub = hub
        self._bus = bus
        self._told = _Lately()
        self._deserted = _Lately()
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        bus.on(_FRAME, self._heard)

    async def announce(self, conversation: ConversationId, user: UserId, version: str) -> bool:
        """Tells the other members who are connected. False: nobody is, or they were told within the window already.

        `version`: of the membership that the user was found in; "" for a private conversation. One round trip to Redis
        where others are few and this process knows that version; none where it told them itself. Raises Unreachable.
        """
        now = self._store.clock.now_ms()
        if self._told.was((conversation, user), now):
            return False
        members = await self._store.conversations.list_recipients(conversation, version, _NOW)
        others = [member for member in members if member != user]
        event = TypingStarted(conversation, user, now)
        told = self._tell(event, others) if len(others) <= MOST_NAMED else self._tell_all(event, others, version)
        if not await told:
            return False
        self._told.note((conversation, user), now)
        return True

    async def close(self) -> None:
        """Stops telling those here of what was heard."""
        await end_tasks(self._tasks)

    async def _tell(self, event: TypingStarted, others: Sequence[UserId]) -> bool:
        free, routes = await self._store.typing.take_window(event.user, event.conversation, others)
        if not free:
            return False
        by_server = self._by_server(others, routes)
        if not by_server:
            self._bus.send(OutgoingEvents(), [self._store.typing.release_window_call(event.user, event.conversation)])
            return False
        self._bus.tell(_FRAME, {server: _frame(event, users=users) for server, users in by_server.items()})
        return True

    def _by_server(self, others: Sequence[UserId], routes: Routes) -> dict[str, list[UserId]]:
        """Who of the others is connected where. Who is connected here, this process knows better than the routes."""
        by_server: defaultdict[str, list[UserId]] = defaultdict(list)
        for other in others:
            for server in routes.get(other, ()):
                if server != self._hub.server:
                    by_server[server].append(other)
            if self._hub.hears(other):
                by_server[self._hub.server].append(other)
        return by_server

    async def _tell_all(self, event: TypingStarted, others: Sequence[UserId], version: str) -> bool:
        if not any(map(self._hub.hears, others)) and not await self._somebody_hears(event, others):
            return False
        free, _ = await self._store.typing.take_window(event.user, event.conversation)
        if free:
            self._bus.tell(_FRAME, {EVERYWHERE: _frame(event, version=version)})
        return free

    async def _somebody_hears(self, event: TypingStarted, others: Sequence[UserId]) -> bool:
        """Whether any other member is connected to another server. That nobody is is believed for as long as a window lasts:
        finding it out takes the routes of all members."""
        if self._deserted.was(event.conversation, event.at_ms):
            return False
        for start in range(0, len(others), MOST_NAMED):
            part = others[start : start + MOST_NAMED]
            if self._by_server(part, await self._store.typing.find_routes(part)):
                return True
        self._deserted.note(event.conversation, event.at_ms)
        return False

    def _heard(self, frame: Any) -> None:
        conversation, user, at_ms, users, version = frame
        event = TypingStarted(ConversationId(conversation), UserId(user), at_ms)
        if users is not None:
            self._hub.tell(users, event)
            return
        task = asyncio.create_task(self._pick(event, version))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pick(self, event: TypingStarted, version: str) -> None:
        """Tells those here who are in a large group, by the membership that the frame was sent under."""
        try:
            # One after the other: the first reads a membership that is not known, the next find it.
            async with self._one_at_a_time:
                members = await self._store.conversations.list_recipients(event.conversation, version, _NOW)
        except StoreError as error:
            _log.warning("typing was not told", conversation=event.conversation, reason=str(error))
            return
        self._hub.tell((member for member in members if member != event.user), event)


class _Lately:
    """What was so less than a window ago. Forgets the oldest where there is too much."""

    def __init__(self) -> None:
        self._since: dict[Any, int] = {}

    def was(self, what: Any, now: int) -> bool:
        """Whether something was so less than a window before a time (ms)."""
        while self._since:
            oldest = next(iter(self._since))
            if abs(now - self._since[oldest]) < WINDOW_MS and len(self._since) <= _REMEMBERED:
                break
            del self._since[oldest]
        return what in self._since

    def note(self, what: Any, now: int) -> None:
        self._since.pop(what, None)
        self._since[what] = now


def _frame(event: TypingStarted, *, users: Sequence[UserId] | None = None, version: str | None = None) -> list[Any]:
    return [event.conversation, event.user, event.at_ms, users, version]

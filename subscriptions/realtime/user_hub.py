"""The hub of users' clocks. It also ends mutes of connected users when they are due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from heapq import heappop, heappush

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import UserId
from store.sessions.apply_messages import EventRecipient
from store.sessions.session_store import SessionStore
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.hub import Hub, Replay, RoutedClock
from subscriptions.realtime.mailboxes import Position

_MUTES_AHEAD_MS = 90_000
"""Mutes that end within this time are remembered. More than the interval of checks."""


class UserHub(Hub[UserId]):
    """The feeds of users."""

    def __init__(self, server: str, sessions: SessionStore, replay: Replay[UserId], clock: Clock) -> None:
        super().__init__(server, _UserClocks(sessions, self._schedule_mute_end), replay, clock)
        self._mutes: list[tuple[int, UserId]] = []
        self._next_ends: dict[UserId, int] = {}
        """The time (ms) at which the next mute of a user ends, if that is soon."""
        self._has_mutes = asyncio.Event()

    def receive(self, event: Event | None, recipients: Sequence[EventRecipient]) -> None:
        """Take an event of some users: see `Hub.receive`."""
        super().receive(event, recipients)
        ends = event.next_mute_end_ms if event is not None else None
        if ends is not None:
            for user, *_ in recipients:
                if user in self._feeds:
                    self._schedule_mute_end(user, ends)

    async def end_mutes(self) -> None:
        """End due mutes of users with connections here. Any script on the user's state ends them and logs the event."""
        now = self._clock.now_ms()
        due = []
        while self._mutes and self._mutes[0][0] <= now:
            at, user = heappop(self._mutes)
            if self._next_ends.get(user) == at:
                del self._next_ends[user]
                due.append(user)
        await asyncio.gather(*map(self._end_mutes_of, due))

    async def _end_mutes_of(self, user: UserId) -> None:
        feed = self._feeds.get(user)
        if feed is None:
            return
        try:
            await self._check_clock(feed)
        except StoreError:
            self._check_for_missed(feed)

    def _schedule_mute_end(self, user: UserId, ends: int) -> None:
        # Later ends are found by the next checks.
        if ends > self._clock.now_ms() + _MUTES_AHEAD_MS:
            return
        known = self._next_ends.get(user)
        if known is None or ends < known:
            self._next_ends[user] = ends
            heappush(self._mutes, (ends, user))
            self._has_mutes.set()

    async def wait_for_mutes(self) -> None:
        """Wait until a mute of a user with connections here ends soon."""
        if not self._mutes:
            self._has_mutes.clear()
            await self._has_mutes.wait()


class _UserClocks:
    """The clocks of users, as a hub sees them."""

    def __init__(self, sessions: SessionStore, schedule_mute_end: Callable[[UserId, int], None]) -> None:
        self._sessions = sessions
        self._schedule_mute_end = schedule_mute_end

    async def attach(self, owner: UserId, server: str, until_ms: int) -> Position:
        """Store a route, and return the user's clock. Ends due mutes."""
        epoch, clock, mute_ends = await self._sessions.attach(owner, server, until_ms)
        if mute_ends is not None:
            self._schedule_mute_end(owner, mute_ends)
        return Position(epoch, clock)

    async def read_positions(self, owners: Sequence[UserId], server: str) -> list[RoutedClock | None]:
        """Return the users' clocks."""
        found: list[RoutedClock | None] = []
        for user, live in zip(owners, await self._sessions.read_positions(owners, server), strict=True):
            if live is not None and live.mute_ends_at is not None:
                self._schedule_mute_end(user, live.mute_ends_at)
            found.append(
                RoutedClock(Position(live.epoch, live.clock), live.route_until, live.is_held)
                if live is not None
                else None
            )
        return found

    async def detach(self, owners: Collection[UserId], server: str) -> None:
        """Remove the routes to a server."""
        await self._sessions.detach(owners, server)

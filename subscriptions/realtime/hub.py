"""The hub: one per process. It delivers the events of users to the subscriptions of this process.

The events of a user form a chain: each names the tick before it. Frames from other servers may arrive late, out of
order, twice or never. The chain shows this, so that a feed delivers every event once and in order. It reads missing
events from the user's log. If the log does not have them either, subscribers get Lagged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from heapq import heappop, heappush

import structlog

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import UserId
from store.sessions.apply_messages import EventRecipient
from store.sessions.session_store import SessionStore
from subscriptions.realtime.events.base import EphemeralEvent, Event
from subscriptions.realtime.feed import Feed
from subscriptions.realtime.mailboxes import Mailbox, MailboxEvent, Position, QueueBudget

_log = structlog.get_logger()

ROUTE_MS = 6 * 3600 * 1000
"""Time that a route stays valid. It is renewed when half of it has passed."""

CHECK_SECONDS = 30.0
"""Interval at which all feeds are compared with their users' clocks."""

_MUTES_AHEAD_MS = 90_000
"""Mutes that end within this time are remembered. More than the interval of checks."""

_REPAIR_DELAY_SECONDS = 0.05
_LONGEST_REPAIR_DELAY_SECONDS = 2.0
_USERS_AT_ONCE = 200
_MAX_EARLY = 1_000
"""Events of one user that wait for an earlier event. Further ones are read from the log."""


Replay = Callable[[UserId, Position], Awaitable[list[MailboxEvent] | None]]


class Hub:
    """The feeds of this process, by user. Runs on one event loop. Delivering never waits."""

    def __init__(self, server: str, sessions: SessionStore, replay: Replay, clock: Clock) -> None:
        self.server = server
        self._sessions = sessions
        self._replay = replay
        self._clock = clock
        self._feeds: dict[UserId, Feed] = {}
        self._mutes: list[tuple[int, UserId]] = []
        self._has_mutes = asyncio.Event()
        self._users_without_feed: set[UserId] = set()
        """Recipients of frames that have no connection here."""
        self._users_losing_routes: frozenset[UserId] = frozenset()
        """Users whose routes are being removed."""
        self._routes_removed = asyncio.Event()
        self.resets = 0
        """The number of times that a client had to start over."""

    async def attach(self, user: UserId, budget: QueueBudget) -> Mailbox:
        """Return a mailbox that gets every event of the user after its `start`. Raises Unreachable."""
        feed = self._feeds.get(user)
        if feed is None:
            feed = self._feeds[user] = Feed(user)
        feed.attaching += 1
        try:
            async with feed.lock:
                if feed.position is None:
                    feed.position = await self._register(feed)
            mailbox = Mailbox(user, feed.position, budget)
            feed.mailboxes.add(mailbox)
            if feed.early or feed.may_miss_events:
                self._start_repair(feed)
            return mailbox
        finally:
            feed.attaching -= 1
            self._drop_if_idle(feed)

    def detach(self, mailbox: Mailbox) -> None:
        """Close a mailbox. Idempotent."""
        mailbox.close()
        feed = self._feeds.get(mailbox.user)
        if feed is not None:
            feed.mailboxes.discard(mailbox)
            self._drop_if_idle(feed)

    @property
    def mailboxes(self) -> int:
        """The number of mailboxes on this process."""
        return sum(len(feed.mailboxes) for feed in self._feeds.values())

    def has_mailbox(self, user: UserId) -> bool:
        """Return whether a connection of this process subscribes to the user's events."""
        feed = self._feeds.get(user)
        return feed is not None and bool(feed.mailboxes)

    def receive(self, event: Event | None, recipients: Iterable[EventRecipient]) -> None:
        """Take an event of some users from any server, in any order, any number of times.

        Without an event, only the users' clocks move to the ticks.
        """
        mute_ends = event.next_mute_end_ms if event is not None else None
        for user, epoch, tick, previous in recipients:
            feed = self._feeds.get(user)
            if feed is None:
                self._users_without_feed.add(user)
                continue
            if mute_ends is not None:
                self._schedule_mute_end(feed, mute_ends)
            position = feed.position
            if position is not None and previous <= position.tick < tick and epoch == position.epoch:
                feed.deliver(Position(epoch, tick), event)
                if feed.early:
                    feed.deliver_early()
            else:
                self._receive_out_of_order(feed, epoch, tick, previous, event)

    def _receive_out_of_order(self, feed: Feed, epoch: str, tick: int, previous: int, event: Event | None) -> None:
        """Take an event that is not the next one of a feed."""
        position = feed.position
        if position is None:
            # The feed's epoch is not known yet, so the event cannot be placed. The log has it.
            feed.may_miss_events = True
        elif epoch != position.epoch:
            self._check_for_missed(feed)
        elif tick > position.tick:
            if len(feed.early) < _MAX_EARLY:
                feed.early[previous] = (tick, event)
            else:
                feed.may_miss_events = True
            self._start_repair(feed)

    def deliver_ephemeral(self, users: Iterable[UserId], event: EphemeralEvent) -> None:
        """Put an event without a tick into the mailboxes of users. Best effort: it is not repeated if it gets lost."""
        for user in users:
            feed = self._feeds.get(user)
            if feed is None:
                self._users_without_feed.add(user)
            else:
                for mailbox in tuple(feed.mailboxes):
                    mailbox.put(event)

    def resync(self) -> None:
        """Compare the position of all feeds with the users' clocks. Called when frames may have been lost."""
        for feed in self._feeds.values():
            self._check_for_missed(feed)

    async def check_feeds(self) -> None:
        """Find feeds that missed events, whose state is no longer cached, or whose route is missing or ends soon.

        Idle users cost two reads in a shared round trip. Raises StoreError if it failed for one of them, after all were
        attempted.
        """
        failures: list[StoreError] = []
        feeds = [feed for feed in self._feeds.values() if feed.position is not None]
        for start in range(0, len(feeds), _USERS_AT_ONCE):
            try:
                await self._check(feeds[start : start + _USERS_AT_ONCE])
            except StoreError as failure:
                failures.append(failure)
        await self._remove_unused_routes()
        if failures:
            raise failures[0]

    async def _check(self, feeds: Sequence[Feed]) -> None:
        found = await self._sessions.read_positions([feed.user for feed in feeds], self.server)
        renew_before = self._clock.now_ms() + ROUTE_MS // 2
        to_register = []
        for feed, live in zip(feeds, found, strict=True):
            if live is None or live.is_held or live.route_until < renew_before:
                to_register.append(feed)
            else:
                self._compare(feed, self._position_from(feed, live.epoch, live.clock, live.mute_ends_at))
        outcomes = await asyncio.gather(*(self._check_clock(feed) for feed in to_register), return_exceptions=True)
        for failure in filter(None, outcomes):
            raise failure

    async def remove_routes(self, users: Collection[UserId], server: str) -> None:
        """Remove the routes of users to a server that has ended. Raises StoreError.

        If the server is alive after all, its next check stores them again, and finds the events that it missed.
        """
        await self._sessions.detach(users, server)

    async def _remove_unused_routes(self) -> None:
        """Remove the routes of users that frames arrived for although they have no connection here."""
        users, self._users_without_feed = list(self._users_without_feed), set()
        for start in range(0, len(users), _USERS_AT_ONCE):
            self._users_losing_routes = frozenset(
                user for user in users[start : start + _USERS_AT_ONCE] if user not in self._feeds
            )
            try:
                await self._sessions.detach(self._users_losing_routes, self.server)
            finally:
                self._users_losing_routes = frozenset()
                self._routes_removed.set()
                self._routes_removed.clear()

    async def _check_clock(self, feed: Feed) -> None:
        self._compare(feed, await self._register(feed))

    def _compare(self, feed: Feed, clock: Position) -> None:
        at = feed.position
        if at is not None and (at.epoch != clock.epoch or at.tick < clock.tick):
            self._check_for_missed(feed)

    async def end_mutes(self) -> None:
        """End due mutes of users with connections here. Any script on the user's state ends them and logs the event."""
        now = self._clock.now_ms()
        due = []
        while self._mutes and self._mutes[0][0] <= now:
            at, user = heappop(self._mutes)
            feed = self._feeds.get(user)
            if feed is not None and feed.mute_ends == at:
                feed.mute_ends = None
                due.append(feed)
        await asyncio.gather(*(self._end_mutes_of(feed) for feed in due))

    async def _end_mutes_of(self, feed: Feed) -> None:
        try:
            await self._check_clock(feed)
        except StoreError:
            self._check_for_missed(feed)

    def _schedule_mute_end(self, feed: Feed, ends: int) -> None:
        # Later ends are found by the next checks.
        if ends > self._clock.now_ms() + _MUTES_AHEAD_MS:
            return
        if feed.mute_ends is None or ends < feed.mute_ends:
            feed.mute_ends = ends
            heappush(self._mutes, (ends, feed.user))
            self._has_mutes.set()

    async def wait_for_mutes(self) -> None:
        """Wait until a mute of a user with connections here ends soon."""
        if not self._mutes:
            self._has_mutes.clear()
            await self._has_mutes.wait()

    async def _register(self, feed: Feed) -> Position:
        """Store the route, and return the user's clock at that moment."""
        while feed.user in self._users_losing_routes:
            # Redis may execute calls of different connections in any order.
            await self._routes_removed.wait()
        until = self._clock.now_ms() + ROUTE_MS
        return self._position_from(feed, *await self._sessions.attach(feed.user, self.server, until))

    def _position_from(self, feed: Feed, epoch: str, clock: int, mute_ends: int | None) -> Position:
        if mute_ends is not None:
            self._schedule_mute_end(feed, mute_ends)
        return Position(epoch, clock)

    def _check_for_missed(self, feed: Feed) -> None:
        feed.may_miss_events = True
        self._start_repair(feed)

    def _start_repair(self, feed: Feed) -> None:
        # A feed without mailboxes is repaired when the next one is attached.
        if feed.repair is None and feed.mailboxes:
            feed.repair = asyncio.create_task(self._repair(feed))

    async def _repair(self, feed: Feed) -> None:
        """Wait a moment for late frames, then read what is missing from the log. Repeats until nothing is missing."""
        pause = _REPAIR_DELAY_SECONDS
        try:
            while feed.mailboxes:
                await asyncio.sleep(pause)
                if not feed.early and not feed.may_miss_events:
                    return
                try:
                    await self._read_log(feed)
                    pause = _REPAIR_DELAY_SECONDS
                except StoreError as error:
                    _log.warning("feed_not_repaired_yet", user=feed.user, reason=str(error))
                    pause = min(2 * pause, _LONGEST_REPAIR_DELAY_SECONDS)
        except Exception:
            _log.exception("feed_repair_failed", user=feed.user)
            if feed.position is not None:
                feed.lag(feed.position)
        finally:
            feed.repair = None

    async def _read_log(self, feed: Feed) -> None:
        try:
            # Frames that arrive during this may set it again.
            feed.may_miss_events = False
            clock = await self._register(feed)
            assert feed.position is not None
            missed = await self._replay(feed.user, feed.position)
        except StoreError:
            feed.may_miss_events = True
            raise
        if missed is None:
            # Events may have been delivered meanwhile: the position must not go back before them.
            is_later = feed.position.epoch == clock.epoch and feed.position.tick > clock.tick
            feed.lag(feed.position if is_later else clock)
            return
        for item in missed:
            if item.position.tick > feed.position.tick:
                feed.deliver(item.position, item.event)
        feed.early = {before: late for before, late in feed.early.items() if late[0] > feed.position.tick}
        feed.deliver_early()

    def _drop_if_idle(self, feed: Feed) -> None:
        if not feed.mailboxes and not feed.attaching and self._feeds.get(feed.user) is feed:
            del self._feeds[feed.user]
            if feed.repair is not None:
                feed.repair.cancel()

    async def close(self) -> None:
        """Stop repairing feeds."""
        for feed in list(self._feeds.values()):
            if feed.repair is not None:
                feed.repair.cancel()

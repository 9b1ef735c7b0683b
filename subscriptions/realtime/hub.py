"""Hubs deliver the events of clocks to the subscriptions of this process. A clock has an owner: a user, or a workspace.

The events of a clock form a chain: each names the tick before it. Frames from other servers may arrive late, out of
order, twice or never. The chain shows this, so that a feed delivers every event once and in order. It reads missing
events from the clock's log. If the log does not have them either, subscribers get Lagged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import structlog

from store.base.clock import Clock
from store.base.errors import StoreError
from subscriptions.realtime.events.base import EphemeralEvent, Event
from subscriptions.realtime.feed import Feed
from subscriptions.realtime.mailboxes import Mailbox, MailboxEvent, Position, QueueBudget

_log = structlog.get_logger()

ROUTE_MS = 6 * 3600 * 1000
"""Time that a route stays valid. It is renewed when half of it has passed."""

CHECK_SECONDS = 30.0
"""Interval at which all feeds are compared with their clocks."""

_REPAIR_DELAY_SECONDS = 0.05
_LONGEST_REPAIR_DELAY_SECONDS = 2.0
_OWNERS_AT_ONCE = 200
_MAX_EARLY = 1_000
"""Events of one clock that wait for an earlier event. Further ones are read from the log."""


Owner = TypeVar("Owner", bound=str)
_OwnerOf = TypeVar("_OwnerOf", bound=str, contravariant=True)


class RoutedClock(NamedTuple):
    """A clock as Redis has it, compared with the position of a feed.

    Attributes:
        position: The clock.
        route_until: Time until which the route to this server is valid, ms; 0 without a route.
        is_uncertain: True if only registering again shows whether the clock is still valid.
    """

    position: Position
    route_until: int
    is_uncertain: bool = False


class Clocks(Protocol[_OwnerOf]):
    """The clocks that a hub serves, in Redis."""

    async def attach(self, owner: _OwnerOf, server: str, until_ms: int) -> Position:
        """Store a route to a server until a time (ms), and return the clock. Raises StoreError.

        All events after that position reach the server, except for frames that get lost.
        """
        ...

    async def read_positions(self, owners: Sequence[_OwnerOf], server: str) -> Sequence[RoutedClock | None]:
        """Return each clock; None for one that is not in Redis. One round trip that changes nothing."""
        ...

    async def detach(self, owners: Collection[_OwnerOf], server: str) -> None:
        """Remove the routes to a server. Raises StoreError."""
        ...


Replay = Callable[[Owner, Position], Awaitable[list[MailboxEvent] | None]]
"""Returns the events of a clock after a position; None if some of them are not known."""


class Hub(Generic[Owner]):
    """The feeds of this process, by owner. Runs on one event loop. Delivering never waits."""

    def __init__(self, server: str, clocks: Clocks[Owner], replay: Replay[Owner], clock: Clock) -> None:
        self.server = server
        self._clocks = clocks
        self._replay = replay
        self._clock = clock
        self._feeds: dict[Owner, Feed[Owner]] = {}
        self._owners_without_feed: set[Owner] = set()
        """Recipients of frames that have no connection here."""
        self._owners_losing_routes: frozenset[Owner] = frozenset()
        """Owners whose routes are being removed."""
        self._routes_removed = asyncio.Event()
        self.resets = 0
        """The number of times that a client had to start over."""

    async def attach(
        self, owner: Owner, budget: QueueBudget, user: str = "", subjects: Collection[str] | None = None
    ) -> Mailbox:
        """Return a mailbox that gets every event of the clock after its `start`. Raises Unreachable.

        Args:
            owner: The clock's owner.
            budget: Bounds the events that wait.
            user: The subscriber; "": none, so events that concern single users are left out.
            subjects: Subjects of the events that the subscriber wants, besides events without one; None: all.
        """
        feed = self._feeds.get(owner)
        if feed is None:
            feed = self._feeds[owner] = Feed(owner)
        feed.attaching += 1
        try:
            async with feed.lock:
                if feed.position is None:
                    feed.position = await self._register(feed)
            mailbox = Mailbox(owner, feed.position, budget, user, subjects)
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
        feed = self._find(mailbox.owner)
        if feed is not None:
            feed.mailboxes.discard(mailbox)
            self._drop_if_idle(feed)

    @property
    def mailboxes(self) -> int:
        """The number of mailboxes on this process."""
        return sum(len(feed.mailboxes) for feed in self._feeds.values())

    def has_mailbox(self, owner: Owner) -> bool:
        """Return whether a connection of this process subscribes to the clock's events."""
        feed = self._feeds.get(owner)
        return feed is not None and bool(feed.mailboxes)

    def find_position(self, mailbox: Mailbox) -> Position | None:
        """Return the position up to which events are delivered to a mailbox; None if it was closed."""
        feed = self._find(mailbox.owner)
        return feed.position if feed is not None and mailbox in feed.mailboxes else None

    def find_clock(self, owner: Owner) -> Position | None:
        """Return the position up to which a clock's events are delivered; None if it has no subscription here."""
        feed = self._feeds.get(owner)
        return feed.position if feed is not None else None

    def _find(self, owner: str) -> Feed[Owner] | None:
        return self._feeds.get(owner)  # type: ignore[arg-type]  # an owner is a str

    def receive(self, event: Event | None, recipients: Sequence[tuple[Owner, str, int, int]]) -> None:
        """Take an event of some clocks from any server, in any order, any number of times.

        Without an event, only the clocks move to the ticks. A recipient is owner, epoch, tick, and the tick before.
        """
        for owner, epoch, tick, previous in recipients:
            feed = self._feeds.get(owner)
            if feed is None:
                self._owners_without_feed.add(owner)
                continue
            position = feed.position
            if position is not None and previous <= position.tick < tick and epoch == position.epoch:
                feed.deliver(Position(epoch, tick), event)
                if feed.early:
                    feed.deliver_early()
            else:
                self._receive_out_of_order(feed, epoch, tick, previous, event)

    def _receive_out_of_order(
        self, feed: Feed[Owner], epoch: str, tick: int, previous: int, event: Event | None
    ) -> None:
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

    def deliver_ephemeral(self, owners: Iterable[Owner], event: EphemeralEvent) -> None:
        """Put an event without a tick into mailboxes. Best effort: it is not repeated if it gets lost."""
        for owner in owners:
            feed = self._feeds.get(owner)
            if feed is None:
                self._owners_without_feed.add(owner)
            else:
                for mailbox in tuple(feed.mailboxes):
                    mailbox.put(event)

    def deliver_derived(self, owner: Owner, event: Event) -> None:
        """Put an event that this process made of others into the mailboxes of a clock, after all that came before.

        It has the position of the last of them. A mailbox never drops it silently.
        """
        feed = self._feeds.get(owner)
        if feed is not None and feed.position is not None:
            feed.deliver(feed.position, event)

    def resync(self, is_concerned: Callable[[Owner], bool] = lambda _: True) -> None:
        """Compare the position of feeds with their clocks, soon. Called when frames or clocks may have been lost."""
        for feed in self._feeds.values():
            if is_concerned(feed.owner):
                self._check_for_missed(feed)

    def check_owner(self, owner: Owner) -> None:
        """Compare the position of one feed with its clock, soon."""
        feed = self._feeds.get(owner)
        if feed is not None:
            self._check_for_missed(feed)

    async def check_feeds(self) -> None:
        """Find feeds that missed events, whose clock is no longer in Redis, or whose route is missing or ends soon.

        Idle clocks cost two reads in a shared round trip. Raises StoreError if it failed for one of them, after all
        were attempted.
        """
        failures: list[StoreError] = []
        feeds = [feed for feed in self._feeds.values() if feed.position is not None]
        for start in range(0, len(feeds), _OWNERS_AT_ONCE):
            try:
                await self._check(feeds[start : start + _OWNERS_AT_ONCE])
            except StoreError as failure:
                failures.append(failure)
        await self._remove_unused_routes()
        if failures:
            raise failures[0]

    async def _check(self, feeds: Sequence[Feed[Owner]]) -> None:
        found = await self._clocks.read_positions([feed.owner for feed in feeds], self.server)
        renew_before = self._clock.now_ms() + ROUTE_MS // 2
        to_register = []
        for feed, live in zip(feeds, found, strict=True):
            if live is None or live.is_uncertain or live.route_until < renew_before:
                to_register.append(feed)
            else:
                self._compare(feed, live.position)
        outcomes = await asyncio.gather(*(self._check_clock(feed) for feed in to_register), return_exceptions=True)
        for failure in filter(None, outcomes):
            raise failure

    async def remove_routes(self, owners: Collection[Owner], server: str) -> None:
        """Remove the routes of clocks to a server that has ended. Raises StoreError.

        If the server is alive after all, its next check stores them again, and finds the events that it missed.
        """
        await self._clocks.detach(owners, server)

    async def _remove_unused_routes(self) -> None:
        """Remove the routes of clocks that frames arrived for although they have no connection here."""
        owners, self._owners_without_feed = list(self._owners_without_feed), set()
        for start in range(0, len(owners), _OWNERS_AT_ONCE):
            self._owners_losing_routes = frozenset(
                owner for owner in owners[start : start + _OWNERS_AT_ONCE] if owner not in self._feeds
            )
            try:
                await self._clocks.detach(self._owners_losing_routes, self.server)
            finally:
                self._owners_losing_routes = frozenset()
                self._routes_removed.set()
                self._routes_removed.clear()

    async def _check_clock(self, feed: Feed[Owner]) -> None:
        self._compare(feed, await self._register(feed))

    def _compare(self, feed: Feed[Owner], clock: Position) -> None:
        at = feed.position
        if at is not None and (at.epoch != clock.epoch or at.tick < clock.tick):
            self._check_for_missed(feed)

    async def _register(self, feed: Feed[Owner]) -> Position:
        """Store the route, and return the clock at that moment."""
        while feed.owner in self._owners_losing_routes:
            # Redis may execute calls of different connections in any order.
            await self._routes_removed.wait()
        return await self._clocks.attach(feed.owner, self.server, self._clock.now_ms() + ROUTE_MS)

    def _check_for_missed(self, feed: Feed[Owner]) -> None:
        feed.may_miss_events = True
        self._start_repair(feed)

    def _start_repair(self, feed: Feed[Owner]) -> None:
        # A feed without mailboxes is repaired when the next one is attached.
        if feed.repair is None and feed.mailboxes:
            feed.repair = asyncio.create_task(self._repair(feed))

    async def _repair(self, feed: Feed[Owner]) -> None:
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
                    _log.warning("feed_not_repaired_yet", owner=feed.owner, reason=str(error))
                    pause = min(2 * pause, _LONGEST_REPAIR_DELAY_SECONDS)
        except Exception:
            _log.exception("feed_repair_failed", owner=feed.owner)
            if feed.position is not None:
                feed.lag(feed.position)
        finally:
            feed.repair = None

    async def _read_log(self, feed: Feed[Owner]) -> None:
        try:
            # Frames that arrive during this may set it again.
            feed.may_miss_events = False
            clock = await self._register(feed)
            assert feed.position is not None
            missed = await self._replay(feed.owner, feed.position)
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

    def _drop_if_idle(self, feed: Feed[Owner]) -> None:
        if not feed.mailboxes and not feed.attaching and self._feeds.get(feed.owner) is feed:
            del self._feeds[feed.owner]
            if feed.repair is not None:
                feed.repair.cancel()

    async def close(self) -> None:
        """Stop repairing feeds."""
        for feed in list(self._feeds.values()):
            if feed.repair is not None:
                feed.repair.cancel()

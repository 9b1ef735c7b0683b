"""The hub: one per process. It knows whose connections are here, and hands each of them their user's events.

A user's events form a chain: each names the tick of the user's clock before it. Frames from other servers may come late, out
of order, twice or never; the chain shows which, so a feed delivers every event once and in order, and reads the user's
log for what did not come. What the log can't tell either is said aloud: Lagged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from heapq import heappop, heappush

import structlog

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import UserId
from store.sessions.session_store import SessionStore
from subscriptions.realtime.events import Ephemeral, Event, SessionChanged
from subscriptions.realtime.mailboxes import Delivered, Lagged, Mailbox, Position, QueueBudget

_log = structlog.get_logger()

ROUTE_MS = 90_000
"""How long others believe that a server holds connections of a user without hearing it again."""

_PATIENCE_SECONDS = 0.05
_REFRESHED_AT_ONCE = 64
_MOST_EARLY = 1_000
"""Events of a user kept for their turn. Where there are more, the log tells them."""


Replay = Callable[[UserId, Position], Awaitable[list[Delivered] | None]]


class _Feed:
    """One user's events on this process."""

    __slots__ = ("attaching", "early", "lock", "mailboxes", "mute_ends", "position", "repair", "suspect", "user")

    def __init__(self, user: UserId) -> None:
        self.user = user
        self.position: Position | None = None
        self.mailboxes: set[Mailbox] = set()
        self.early: dict[int, tuple[int, Event | None]] = {}
        self.lock = asyncio.Lock()
        self.attaching = 0
        self.mute_ends: int | None = None
        self.suspect = False
        self.repair: asyncio.Task[None] | None = None

    def deliver(self, position: Position, event: Event | None) -> None:
        self.position = position
        if event is not None:
            item = Delivered(position, event)
            # Whoever is told may leave at that.
            for mailbox in tuple(self.mailboxes):
                mailbox.put(item)

    def lag(self, position: Position) -> None:
        self.position = position
        self.early.clear()
        for mailbox in tuple(self.mailboxes):
            mailbox.put(Lagged(position))

    def catch_up(self) -> None:
        """Delivers what came early and now has its turn."""
        assert self.position is not None
        while self.early:
            tick = self.position.tick
            ready = [previous for previous in self.early if previous <= tick]
            if not ready:
                return
            previous = min(ready)
            later, event = self.early.pop(previous)
            if later > tick:
                self.deliver(Position(self.position.epoch, later), event)


class Hub:
    """Feeds by user. All of it runs on one event loop; no method but `attach` waits for anything."""

    def __init__(self, server: str, sessions: SessionStore, replay: Replay, clock: Clock) -> None:
        self.server = server
        self._sessions = sessions
        self._replay = replay
        self._clock = clock
        self._feeds: dict[UserId, _Feed] = {}
        self._mutes: list[tuple[int, UserId]] = []
        self.resets = 0
        """How often somebody was told to begin anew."""

    async def attach(self, user: UserId, room: QueueBudget) -> Mailbox:
        """A mailbox that gets every event of the user after its `start`. Raises Unreachable."""
        feed = self._feeds.get(user)
        if feed is None:
            feed = self._feeds[user] = _Feed(user)
        feed.attaching += 1
        try:
            async with feed.lock:
                if feed.position is None:
                    feed.position = await self._register(feed)
            mailbox = Mailbox(user, feed.position, room)
            feed.mailboxes.add(mailbox)
            if feed.early or feed.suspect:
                self._mend(feed)
            return mailbox
        finally:
            feed.attaching -= 1
            self._drop_if_idle(feed)

    def detach(self, mailbox: Mailbox) -> None:
        """Ends a mailbox."""
        mailbox.leave()
        feed = self._feeds.get(mailbox.user)
        if feed is not None:
            feed.mailboxes.discard(mailbox)
            self._drop_if_idle(feed)

    @property
    def mailboxes(self) -> int:
        """Subscribers to events here."""
        return sum(len(feed.mailboxes) for feed in self._feeds.values())

    def hears(self, user: UserId) -> bool:
        """Whether a connection here listens to what happens to the user."""
        feed = self._feeds.get(user)
        return feed is not None and bool(feed.mailboxes)

    def receive(self, user: UserId, epoch: str, tick: int, previous: int, event: Event | None) -> None:
        """An event of the user, from any server. Without an event: word that the user's clock stands at tick."""
        feed = self._feeds.get(user)
        if feed is None:
            return
        if isinstance(event, SessionChanged):
            for session in event.sessions:
                self._note_mute(feed, session.muted_until_ms)
        position = feed.position
        if position is None:
            # Whether it belongs to the epoch that is being asked for is not known yet: the log tells.
            feed.suspect = True
        elif epoch != position.epoch:
            self._suspect(feed)
        elif tick <= position.tick:
            return
        elif previous <= position.tick:
            feed.deliver(Position(epoch, tick), event)
            feed.catch_up()
        else:
            if len(feed.early) < _MOST_EARLY:
                feed.early[previous] = (tick, event)
            else:
                feed.suspect = True
            self._mend(feed)

    def tell(self, users: Iterable[UserId], event: Ephemeral) -> None:
        """Something in passing, for those of the users who have mailboxes here: part of no chain, in no log."""
        for user in users:
            feed = self._feeds.get(user)
            if feed is not None:
                for mailbox in tuple(feed.mailboxes):
                    mailbox.put(event)

    def resync(self) -> None:
        """Frames may have been lost for everybody: have each feed look."""
        for feed in self._feeds.values():
            self._suspect(feed)

    async def refresh(self) -> None:
        """Says again whose connections are here, and notices those whose state left the cache. Raises what failed for one, once
        all have been seen to."""
        failures: list[StoreError] = []
        feeds = [feed for feed in self._feeds.values() if feed.position is not None]
        for start in range(0, len(feeds), _REFRESHED_AT_ONCE):
            try:
                await self._refresh(feeds[start : start + _REFRESHED_AT_ONCE])
            except StoreError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    async def _refresh(self, feeds: Sequence[_Feed]) -> None:
        until = self._clock.now_ms() + ROUTE_MS
        answers = await self._sessions.attach_again([feed.user for feed in feeds], self.server, until)
        cold = []
        for feed, answer in zip(feeds, answers, strict=True):
            if answer is None:
                cold.append(feed)
            else:
                self._compare(feed, self._stands(feed, answer))
        outcomes = await asyncio.gather(*(self._look(feed) for feed in cold), return_exceptions=True)
        for failure in filter(None, outcomes):
            raise failure

    async def _look(self, feed: _Feed) -> None:
        self._compare(feed, await self._register(feed))

    def _compare(self, feed: _Feed, now: Position) -> None:
        if feed.position is not None and feed.position != now:
            self._suspect(feed)

    async def end_mutes(self) -> None:
        """Has mutes end that are due, of users with connections here: asking for a state then ends them and tells all."""
        now = self._clock.now_ms()
        due = []
        while self._mutes and self._mutes[0][0] <= now:
            at, user = heappop(self._mutes)
            feed = self._feeds.get(user)
            if feed is not None and feed.mute_ends == at:
                feed.mute_ends = None
                due.append(feed)
        await asyncio.gather(*(self._end_mutes(feed) for feed in due))

    async def _end_mutes(self, feed: _Feed) -> None:
        try:
            await self._look(feed)
        except StoreError:
            self._suspect(feed)

    def _note_mute(self, feed: _Feed, ends: int | None) -> None:
        # What ends later is noted by one of the rounds that renew routes.
        if ends is None or ends > self._clock.now_ms() + ROUTE_MS:
            return
        if feed.mute_ends is None or ends < feed.mute_ends:
            feed.mute_ends = ends
            heappush(self._mutes, (ends, feed.user))

    async def _register(self, feed: _Feed) -> Position:
        until = self._clock.now_ms() + ROUTE_MS
        return self._stands(feed, await self._sessions.attach(feed.user, self.server, until))

    def _stands(self, feed: _Feed, answer: tuple[str, int, int | None]) -> Position:
        epoch, clock, mute_ends = answer
        self._note_mute(feed, mute_ends)
        return Position(epoch, clock)

    def _suspect(self, feed: _Feed) -> None:
        """Events may be missing without anything that shows it."""
        feed.suspect = True
        self._mend(feed)

    def _mend(self, feed: _Feed) -> None:
        # Without a mailbox it is left to the next that is attached.
        if feed.repair is None and feed.mailboxes:
            feed.repair = asyncio.create_task(self._repair(feed))

    async def _repair(self, feed: _Feed) -> None:
        """Waits a moment for what is on its way, then reads the log for what did not come."""
        pause = _PATIENCE_SECONDS
        try:
            while feed.mailboxes:
                await asyncio.sleep(pause)
                if not feed.early and not feed.suspect:
                    return
                try:
                    await self._read_log(feed)
                    pause = _PATIENCE_SECONDS
                except StoreError as error:
                    _log.warning("feed not repaired yet", user=feed.user, reason=str(error))
                    pause = min(2 * pause, 2.0)
        except Exception:
            _log.exception("a feed could not be repaired", user=feed.user)
            if feed.position is not None:
                feed.lag(feed.position)
        finally:
            feed.repair = None

    async def _read_log(self, feed: _Feed) -> None:
        try:
            # What comes while this is being asked may be suspect again.
            feed.suspect = False
            now = await self._register(feed)
            assert feed.position is not None
            missed = await self._replay(feed.user, feed.position)
        except StoreError:
            feed.suspect = True
            raise
        if missed is None:
            # What was delivered while the log was read is not gone back on.
            feed.lag(feed.position if feed.position.epoch == now.epoch and feed.position.tick > now.tick else now)
            return
        for item in missed:
            if item.position.tick > feed.position.tick:
                feed.deliver(item.position, item.event)
        feed.early = {p: e for p, e in feed.early.items() if e[0] > feed.position.tick}
        feed.catch_up()

    def _drop_if_idle(self, feed: _Feed) -> None:
        if not feed.mailboxes and not feed.attaching and self._feeds.get(feed.user) is feed:
            del self._feeds[feed.user]
            if feed.repair is not None:
                feed.repair.cancel()

    async def close(self) -> None:
        """Ends what is being repaired."""
        for feed in list(self._feeds.values()):
            if feed.repair is not None:
                feed.repair.cancel()

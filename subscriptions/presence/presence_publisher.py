"""Sends changed presence records to the servers that show the users (ADR 80)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextvars import Context
from typing import Any

import structlog

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.presence.presence_record import PresenceRecord
from store.presence.presence_store import ChangedPresence
from store.presence.record_codec import encode_record
from store.presence.shown_presence import FindEnd
from subscriptions.presence.visible_changes import record_to_send, shows_the_same
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.shared.loop_slices import LoopSlices

_log = structlog.get_logger()

FRAME = "presence"

PUBLISH_SECONDS = 1.0
"""Least time between two frames about a user from one server. The last change is always sent."""

_MOST_RECORDS = 500
"""Records in one frame: some milliseconds for the server that gets it."""

_RETRY_SECONDS = 1.0


class _Unsent:
    """The changes of a user's record since the last frame about them.

    Attributes:
        before: The record before the first change; None: not known, so a frame is needed.
        record: The record after the last one.
        servers: The servers that show the user, as the changes found them.
        is_certain: True if a frame is needed, whatever the records show.
    """

    __slots__ = ("before", "is_certain", "record", "servers")

    def __init__(self, change: ChangedPresence) -> None:
        self.before = change.before
        self.record = change.record
        self.servers = set(change.servers)
        self.is_certain = change.before is None

    def add(self, change: ChangedPresence) -> None:
        """Add a change. Changes of different calls may come in any order."""
        # Another server has made a change between the two, and may have sent it.
        self.is_certain |= change.before is None or change.before.version != self.record.version
        self.servers.update(change.servers)
        if change.record.version > self.record.version:
            self.record = change.record

    def is_needed(self, find_end: FindEnd, now_ms: int) -> bool:
        """Return whether others see a difference, or may do so."""
        if self.is_certain or self.before is None:
            return True
        return not shows_the_same(self.before, self.record, find_end, now_ms)

    def add_later(self, later: _Unsent) -> None:
        """Add the changes after those, which could not be sent."""
        self.is_certain = True
        self.servers |= later.servers
        if later.record.version > self.record.version:
            self.record = later.record


class PresencePublisher:
    """The changes that wait for their frame. A frame that cannot be sent is tried again with the newest record."""

    def __init__(self, server: str, bus: Bus, find_end: FindEnd, clock: Clock) -> None:
        """Begin without changes. server: this one, which needs no frames."""
        self._server = server
        self._bus = bus
        self._find_end = find_end
        self._clock = clock
        self.seconds_between = PUBLISH_SECONDS
        self._unsent: dict[UserId, _Unsent] = {}
        self._sent_at: dict[UserId, float] = {}
        """The event loop's time of the last frame about a user, oldest first. Older ones are removed."""
        self._task: asyncio.Task[None] | None = None
        self.frames = 0
        """Frames sent so far."""

    async def close(self) -> None:
        """Stop. What waits is not sent."""
        if self._task is not None:
            await end_tasks([self._task])

    def add(self, changes: Iterable[ChangedPresence]) -> None:
        """Send the records to other servers after this has returned, if others see a difference."""
        for change in changes:
            unsent = self._unsent.get(change.record.user)
            if unsent is not None:
                unsent.add(change)
            elif any(server != self._server for server in change.servers):
                self._unsent[change.record.user] = _Unsent(change)
        if self._unsent and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    async def _run(self) -> None:
        """Send until nothing waits."""
        while self._unsent:
            due = self._take_due()
            try:
                await self._send(due)
            except StoreError as error:
                _log.warning("presence_not_sent_yet", users=len(due), reason=str(error))
                self._put_back(due)
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                _log.exception("presence_not_sent", users=len(due))
            if self._unsent:
                await asyncio.sleep(self._seconds_until_due())

    def _take_due(self) -> dict[UserId, _Unsent]:
        """Remove the changes of users about which no frame was sent a moment ago."""
        long_ago = asyncio.get_running_loop().time() - self.seconds_between
        while self._sent_at and next(iter(self._sent_at.values())) <= long_ago:
            del self._sent_at[next(iter(self._sent_at))]
        due = {user: unsent for user, unsent in self._unsent.items() if user not in self._sent_at}
        for user in due:
            del self._unsent[user]
        return due

    def _seconds_until_due(self) -> float:
        """Return the time until the first of the changes that wait may be sent."""
        if any(user not in self._sent_at for user in self._unsent):
            return 0.0
        first = min(self._sent_at[user] for user in self._unsent)
        return max(0.0, first + self.seconds_between - asyncio.get_running_loop().time())

    def _put_back(self, unsent: Mapping[UserId, _Unsent]) -> None:
        for user, earlier in unsent.items():
            self._sent_at.pop(user, None)
            later = self._unsent.get(user)
            if later is not None:
                earlier.add_later(later)
            self._unsent[user] = earlier

    async def _send(self, due: Mapping[UserId, _Unsent]) -> None:
        """Send one frame to each server, or several if it is large. Raises StoreError."""
        by_server: defaultdict[str, list[PresenceRecord]] = defaultdict(list)
        slices = LoopSlices()
        for unsent in due.values():
            await slices.next()
            now_ms = self._clock.now_ms()
            if unsent.is_needed(self._find_end, now_ms):
                for server in unsent.servers:
                    if server != self._server:
                        by_server[server].append(record_to_send(unsent.record, now_ms))
        now = asyncio.get_running_loop().time()
        for records in by_server.values():
            for record in records:
                self._sent_at.pop(record.user, None)
                self._sent_at[record.user] = now
        while by_server:
            bodies: dict[str, Any] = {}
            for server in list(by_server):
                await slices.next()
                records = by_server[server]
                bodies[server] = [encode_record(record) for record in records[:_MOST_RECORDS]]
                del records[:_MOST_RECORDS]
                if not records:
                    del by_server[server]
            await self._bus.publish_frames(FRAME, bodies)
            self.frames += len(bodies)

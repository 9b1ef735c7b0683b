"""The users that this process shows: their newest records, and what others see of them at present (ADR 80)."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import Context
from dataclasses import replace
from heapq import heapify, heappop, heappush

import structlog

from store.base.clock import Clock
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.presence.presence_record import DevicePresence, PresenceRecord
from store.presence.shown_presence import ANNOUNCED_AFTER_MS, FindEnd, shown_presence
from store.users.user import User
from subscriptions.presence.presence_watch import EVENT_SECONDS, PresenceState, WatchedUser
from subscriptions.realtime.shared.loop_slices import LoopSlices

_log = structlog.get_logger()

_SPARE_CHANGES = 1_000
"""Scheduled changes that may be out of date, in addition to one for each user."""

_TIMER_SECONDS = (0.01, 60.0)
"""The shortest and the longest wait for the next change by itself. The clock may be moved meanwhile."""


class WatchedUsers:
    """Derives what others see of each user when a record changes, a server ends, or the time for it comes.

    Derived are few users at a time, so other tasks of the event loop run meanwhile.
    """

    def __init__(self, clock: Clock, find_end: FindEnd, read_again: Callable[[UserId], None]) -> None:
        """Begin without users.

        `read_again` reads the record of a user who is no longer INVISIBLE, and whose devices are not known.
        """
        self._clock = clock
        self._find_end = find_end
        self.event_seconds = EVENT_SECONDS
        self._users: dict[UserId, WatchedUser] = {}
        self._by_server: defaultdict[str, set[UserId]] = defaultdict(set)
        """The users with devices on each server."""
        self._due: deque[WatchedUser] = deque()
        self._changes: list[tuple[int, UserId]] = []
        """A heap of the times at which states change by themselves. Entries that differ from the user's are ignored."""
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._lost_at_ms = 0
        """When Redis lost its contents, as far as this process has noticed it."""
        self._is_closed = False
        self._read_again = read_again

    def __len__(self) -> int:
        """Return the number of users."""
        return len(self._users)

    def __iter__(self) -> Iterator[UserId]:
        """Return the users."""
        return iter(self._users)

    async def close(self) -> None:
        """Stop."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await end_tasks([self._task])

    def find(self, user: UserId) -> WatchedUser | None:
        """Return a user; None if no subscription has shown them for a while."""
        return self._users.get(user)

    def add(self, user: UserId) -> WatchedUser:
        """Return a user, who is added if needed."""
        watched = self._users.get(user)
        if watched is None:
            watched = self._users[user] = WatchedUser(user)
        return watched

    def remove(self, watched: WatchedUser) -> None:
        """Forget a user."""
        self._index(watched, None)
        watched.changes_at_ms = None
        del self._users[watched.user]

    def keep_lost_devices(self) -> None:
        """Keep the devices that Redis has just lost: those missing in the next records count as departed now.

        After a loss of Redis, servers write their devices again. A user must not be shown as OFFLINE meanwhile.
        """
        self._lost_at_ms = self._clock.now_ms()

    def receive(self, record: PresenceRecord, *, has_all_devices: bool = True) -> None:
        """Take a record of a user, unless a newer one is known."""
        watched = self._users.get(record.user)
        if watched is None:
            return
        known = watched.record
        if known is not None and record.version == 0 and known.version < self._lost_at_ms:
            # Nothing was written since the loss.
            record = replace(record, version=known.version + 1)
        if known is not None and record.version <= known.version:
            is_completed = record.version == known.version and has_all_devices and not watched.has_all_devices
            if not is_completed:
                return
        if known is not None and self._clock.now_ms() < self._lost_at_ms + ANNOUNCED_AFTER_MS:
            record = _with_missing_devices(record, known, self._lost_at_ms)
        self._index(watched, record)
        watched.record, watched.has_all_devices = record, has_all_devices
        self.derive_soon((record.user,))

    def rename(self, profiles: Iterable[User]) -> None:
        """Take present profiles of users. Listeners get an event if a name or a picture has changed."""
        for profile in profiles:
            watched = self._users.get(profile.id)
            if watched is None:
                continue
            known, watched.profile = watched.profile, profile
            if (known.name, known.avatar_url) != (profile.name, profile.avatar_url):
                watched.profile_changes += 1
                self.derive_soon((profile.id,))

    def server_changed(self, servers: Collection[str]) -> None:
        """Derive the users with devices on servers that have ended, or have come back."""
        for server in servers:
            self.derive_soon(self._by_server.get(server, ()))

    def derive_soon(self, users: Iterable[UserId] = ()) -> None:
        """Derive users, and all whose time has come, in the next turns of the event loop."""
        for user in users:
            watched = self._users.get(user)
            if watched is not None:
                self._add_due(watched)
        self._start()

    def present_state(self, watched: WatchedUser) -> PresenceState:
        """Return what others see of a user at present. The record must have been read."""
        before = watched.state
        state = self._derive(watched)
        if before is not None and not before.is_like(state):
            self._add_due(watched)
            self._start()
        return state

    def _derive(self, watched: WatchedUser) -> PresenceState:
        assert watched.record is not None
        now_ms, known = self._clock.now_ms(), watched.state
        setting = watched.record.setting
        if not watched.has_all_devices and not setting.is_hidden_at(now_ms) and known is not None:
            self._read_again(watched.user)
            return known
        shown, changes_at_ms = shown_presence(watched.record, self._find_end, now_ms)
        if not watched.has_all_devices:
            changes_at_ms = min((at for at in (changes_at_ms, setting.until_ms) if at is not None), default=None)
        if changes_at_ms != watched.changes_at_ms:
            watched.changes_at_ms = changes_at_ms
            if changes_at_ms is not None:
                self._schedule(changes_at_ms, watched.user)
        if known is not None and known.profile_changes == watched.profile_changes and known.shown == shown:
            return known
        watched.state = PresenceState(shown, now_ms, watched.profile_changes)
        return watched.state

    def _schedule(self, at_ms: int, user: UserId) -> None:
        if len(self._changes) > 2 * len(self._users) + _SPARE_CHANGES:
            # Most of them are of users that have changed since, or are not shown any more.
            present = ((watched.changes_at_ms, name) for name, watched in self._users.items())
            self._changes = [(at, name) for at, name in present if at is not None]
            heapify(self._changes)
        else:
            heappush(self._changes, (at_ms, user))
        if self._changes[0][0] == at_ms:
            self._set_timer()

    def _index(self, watched: WatchedUser, record: PresenceRecord | None) -> None:
        """Note the servers of a user's devices."""
        before = {device.server for device in _list_devices(watched.record)}
        after = {device.server for device in _list_devices(record)}
        for server in before - after:
            users = self._by_server[server]
            users.discard(watched.user)
            if not users:
                del self._by_server[server]
        for server in after - before:
            self._by_server[server].add(watched.user)

    def _add_due(self, watched: WatchedUser) -> None:
        if not watched.is_due:
            watched.is_due = True
            self._due.append(watched)

    def _announce_again(self, watched: WatchedUser) -> None:
        self._add_due(watched)
        self._start()

    def _start(self) -> None:
        if not self._is_closed and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    async def _run(self) -> None:
        """Derive and announce the users that are due, until there are none."""
        slices = LoopSlices()
        try:
            while self._due or self._has_change_now():
                await slices.next()
                watched = self._take_due()
                if watched is None or watched.record is None or self._users.get(watched.user) is not watched:
                    continue
                try:
                    self._derive(watched)
                    await watched.announce(self.event_seconds, self._clock.now_ms(), slices, self._announce_again)
                except Exception:
                    _log.exception("presence_not_derived", user=watched.user)
        finally:
            self._task = None
            self._set_timer()

    def _has_change_now(self) -> bool:
        return bool(self._changes) and self._changes[0][0] <= self._clock.now_ms()

    def _take_due(self) -> WatchedUser | None:
        """Remove the next user who is due; None: what was scheduled does not happen any more."""
        if self._due:
            watched = self._due.popleft()
            watched.is_due = False
            return watched
        at_ms, user = heappop(self._changes)
        found = self._users.get(user)
        if found is None or found.changes_at_ms != at_ms:
            return None
        found.changes_at_ms = None
        return found

    def _set_timer(self) -> None:
        """Wait for the next change by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._changes and not self._is_closed:
            shortest, longest = _TIMER_SECONDS
            seconds = (self._changes[0][0] - self._clock.now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(min(max(seconds, shortest), longest), self._start)


def _list_devices(record: PresenceRecord | None) -> Iterable[DevicePresence]:
    return (*record.devices, *record.departed) if record is not None else ()


def _with_missing_devices(record: PresenceRecord, known: PresenceRecord, gone_at_ms: int) -> PresenceRecord:
    """Return a record with the devices that an earlier one has and it has not, as departed at a time."""
    names = {(device.server, device.device) for device in record.devices}
    missing = tuple(
        replace(device, gone_at_ms=min(device.gone_at_ms or gone_at_ms, gone_at_ms))
        for device in known.devices
        if (device.server, device.device) not in names
    )
    return replace(record, devices=(*record.devices, *missing)) if missing else record

"""The users whose presence this process shows, and who listens to it (ADR 80).

The hub puts together the parts: `WatchedUsers` derives what others see, `WatchReader` reads the records and stores
which users are watched, `PresencePublisher` sends changes to other servers. `PresenceWatch` is one subscription.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.presence.presence_record import PresenceSetting
from store.presence.presence_store import ChangedPresence
from store.presence.record_codec import decode_record
from store.presence.shown_presence import ShownPresence, shown_presence
from store.store import Store
from subscriptions.presence.live_servers import LiveServers
from subscriptions.presence.presence_publisher import FRAME, PresencePublisher
from subscriptions.presence.presence_watch import Listener, PresenceState, PresenceWatch, WatchedUser
from subscriptions.presence.watch_reader import WATCH_MS, WatchReader
from subscriptions.presence.watched_users import WatchedUsers
from subscriptions.realtime.bus import Bus

__all__ = ["WATCH_MS", "PresenceHub"]

UNWATCH_SECONDS = 10.0
"""Time after which a user that no subscription shows any more is forgotten. Clients may reconnect within it."""


class PresenceHub:
    """Derives what others see, at the moment when it changes, for all users that a connection of this process shows."""

    def __init__(self, server: str, store: Store, bus: Bus, servers: LiveServers) -> None:
        """Listen to the bus and to the ends of servers. server: the name of this one."""
        self._store = store
        self._servers = servers
        self.users = WatchedUsers(store.clock, servers.find_end, self._read_again)
        self.publisher = PresencePublisher(server, bus, servers.find_end, store.clock)
        self._reader = WatchReader(
            server, store.presence, store.users, store.clock, self.users, store.cache.require_shared
        )
        self._unused: dict[UserId, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._removing: asyncio.Task[None] | None = None
        self.unwatch_seconds = UNWATCH_SECONDS
        bus.on_frame(FRAME, self._receive)
        bus.on_subscribed(self.resync)
        bus.on_users(self._names_changed)
        servers.on_end(self.users.server_changed)

    @property
    def watched(self) -> int:
        """The number of users that this process shows, or showed a moment ago."""
        return len(self.users)

    async def close(self) -> None:
        """Stop. Watches are not removed: they end by themselves, and frames for this server reach nobody."""
        if self._removing is not None:
            await end_tasks([self._removing])
        await self._reader.close()
        await self.publisher.close()
        await self.users.close()

    async def read(self, users: Collection[UserId]) -> dict[UserId, ShownPresence]:
        """Return what others see of up to 200 users: one round trip to Redis, none for users that are watched here.

        Raises StoreError.
        """
        shown, unknown = {}, []
        for user in dict.fromkeys(users):
            watched = self.users.find(user)
            if watched is not None and watched.record is not None:
                shown[user] = self.users.present_state(watched).shown
            else:
                unknown.append(user)
        if unknown:
            records = await self._store.presence.read(unknown)
            now_ms = self._store.clock.now_ms()
            for user, record in records.items():
                shown[user] = shown_presence(record, self._servers.find_end, now_ms).shown
        return shown

    def watch(self, listen: Listener) -> PresenceWatch:
        """Return a subscription without users. See `PresenceWatch`."""
        return PresenceWatch(self, listen)

    def publish(self, changes: Collection[ChangedPresence]) -> None:
        """Take changed records, and send them to the servers that show the users if others see a difference."""
        for change in changes:
            self.users.receive(change.record)
        self.publisher.add(changes)

    def resync(self) -> None:
        """Watch all users again, and take newer records: frames may have been lost."""
        self._reader.read_soon(self.users)

    def redis_lost(self, is_concerned: Callable[[UserId], bool] = lambda _: True) -> None:
        """Watch users again whose records Redis has lost. Devices are written again by their servers."""
        self.users.keep_lost_devices()
        self._reader.read_soon(filter(is_concerned, self.users))

    def watch_again(self, users: Collection[UserId]) -> None:
        """Watch those of the users again that this process shows: Redis may have lost the watches."""
        self._reader.read_soon(user for user in users if self.users.find(user) is not None)

    async def renew(self) -> None:
        """Watch all users again. Called at intervals of half of WATCH_MS."""
        self.resync()

    # For PresenceWatch

    def join(self, watch: PresenceWatch, users: Iterable[UserId]) -> list[WatchedUser]:
        """Keep users watched for a subscription."""
        joined = [self.users.add(user) for user in dict.fromkeys(users)]
        for watched in joined:
            watched.join(watch)
            self._unused.pop(watched.user, None)
        return joined

    async def load(self, joined: Iterable[WatchedUser]) -> None:
        """Read the records that are missing. Raises StoreError."""
        await self._reader.read([watched.user for watched in joined if watched.record is None])

    def begin(self, watch: PresenceWatch, watched: WatchedUser) -> PresenceState:
        """Return the present state of a user, and let later changes be events of a subscription that has joined."""
        self.users.present_state(watched)
        return watched.begin(watch, self._store.clock.now_ms())

    def leave(self, watch: PresenceWatch, left: Iterable[WatchedUser]) -> Mapping[UserId, PresenceState]:
        """Remove a subscription from users. Return the last states that it got. Idempotent."""
        given = {}
        for watched in left:
            state = watched.leave(watch)
            if state is not None:
                given[watched.user] = state
            if not watched.has_listeners and self.users.find(watched.user) is watched:
                self._unused[watched.user] = None
        if self._unused and self._removing is None:
            self._removing = asyncio.create_task(self._remove_unused())
        return given

    async def _remove_unused(self) -> None:
        """Forget the users without a subscription, once they have been so for a while."""
        try:
            while self._unused:
                unused, self._unused = self._unused, {}
                await asyncio.sleep(self.unwatch_seconds)
                removed = []
                for user in unused:
                    watched = self.users.find(user)
                    if watched is not None and not watched.has_listeners and user not in self._unused:
                        self.users.remove(watched)
                        removed.append(user)
                try:
                    await self._reader.unwatch(removed)
                except StoreError:
                    # The stored watches end by themselves.
                    continue
        finally:
            self._removing = None

    def _read_again(self, user: UserId) -> None:
        self._reader.read_soon((user,))

    def _receive(self, body: Any) -> None:
        """Take records from another server."""
        for form in body:
            if self.users.find(UserId(form["u"])) is not None:
                record = decode_record(form)
                # Frames do not have the devices of INVISIBLE users.
                is_hidden = record.setting.value is PresenceSetting.INVISIBLE
                self.users.receive(record, has_all_devices=not is_hidden)

    def _names_changed(self, users: Collection[UserId] | None) -> None:
        """Read the profiles of users again. None: of all users."""
        self._reader.read_names_soon(
            list(self.users) if users is None else [user for user in users if self.users.find(user) is not None]
        )

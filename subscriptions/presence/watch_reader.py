"""Reads the records and profiles of the users that this process shows, in batches that all who wait share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextvars import Context

import structlog

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.presence.presence_store import PresenceStore
from store.redis.request_scope import RequestScope
from store.users.user_store import UserStore
from subscriptions.presence.watched_users import WatchedUsers

_log = structlog.get_logger()

WATCH_MS = 3_600_000
"""Time for which a watch of a user is stored. It is renewed every half of it."""

USERS_AT_ONCE = 200

_RETRY_SECONDS = 1.0


class WatchReader:
    """Stores which users this process watches. One call at a time, because Redis may execute two in any order."""

    def __init__(
        self,
        server: str,
        store: PresenceStore,
        profiles: UserStore,
        clock: Clock,
        users: WatchedUsers,
        require_shared: Callable[[], None],
    ) -> None:
        """Create a reader for the users of this process. `require_shared` raises Unreachable without Redis."""
        self._server = server
        self._store = store
        self._profiles = profiles
        self._clock = clock
        self._users = users
        self._require_shared = require_shared
        self._lock = asyncio.Lock()
        self._wanted: dict[UserId, asyncio.Future[None] | None] = {}
        """The users to read, with the future of those that somebody waits for."""
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False
        self._stale_names: dict[UserId, None] = {}
        self._naming: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop."""
        await end_tasks(task for task in (self._task, self._naming) if task is not None)

    async def read(self, users: Iterable[UserId]) -> None:
        """Watch users, and read their records and profiles. Raises StoreError."""
        loop = asyncio.get_running_loop()
        futures = []
        for user in users:
            future = self._wanted.get(user)
            if future is None:
                future = self._wanted[user] = loop.create_future()
                # Those who wait may have been cancelled.
                future.add_done_callback(_retrieve)
            futures.append(future)
        if not futures:
            return
        self._start()
        for future in futures:
            await asyncio.shield(future)

    def read_soon(self, users: Iterable[UserId]) -> None:
        """Watch users again, and take their newer records and profiles. Repeated until it succeeds."""
        for user in users:
            self._wanted.setdefault(user, None)
        self._start()

    def read_names_soon(self, users: Iterable[UserId]) -> None:
        """Read profiles again. Repeated until it succeeds."""
        self._stale_names.update(dict.fromkeys(users))
        if self._stale_names and self._naming is None:
            self._naming = asyncio.get_running_loop().create_task(self._read_names(), context=Context())

    async def unwatch(self, users: Collection[UserId]) -> None:
        """Note that this process does not show users any more, unless it does so again. Raises StoreError."""
        names = list(users)
        for start in range(0, len(names), USERS_AT_ONCE):
            async with self._lock:
                unused = [user for user in names[start : start + USERS_AT_ONCE] if self._users.find(user) is None]
                if unused:
                    await self._store.unwatch(unused, self._server)

    def _start(self) -> None:
        if self._wanted and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    async def _run(self) -> None:
        try:
            while self._wanted:
                batch = {user: self._wanted.pop(user) for user in list(self._wanted)[:USERS_AT_ONCE]}
                try:
                    await self._read_batch(list(batch))
                except Exception as error:
                    self._note_failure(error)
                    _settle(batch.values(), error)
                    # Those who waited may have left. The others are forgotten soon.
                    for user in batch:
                        if self._users.find(user) is not None:
                            self._wanted.setdefault(user, None)
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    self._is_failing = False
                    _settle(batch.values(), None)
        finally:
            self._task = None

    def _note_failure(self, error: Exception) -> None:
        """Log the first of consecutive failures."""
        if not isinstance(error, StoreError):
            _log.error("presence_not_read", exc_info=error)
        elif not self._is_failing:
            _log.warning("presence_not_read_yet", reason=str(error))
        self._is_failing = True

    async def _read_batch(self, users: Collection[UserId]) -> None:
        # The reads are of no single user, and of no request.
        with RequestScope():
            self._require_shared()
            async with self._lock:
                shown = [user for user in users if self._users.find(user) is not None]
                records, profiles = await asyncio.gather(
                    self._store.watch(shown, self._server, self._clock.now_ms() + WATCH_MS),
                    self._profiles.list_shown(shown),
                )
        for record in records.values():
            self._users.receive(record)
        self._users.rename(profiles)

    async def _read_names(self) -> None:
        try:
            while self._stale_names:
                batch = list(self._stale_names)[:USERS_AT_ONCE]
                for user in batch:
                    del self._stale_names[user]
                try:
                    with RequestScope():
                        self._users.rename(await self._profiles.list_shown(batch))
                except Exception as error:
                    self._note_failure(error)
                    self._stale_names |= dict.fromkeys(batch)
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._naming = None


def _settle(futures: Iterable[asyncio.Future[None] | None], error: Exception | None) -> None:
    for future in futures:
        if future is not None and not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


def _retrieve(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()

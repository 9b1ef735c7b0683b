"""Writes the devices of this process to their users' records: gathered, and repeated until it succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from itertools import islice

import structlog

from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.presence.presence_record import PresenceRecord
from store.presence.presence_store import ChangedPresence, DeviceChange, PresenceStore

_log = structlog.get_logger()

GATHER_SECONDS = 0.05
"""Time between two writes, for which changes are gathered. The first change is written at once.

So a departure is written as soon as a setting is (ADR 81).
"""

USERS_AT_ONCE = 500
"""Users whose changes are written in one round trip."""

_PAUSE_SECONDS = (0.1, 2.0)
"""Pauses after failures: the first, and the longest."""


class PresenceWriter:
    """Writes what has changed. It remembers only which devices changed: their present state is read when it writes.

    So a write that failed is repeated without a queue, and memory is bounded by the number of devices. One write is
    under way at a time, so that an earlier state never replaces a later one.
    """

    def __init__(
        self,
        presence: PresenceStore,
        require_redis: Callable[[], None],
        make_change: Callable[[UserId, set[str]], DeviceChange],
        on_written: Callable[[Sequence[ChangedPresence]], None],
    ) -> None:
        """Create the writer.

        Args:
            presence: The records.
            require_redis: Raises StoreError while what is written would reach no other server.
            make_change: Returns the present state of devices of a user.
            on_written: Called with the records after a write. It must not block.
        """
        self._presence = presence
        self._require_redis = require_redis
        self._make_change = make_change
        self._on_written = on_written
        self._changed: dict[UserId, set[str]] = {}
        self._waiting: dict[UserId, asyncio.Future[PresenceRecord]] = {}
        self._is_urgent = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """The number of users whose devices are not written yet."""
        return len(self._changed)

    def has_pending(self, user: UserId) -> bool:
        """Return whether a change of a user's devices is not written yet."""
        return user in self._changed

    def mark(self, user: UserId, device: str) -> None:
        """Note that a device has changed. It is written soon."""
        self._changed.setdefault(user, set()).add(device)
        if self._task is None:
            # The changes of several users are written together: it is not the work of the present request.
            self._task = asyncio.get_running_loop().create_task(self._write_all(), context=Context())

    async def write_now(self, user: UserId, device: str) -> PresenceRecord:
        """Write a device at once, and return the record of its user after that. Raises StoreError: it is repeated."""
        self.mark(user, device)
        waiting = self._waiting.get(user)
        if waiting is None:
            waiting = self._waiting[user] = asyncio.get_running_loop().create_future()
            # Nobody may be there any more to see a failure.
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._is_urgent.set()
        return await asyncio.shield(waiting)

    async def close(self) -> None:
        """Stop. What is not written yet is dropped."""
        if self._task is not None:
            await end_tasks([self._task])
        for future in self._waiting.values():
            future.cancel()

    async def _write_all(self) -> None:
        pause, longest = _PAUSE_SECONDS
        try:
            while self._changed:
                self._is_urgent.clear()
                if await self._write_some():
                    pause = _PAUSE_SECONDS[0]
                    with suppress(TimeoutError):
                        async with asyncio.timeout(GATHER_SECONDS):
                            await self._is_urgent.wait()
                else:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, longest)
        finally:
            self._task = None

    async def _write_some(self) -> bool:
        """Write the changes of some users. Return whether it succeeded."""
        users = list(islice(self._changed, USERS_AT_ONCE))
        taken = {user: self._changed.pop(user) for user in users}
        waiting = {user: self._waiting.pop(user) for user in users if user in self._waiting}
        try:
            self._require_redis()
            written = await self._presence.change_devices(
                [self._make_change(user, devices) for user, devices in taken.items()]
            )
        except asyncio.CancelledError:
            self._waiting |= waiting
            raise
        except Exception as error:
            for user, devices in taken.items():
                self._changed.setdefault(user, set()).update(devices)
            for future in waiting.values():
                future.set_exception(error)
            if isinstance(error, StoreError):
                _log.info("presence_not_written", users=len(taken), reason=str(error))
            else:
                _log.exception("presence_not_written")
            return False
        for change in written:
            if change.record.user in waiting:
                waiting.pop(change.record.user).set_result(change.record)
        self._on_written(written)
        return True

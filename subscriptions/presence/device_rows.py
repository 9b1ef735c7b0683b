"""Rows of the devices that connect to this process: written behind the connections, few times (ADR 82)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import Context
from itertools import islice

import structlog

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.devices.device_store import DeviceKey, DeviceSighting, DeviceStore
from subscriptions.presence.local_device import LocalDevice

_log = structlog.get_logger()

SEEN_MS = 3_600_000
"""Least time between two writes about a device that is connected, unless its kind changes."""

LEFT_MS = 60_000
"""A departure is written if the row is older by this time."""

_GATHER_SECONDS = 0.05
_AT_ONCE = 500
_MOST_WAITING = 50_000
"""Devices whose rows wait while MongoDB cannot be reached. Further ones are left out until they connect again."""

_PAUSE_SECONDS = (0.1, 5.0)


class DeviceRows:
    """Makes the row of a device after its first connection, and stores when it was last connected.

    Most connections cost a read that is shared with others, and no write. What waits is the present state of devices,
    so it is repeated until it succeeds.
    """

    def __init__(
        self,
        devices: DeviceStore,
        clock: Clock,
        list_connected: Callable[[Collection[UserId]], Awaitable[dict[UserId, set[str]]]],
    ) -> None:
        """list_connected: returns the names of the devices of users that are connected to any server."""
        self._devices = devices
        self._clock = clock
        self._list_connected = list_connected
        self._waiting: dict[DeviceKey, LocalDevice] = {}
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """The number of devices whose rows wait."""
        return len(self._waiting)

    def note(self, device: LocalDevice) -> None:
        """Note that a device has connected, departed, or is still connected. Cheap if its row is known to be right."""
        if not device.is_named or device.is_removed or not self._has_news(device):
            return
        if len(self._waiting) >= _MOST_WAITING:
            return
        self._waiting[DeviceKey(device.user, device.id)] = device
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    async def forget(self, key: DeviceKey) -> None:
        """Write nothing more about the present connections of a device: its row is about to be deleted."""
        self._waiting.pop(key, None)
        # A write that is repeated leaves out removed devices: see `_write`.
        async with self._writing:
            pass

    async def close(self) -> None:
        """Stop. What waits is dropped: it is a hint."""
        if self._task is not None:
            await end_tasks([self._task])

    def _has_news(self, device: LocalDevice) -> bool:
        if device.row_seen_ms is None:
            return True
        if device.gone_at_ms is not None:
            return device.gone_at_ms - device.row_seen_ms >= LEFT_MS
        return device.row_type is not device.type or self._clock.now_ms() - device.row_seen_ms >= SEEN_MS

    async def _run(self) -> None:
        pause, longest = _PAUSE_SECONDS
        try:
            while self._waiting:
                await asyncio.sleep(_GATHER_SECONDS)
                keys = list(islice(self._waiting, _AT_ONCE))
                try:
                    async with self._writing:
                        taken = {key: self._waiting.pop(key) for key in keys if key in self._waiting}
                        await self._write(taken)
                    pause = _PAUSE_SECONDS[0]
                    continue
                except StoreError as error:
                    _log.info("device_rows_not_written", devices=len(taken), reason=str(error))
                except Exception:
                    _log.exception("device_rows_not_written")
                self._waiting = taken | self._waiting
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
        finally:
            self._task = None

    async def _write(self, waiting: dict[DeviceKey, LocalDevice]) -> None:
        # A device may be removed while its write is repeated.
        devices = {key: device for key, device in waiting.items() if not device.is_removed}
        unread = {key: device for key, device in devices.items() if device.row_seen_ms is None}
        if unread:
            rows = await self._devices.find_each(list(unread))
            for key, device in unread.items():
                row = rows.get(key)
                device.row_seen_ms, device.row_type = (row.seen_ms, row.type) if row is not None else (0, None)
        changed = [device for device in devices.values() if self._has_news(device)]
        if not changed:
            return
        new = [device for device in changed if device.row_type is None]
        now = self._clock.now_ms()
        seen = [
            DeviceSighting(
                DeviceKey(device.user, device.id),
                device.type,
                now if device.gone_at_ms is None else device.gone_at_ms,
                makes_row=device.row_type is None,
            )
            for device in changed
        ]
        await self._devices.note_seen(seen)
        for device, stored in zip(changed, seen, strict=True):
            device.row_seen_ms, device.row_type = stored.seen_ms, stored.type
        await self._drop_surplus(new)

    async def _drop_surplus(self, new: Sequence[LocalDevice]) -> None:
        """Keep the number of rows of users with a new device in its bounds."""
        if not new:
            return
        users = {device.user for device in new}
        kept = await self._list_connected(users)
        for device in new:
            kept.setdefault(device.user, set()).add(device.id)
        await self._devices.drop_surplus(kept)

"""The devices that are connected to this process (ADR 80, 82)."""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from store.base.clock import Clock
from store.base.ids import UserId
from store.devices.device_store import DeviceKey, DeviceStore
from store.presence.presence_record import Activity, DeviceType, PresenceRecord
from store.presence.presence_store import ChangedPresence, DeviceChange, PresenceStore
from store.presence.shown_presence import ANNOUNCED_AFTER_MS, KEPT_AFTER_MS, FindEnd
from subscriptions.presence.device_rows import DeviceRows
from subscriptions.presence.last_seen import LastSeen
from subscriptions.presence.live_servers import SILENT_AFTER_MS
from subscriptions.presence.local_device import Departure, LocalDevice
from subscriptions.presence.own_settings import OwnSettings
from subscriptions.presence.presence_writer import PresenceWriter
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.server_calls import ServerGone

IDLE_AFTER_MS = 300_000
"""A device that was not used for this time is idle."""

REPORT_MS = 15_000
"""Time in which one report of a client counts, unless it changes something."""

REWRITE_MS = 1_800_000
"""Time in which the devices of all users are written again. Records expire four times as late."""

AUTOMATIC_MUTATIONS = frozenset({"ackDelivered", "ackManyDelivered", "renewAuth", "reportActivity"})
"""Mutations that clients send without their user: they are no use of the device."""

_REMOVE = "remove_device"

_NAMELESS = "\x1f"
"""Begins the names of devices without an id. It is not printable, so no client can choose such a name."""


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device as its client names it. id: None if the client gave none."""

    id: str | None = None
    type: DeviceType = DeviceType.WEB


class DeviceConnection:
    """One connection of a device. Another connection of the same user with the same id is of the same device."""

    __slots__ = ("_devices", "local")

    def __init__(self, devices: ConnectedDevices, local: LocalDevice) -> None:
        self._devices = devices
        self.local = local

    @property
    def user(self) -> UserId:
        """The user."""
        return self.local.user

    @property
    def device(self) -> str:
        """The client's id of the device, or the name of this connection if it gave none."""
        return self.local.id

    @property
    def type(self) -> DeviceType:
        """The kind of the device."""
        return self.local.type

    @property
    def is_named(self) -> bool:
        """True if the client gave the id, so the device has a row."""
        return self.local.is_named

    def note_use(self, mutation: str) -> None:
        """Note a mutation over the connection, by the name of its root field. The device is being used."""
        if mutation not in AUTOMATIC_MUTATIONS:
            self._devices.note_use(self)

    def end(self, silent_ms: int = 0) -> None:
        """Note that the connection has ended. Idempotent. silent_ms: time since the peer was last heard from."""
        self._devices.disconnect(self, silent_ms)


class ConnectedDevices:
    """Writes the devices of this process's connections to their users' records, and finds out which are idle.

    Changes are gathered for a moment and written for all users in one round trip. After a loss of Redis, and every half
    hour, all of them are written again. Writes that fail are repeated. No device has a timer: `check` is called once a
    second and looks only at the devices that are due.
    """

    def __init__(
        self,
        server: str,
        presence: PresenceStore,
        clock: Clock,
        rows: DeviceStore,
        bus: Bus,
        find_end: FindEnd,
        require_redis: Callable[[], None],
        publish: Callable[[Collection[ChangedPresence]], None],
    ) -> None:
        """Start without devices.

        Args:
            server: The name of this server.
            presence: The records.
            clock: Its time decides what is idle and what has departed.
            rows: The rows of devices.
            bus: Carries removals, and changed settings of the users of these devices.
            find_end: Says which servers have ended.
            require_redis: Raises StoreError while what is written would reach no other server.
            publish: Gets the changed records after each write.
        """
        self._server = server
        self._presence = presence
        self._clock = clock
        self._settings = OwnSettings(server, bus)
        self._calls = bus.calls
        self._find_end = find_end
        self._publish = publish
        self._rows = DeviceRows(rows, clock, self.list_connected)
        self._writer = PresenceWriter(presence, require_redis, self._make_change, self._note_written)
        self._users: dict[UserId, dict[str, LocalDevice]] = {}
        self._names = itertools.count(1)
        self._in_use: OrderedDict[LocalDevice, None] = OrderedDict()
        """The devices that are connected and not idle, the one used longest ago first."""
        self._leaving: deque[Departure] = deque()
        """Departures that are not announced yet, the earliest first."""
        self._left: deque[Departure] = deque()
        """Announced departures of devices that are still in their users' records, the earliest first."""
        self._last_seen = LastSeen(presence)
        self._written: OrderedDict[UserId, int] = OrderedDict()
        """When the devices of each user were last written (ms), the longest ago first."""
        self._is_ending = False
        self._on_connected: list[Callable[[UserId, str], None]] = []
        self._on_removed: list[Callable[[UserId, str, int], None]] = []
        bus.calls.answer_kind(_REMOVE, self._answer_removal)
        # Frames about changed settings may have been lost.
        bus.on_subscribed(self.resync)

    def connect(self, user: UserId, given: GivenDevice, close: Callable[[], None]) -> DeviceConnection:
        """Note a new connection. `close` ends it, if its device is removed. No round trip."""
        name = given.id if given.id is not None else f"{_NAMELESS}{self._server} {next(self._names)}"
        devices = self._users.setdefault(user, {})
        device, now = devices.get(name), self._clock.now_ms()
        if device is None or device.is_removed or device.has_left(now):
            device = devices[name] = LocalDevice(user, name, given.type, now, is_named=given.id is not None)
            self._in_use[device] = None
        elif device.gone_at_ms is not None:
            device.gone_at_ms = None
            if not device.is_idle:
                self._in_use[device] = None
                self._note_used(device, now)
        device.type = given.type
        connection = DeviceConnection(self, device)
        if device.is_named and not device.closers:
            for call in self._on_connected:
                call(user, name)
        self._settings.add(user)
        device.closers[connection] = close
        self._writer.mark(user, name)
        self._rows.note(device)
        return connection

    def disconnect(self, connection: DeviceConnection, silent_ms: int = 0) -> None:
        """Note the end of a connection. With the last one of a device here, the device departs. Idempotent.

        silent_ms: time since the peer was last heard from. A device that is silent departs after SILENT_AFTER_MS.
        """
        device = connection.local
        if device.closers.pop(connection, None) is None or device.closers:
            return
        now = self._clock.now_ms()
        device.gone_at_ms = now - max(0, silent_ms - SILENT_AFTER_MS)
        self._in_use.pop(device, None)
        self._leaving.append(Departure(device, device.gone_at_ms))
        if not self._is_ending:
            self._writer.mark(device.user, device.id)
        if self.has_device(device.user, device.id):
            # It was removed, and has connected again before this connection had ended.
            return
        for call in self._on_removed:
            call(device.user, device.id, now - silent_ms)

    def note_use(self, connection: DeviceConnection) -> None:
        """Note that a device is being used: a mutation over its connection. Cheap: called for each mutation."""
        device = self._find(connection)
        if device is not None:
            self._note_used(device, self._clock.now_ms())

    async def report_activity(
        self, connection: DeviceConnection, *, is_active: bool, activities: Sequence[Activity] | None
    ) -> PresenceRecord:
        """Note what a client reports. Return the record after it. activities: None leaves them as they are.

        Counts at most once in 15 s, a change always. Raises StoreError.
        """
        device, now = self._find(connection), self._clock.now_ms()
        is_changed = False
        if device is not None:
            is_changed = is_active == device.is_idle
            if not is_active:
                self._note_idle(device)
            elif is_changed or now - device.used_at_ms >= REPORT_MS:
                self._note_used(device, now)
            if activities is not None and device.activities != tuple(activities):
                device.activities = tuple(activities)
                is_changed = True
        if is_changed:
            return await self._writer.write_now(connection.user, connection.device)
        return (await self._presence.read([connection.user]))[connection.user]

    def is_connected(self, user: UserId) -> bool:
        """Return whether a device of a user is connected to this process."""
        return any(device.closers for device in self._users.get(user, {}).values())

    def own_record(self, user: UserId) -> PresenceRecord | None:
        """Return a user's record with the devices on this process alone; None if the setting was not read yet."""
        record = self._settings.find(user)
        if record is None:
            return None
        devices = tuple(device.presence(self._server) for device in self._users.get(user, {}).values())
        departed = tuple(device for device in record.departed if device.server == self._server)
        return PresenceRecord(user, devices, record.setting, departed=departed)

    def on_setting(self, call: Callable[[Collection[UserId]], None]) -> None:
        """Make `call` with users whose settings were changed. It must not block."""
        self._settings.on_change(call)

    def announce(self, changes: Collection[ChangedPresence]) -> None:
        """Send changed settings to all servers with devices of the users. Called after each change that a user makes.

        No round trip. After lost frames the servers read the settings again.
        """
        self._settings.announce(changes)

    def on_connected(self, call: Callable[[UserId, str], None]) -> None:
        """Make `call` with a device that has an id, when it has connected to this process. It must not block."""
        self._on_connected.append(call)

    def on_removed(self, call: Callable[[UserId, str, int], None]) -> None:
        """Make `call` when a device of this process has departed (ADR 83 ends its voice state). It must not block.

        It also gets the time (ms) at which the device was last heard from.
        """
        self._on_removed.append(call)

    def has_device(self, user: UserId, name: str) -> bool:
        """Return whether a device of a user is connected to this process."""
        device = self._users.get(user, {}).get(name)
        return device is not None and bool(device.closers)

    async def list_connected(self, users: Collection[UserId]) -> dict[UserId, set[str]]:
        """Return the names of the devices of up to 200 users that are connected to any server. Raises StoreError."""
        records = await self._presence.read(users)
        return {
            user: {
                device.device
                for device in record.devices
                if device.gone_at_ms is None and self._find_end(device.server) is None
            }
            for user, record in records.items()
        }

    async def remove(self, user: UserId, device: str) -> None:
        """Close the connections of a device on all servers, with 4401. Raises StoreError.

        After that its present connections write no row any more.
        """
        record = (await self._presence.read([user]))[user]
        servers = {each.server for each in record.devices if each.device == device} - {self._server}
        await asyncio.gather(
            self._remove_here(user, device), *(self._ask_to_remove(server, user, device) for server in servers)
        )

    async def _ask_to_remove(self, server: str, user: UserId, device: str) -> None:
        with suppress(ServerGone):
            await self._calls.ask(server, {_REMOVE: [user, device]})

    async def _answer_removal(self, question: dict[str, Any]) -> dict[str, Any]:
        user, device = question[_REMOVE]
        await self._remove_here(UserId(user), device)
        return {}

    async def _remove_here(self, user: UserId, name: str) -> None:
        device = self._users.get(user, {}).get(name)
        if device is not None:
            device.is_removed = True
            for close in list(device.closers.values()):
                close()
        await self._rows.forget(DeviceKey(user, name))

    async def check(self) -> None:
        """Find the devices that have become idle, and those that departed a while ago. Called once a second.

        Raises StoreError if the time of a departure cannot be stored. It is repeated with the next call.
        """
        now = self._clock.now_ms()
        while self._in_use:
            device = next(iter(self._in_use))
            if now - device.used_at_ms < IDLE_AFTER_MS:
                break
            self._note_idle(device)
            self._writer.mark(device.user, device.id)
        while self._leaving and now - self._leaving[0].at_ms >= ANNOUNCED_AFTER_MS:
            departure = self._leaving.popleft()
            if departure.is_final:
                self._left.append(departure)
                self._note_left(departure.device)
        while self._left and now - self._left[0].at_ms >= KEPT_AFTER_MS:
            device = self._left.popleft().device
            devices = self._users.get(device.user, {})
            if devices.get(device.id) is device:
                del devices[device.id]
                self._writer.mark(device.user, device.id)
        await self._last_seen.store()

    def _note_left(self, device: LocalDevice) -> None:
        """Note when a device was last there, now that its departure is announced."""
        self._rows.note(device)
        if not self.is_connected(device.user):
            self._last_seen.note(device.user)

    def rewrite_some(self, interval_ms: int) -> None:
        """Write the devices of some users again. Called at an interval, it reaches all users in REWRITE_MS."""
        count = -(-len(self._written) * interval_ms // REWRITE_MS)
        latest = self._clock.now_ms() - REWRITE_MS // 2
        for user, written_ms in list(itertools.islice(self._written.items(), count)):
            if written_ms > latest:
                break
            self.rewrite(user)

    def resync(self, is_concerned: Callable[[UserId], bool] = lambda _: True) -> None:
        """Write the devices of users again, after Redis has lost them or frames about their users."""
        for user in self._users:
            if is_concerned(user):
                self.rewrite(user)

    async def begin_shutdown(self) -> None:
        """Write no departures from now on: all devices depart when the end of this server is reported."""
        self._is_ending = True

    async def close(self) -> None:
        """Stop. Nothing is written for each device: the end of the server is reported (`LiveServers.close`)."""
        await self._writer.close()
        await self._rows.close()

    def _find(self, connection: DeviceConnection) -> LocalDevice | None:
        """Return the device of a connection; None if the connection has ended."""
        return connection.local if connection in connection.local.closers else None

    def _note_used(self, device: LocalDevice, now_ms: int) -> None:
        device.used_at_ms = now_ms
        if device.is_idle:
            device.is_idle = False
            self._in_use[device] = None
            self._writer.mark(device.user, device.id)
        else:
            self._in_use.move_to_end(device)

    def _note_idle(self, device: LocalDevice) -> None:
        device.is_idle = True
        self._in_use.pop(device, None)

    def rewrite(self, user: UserId) -> None:
        """Write the devices of a user here again: Redis may have lost them."""
        for device in self._users.get(user, {}).values():
            self._writer.mark(user, device.id)
            if device.closers:
                self._rows.note(device)

    def _make_change(self, user: UserId, names: set[str]) -> DeviceChange:
        devices = self._users.get(user, {})
        present = [devices[name].presence(self._server) for name in names if name in devices]
        return DeviceChange(user, self._server, present, [name for name in names if name not in devices])

    def _note_written(self, changes: Sequence[ChangedPresence]) -> None:
        now = self._clock.now_ms()
        for change in changes:
            user = change.record.user
            if self._users.get(user):
                self._settings.note(change.record)
                self._written[user] = now
                self._written.move_to_end(user)
            elif not self._writer.has_pending(user):
                self._users.pop(user, None)
                self._settings.drop(user)
                self._written.pop(user, None)
        self._publish(changes)

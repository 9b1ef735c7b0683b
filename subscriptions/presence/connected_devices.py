"""The devices that are connected to this process (ADR 80, 82)."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from store.base.clock import Clock
from store.base.ids import UserId
from store.presence.presence_record import Activity, DeviceType, PresenceRecord
from store.presence.presence_store import ChangedPresence, DeviceChange, PresenceStore
from store.presence.shown_presence import ANNOUNCED_AFTER_MS
from subscriptions.presence.local_device import LocalDevice
from subscriptions.presence.own_settings import OwnSettings
from subscriptions.presence.presence_writer import PresenceWriter

IDLE_AFTER_MS = 300_000
"""A device that was not used for this time is idle."""

REPORT_MS = 15_000
"""Time in which one report of a client counts, unless it changes something."""

KEPT_MS = 60_000
"""Time after which a device that has departed is removed from its user's record."""

REWRITE_MS = 1_800_000
"""Time in which the devices of all users are written again. Records expire four times as late."""

AUTOMATIC_MUTATIONS = frozenset({"ackDelivered", "renewAuth", "reportActivity"})
"""Mutations that clients send without their user: they are no use of the device."""

_NAMELESS = "\x1f"
"""Begins the names of devices without an id. It is not printable, so no client can choose such a name."""


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device as its client names it. id: None if the client gave none."""

    id: str | None = None
    type: DeviceType = DeviceType.WEB


class DeviceConnection:
    """One connection of a device. Another connection of the same user with the same id is of the same device."""

    __slots__ = ("_devices", "device", "is_named", "type", "user")

    def __init__(
        self, devices: ConnectedDevices, user: UserId, device: str, type: DeviceType, *, is_named: bool
    ) -> None:
        """is_named: the client gave the id, so the device has a row."""
        self._devices = devices
        self.user = user
        self.device = device
        self.type = type
        self.is_named = is_named

    def note_use(self, mutation: str) -> None:
        """Note a mutation over the connection, by the name of its root field. The device is being used."""
        if mutation not in AUTOMATIC_MUTATIONS:
            self._devices.note_use(self)

    def end(self, silent_ms: int = 0) -> None:
        """Note that the connection has ended. Idempotent. silent_ms: time since the peer was last heard from."""
        self._devices.disconnect(self, silent_ms)


class _Departure(NamedTuple):
    """A device, and when the last of its connections ended."""

    device: LocalDevice
    at_ms: int

    @property
    def is_final(self) -> bool:
        """True if the device has not connected to this process again."""
        return self.device.gone_at_ms == self.at_ms


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
        settings: OwnSettings,
        require_redis: Callable[[], None],
        publish: Callable[[Collection[ChangedPresence]], None],
    ) -> None:
        """Start without devices.

        Args:
            server: The name of this server.
            presence: The records.
            clock: Its time decides what is idle and what has departed.
            settings: Keeps the settings of the users of these devices.
            require_redis: Raises StoreError while what is written would reach no other server.
            publish: Gets the changed records after each write.
        """
        self._server = server
        self._presence = presence
        self._clock = clock
        self._settings = settings
        self._publish = publish
        self._writer = PresenceWriter(presence, require_redis, self._make_change, self._note_written)
        self._users: dict[UserId, dict[str, LocalDevice]] = {}
        self._names = itertools.count(1)
        self._in_use: OrderedDict[LocalDevice, None] = OrderedDict()
        """The devices that are connected and not idle, the one used longest ago first."""
        self._departed: deque[_Departure] = deque()
        """Devices without a connection, the earliest departure first, until they are removed from their records."""
        self._written: OrderedDict[UserId, int] = OrderedDict()
        """When the devices of each user were last written (ms), the longest ago first."""
        self._on_connected: list[Callable[[UserId, str], None]] = []
        self._on_removed: list[Callable[[UserId, str, int], None]] = []

    def connect(self, user: UserId, given: GivenDevice, close: Callable[[], None]) -> DeviceConnection:
        """Note a new connection. `close` ends it, if its device is removed. No round trip."""
        name = given.id if given.id is not None else f"{_NAMELESS}{self._server} {next(self._names)}"
        connection = DeviceConnection(self, user, name, given.type, is_named=given.id is not None)
        devices = self._users.setdefault(user, {})
        device, now = devices.get(name), self._clock.now_ms()
        if device is None or (device.gone_at_ms is not None and now - device.gone_at_ms >= ANNOUNCED_AFTER_MS):
            device = devices[name] = LocalDevice(user, name, given.type, now)
            self._in_use[device] = None
        elif device.gone_at_ms is not None:
            device.gone_at_ms = None
            if not device.is_idle:
                self._in_use[device] = None
                self._note_used(device, now)
        device.type = given.type
        if connection.is_named and not device.closers:
            for call in self._on_connected:
                call(user, name)
        self._settings.add(user)
        device.closers[connection] = close
        self._writer.mark(user, name)
        return connection

    def disconnect(self, connection: DeviceConnection, silent_ms: int = 0) -> None:
        """Note the end of a connection. With the last one of a device here, the device departs. Idempotent.

        silent_ms: time since the peer was last heard from.
        """
        device = self._find(connection)
        if device is None:
            return
        del device.closers[connection]
        if device.closers:
            return
        device.gone_at_ms = self._clock.now_ms()
        self._in_use.pop(device, None)
        self._departed.append(_Departure(device, device.gone_at_ms))
        self._writer.mark(device.user, device.id)
        for call in self._on_removed:
            call(device.user, device.id, device.gone_at_ms - silent_ms)

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

    def is_hidden(self, user: UserId) -> bool:
        """Return whether a user with a connection here is INVISIBLE, by the newest record that this process has.

        True until the first record is read: nothing about a user is shown by mistake.
        """
        return self._settings.is_hidden(user)

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

    def find_devices(self, user: UserId) -> Iterator[str]:
        """Return the names of the devices of a user that are connected to this process."""
        return (device.id for device in self._users.get(user, {}).values() if device.closers)

    def close_device(self, user: UserId, name: str) -> None:
        """End the connections of a device to this process."""
        device = self._users.get(user, {}).get(name)
        for close in list(device.closers.values()) if device is not None else ():
            close()

    def check(self) -> None:
        """Find the devices that have become idle, and those that departed a while ago. Called once a second."""
        now = self._clock.now_ms()
        while self._in_use:
            device = next(iter(self._in_use))
            if now - device.used_at_ms < IDLE_AFTER_MS:
                break
            self._note_idle(device)
            self._writer.mark(device.user, device.id)
        while self._departed and now - self._departed[0].at_ms >= KEPT_MS:
            departure = self._departed.popleft()
            device, devices = departure.device, self._users.get(departure.device.user, {})
            if departure.is_final and devices.get(device.id) is device:
                del devices[device.id]
                self._writer.mark(device.user, device.id)

    def rewrite_some(self, interval_ms: int) -> None:
        """Write the devices of some users again. Called at an interval, it reaches all users in REWRITE_MS."""
        count = -(-len(self._written) * interval_ms // REWRITE_MS)
        latest = self._clock.now_ms() - REWRITE_MS // 2
        for user, written_ms in list(itertools.islice(self._written.items(), count)):
            if written_ms > latest:
                break
            self._rewrite(user)

    def resync(self) -> None:
        """Write all devices again: Redis has lost them, or frames about their users."""
        self._settings.forget()
        for user in self._users:
            self._rewrite(user)

    async def close(self) -> None:
        """Stop. Nothing is written for each device: the end of the server is reported (`LiveServers.close`)."""
        await self._writer.close()

    def _find(self, connection: DeviceConnection) -> LocalDevice | None:
        """Return the device of a connection; None if the connection has ended."""
        device = self._users.get(connection.user, {}).get(connection.device)
        return device if device is not None and connection in device.closers else None

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

    def _rewrite(self, user: UserId) -> None:
        for name in self._users.get(user, ()):
            self._writer.mark(user, name)

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

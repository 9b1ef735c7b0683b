"""The devices that are connected to this process (ADR 80, 82)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from store.base.ids import UserId
from store.presence.presence_record import Activity, DeviceType, PresenceRecord


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device as its client names it. id: None if the client gave none."""

    id: str | None
    type: DeviceType


class DeviceConnection:
    """One connection of a device. Another connection of the same user with the same id is of the same device."""

    __slots__ = ("device", "is_named", "type", "user")

    def __init__(self, user: UserId, device: str, type: DeviceType, *, is_named: bool) -> None:
        """is_named: the client gave the id, so the device has a row."""
        self.user = user
        self.device = device
        self.type = type
        self.is_named = is_named


class ConnectedDevices:
    """Writes the devices of this process's connections to their users' records, and finds out which are idle.

    Changes are gathered for a moment and written for all users in one round trip. After a loss of Redis, and every half
    hour, all of them are written again. Writes that fail are repeated.
    """

    def connect(self, user: UserId, given: GivenDevice, close: Callable[[], None]) -> DeviceConnection:
        """Note a new connection. `close` ends it, if its device is removed. No round trip."""
        raise NotImplementedError

    def disconnect(self, connection: DeviceConnection) -> None:
        """Note the end of a connection. With the last one of a device here, the device departs. Idempotent."""
        raise NotImplementedError

    def note_use(self, connection: DeviceConnection) -> None:
        """Note that a device is being used: a mutation over its connection. Cheap: called for each mutation."""
        raise NotImplementedError

    async def report_activity(
        self, connection: DeviceConnection, *, is_active: bool, activities: Sequence[Activity] | None
    ) -> PresenceRecord:
        """Note what a client reports. Return the record after it. activities: None leaves them as they are.

        Counts at most once in 15 s, a change always. Raises StoreError.
        """
        raise NotImplementedError

    def is_connected(self, user: UserId) -> bool:
        """Return whether a device of a user is connected to this process."""
        raise NotImplementedError

    def is_hidden(self, user: UserId) -> bool:
        """Return whether a user with a connection here is INVISIBLE, by the newest record that this process has."""
        raise NotImplementedError

    def on_removed(self, call: Callable[[UserId, str], None]) -> None:
        """Make `call` when a device of this process has departed (ADR 83 ends its voice state). It must not block."""
        raise NotImplementedError

    async def remove(self, user: UserId, device: str) -> None:
        """Close the connections of a device on all servers, with 4401. Raises StoreError."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop. Nothing is written for each device: the end of the server is reported (`LiveServers.close`)."""
        raise NotImplementedError

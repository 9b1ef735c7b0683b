"""A device that is connected to this process, or was a moment ago."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from store.base.ids import UserId
from store.presence.presence_record import Activity, DevicePresence, DeviceType

if TYPE_CHECKING:
    from subscriptions.presence.connected_devices import DeviceConnection


class LocalDevice:
    """The connections of one device of a user to this process, and what its client reported.

    Attributes:
        user: The user.
        id: The client's id of the device, or a name of one connection that gave no id.
        type: Its kind.
        closers: Its open connections, each with the call that ends it.
        since_ms: When the first of the connections began.
        used_at_ms: When it was last used. Connecting counts as use.
        is_idle: It was not used for a while, or its client said so.
        gone_at_ms: When the last of the connections ended; None while there is one.
        activities: What its client reported.
    """

    __slots__ = ("activities", "closers", "gone_at_ms", "id", "is_idle", "since_ms", "type", "used_at_ms", "user")

    def __init__(self, user: UserId, id: str, type: DeviceType, now_ms: int) -> None:
        self.user = user
        self.id = id
        self.type = type
        self.closers: dict[DeviceConnection, Callable[[], None]] = {}
        self.since_ms = now_ms
        self.used_at_ms = now_ms
        self.is_idle = False
        self.gone_at_ms: int | None = None
        self.activities: tuple[Activity, ...] = ()

    @property
    def seen_ms(self) -> int | None:
        """When it was last there: at its last use if it is idle, else when it departed. None: it is there, and used."""
        return self.used_at_ms if self.is_idle else self.gone_at_ms

    def presence(self, server: str) -> DevicePresence:
        """Return the device as its user's record has it."""
        idle_since = self.used_at_ms if self.is_idle else None
        return DevicePresence(server, self.id, self.type, self.since_ms, idle_since, self.gone_at_ms, self.activities)

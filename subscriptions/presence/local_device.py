"""A device that is connected to this process, or was a moment ago."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from store.base.ids import UserId
from store.presence.presence_record import Activity, DevicePresence, DeviceType
from store.presence.shown_presence import ANNOUNCED_AFTER_MS

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
        is_named: Its client gave the id, so it has a row.
        is_removed: Its user has removed it, so its row is gone and its connections end.
        row_seen_ms: When its row says that it was last connected; None: the row was not read.
        row_type: The kind that its row says; None: it has no row, or the row was not read.
    """

    __slots__ = (
        "activities",
        "closers",
        "gone_at_ms",
        "id",
        "is_idle",
        "is_named",
        "is_removed",
        "row_seen_ms",
        "row_type",
        "since_ms",
        "type",
        "used_at_ms",
        "user",
    )

    def __init__(self, user: UserId, id: str, type: DeviceType, now_ms: int, *, is_named: bool) -> None:
        self.user = user
        self.id = id
        self.type = type
        self.closers: dict[DeviceConnection, Callable[[], None]] = {}
        self.since_ms = now_ms
        self.used_at_ms = now_ms
        self.is_idle = False
        self.gone_at_ms: int | None = None
        self.activities: tuple[Activity, ...] = ()
        self.is_named = is_named
        self.is_removed = False
        self.row_seen_ms: int | None = None
        self.row_type: DeviceType | None = None

    def presence(self, server: str) -> DevicePresence:
        """Return the device as its user's record has it."""
        idle_since = self.used_at_ms if self.is_idle else None
        return DevicePresence(server, self.id, self.type, self.since_ms, idle_since, self.gone_at_ms, self.activities)

    def has_left(self, now_ms: int) -> bool:
        """Return whether its departure is announced, so that it comes back as one that was away."""
        return self.gone_at_ms is not None and now_ms - self.gone_at_ms >= ANNOUNCED_AFTER_MS


class Departure(NamedTuple):
    """A device, and when the last of its connections ended."""

    device: LocalDevice
    at_ms: int

    @property
    def is_final(self) -> bool:
        """True if the device has not connected to this process again."""
        return self.device.gone_at_ms == self.at_ms

"""The stored facts about the presence of a user. They are private: others see `shown_presence` of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from store.base.ids import UserId


class DeviceType(StrEnum):
    """The kind of a device."""

    WEB = "WEB"
    DESKTOP = "DESKTOP"
    MOBILE = "MOBILE"


class PresenceSetting(StrEnum):
    """The presence that a user has set."""

    ONLINE = "ONLINE"
    """Derived from the devices."""
    IDLE = "IDLE"
    DND = "DND"
    INVISIBLE = "INVISIBLE"


class ActivityType(StrEnum):
    """The kind of an activity."""

    PLAYING = "PLAYING"
    STREAMING = "STREAMING"
    LISTENING = "LISTENING"
    WATCHING = "WATCHING"
    COMPETING = "COMPETING"


@dataclass(frozen=True, slots=True)
class Activity:
    """An occupation of a user, as a client reports it. Times in ms; None: not given."""

    type: ActivityType
    name: str
    details: str | None = None
    state: str | None = None
    started_at_ms: int | None = None
    ends_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CustomStatus:
    """A text and an emoji that a user shows; at least one of them. expires_at_ms: None if it does not end by itself."""

    text: str | None
    emoji: str | None
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DevicePresence:
    """The connections of a device to one server.

    Attributes:
        server: The server.
        device: The client's id of the device, or a name of one connection that gave no id.
        type: Its kind.
        since_ms: When the first of the connections began.
        idle_since_ms: When the device was last used, if it is idle; None while it is in use.
        gone_at_ms: When the last of the connections ended; None while there is one.
        activities: What its client reported.
    """

    server: str
    device: str
    type: DeviceType
    since_ms: int
    idle_since_ms: int | None = None
    gone_at_ms: int | None = None
    activities: tuple[Activity, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """The presence that a user has set, and since when.

    Attributes:
        value: The setting.
        set_at_ms: When it was set. Setting INVISIBLE again does not change the time.
        until_ms: When it becomes ONLINE by itself; None: never.
        before: The setting before INVISIBLE, which is shown until the departure is announced.
    """

    value: PresenceSetting = PresenceSetting.ONLINE
    set_at_ms: int = 0
    until_ms: int | None = None
    before: PresenceSetting = PresenceSetting.ONLINE

    def at(self, now_ms: int) -> Setting:
        """Return the setting at a time: ONLINE from `until_ms` on."""
        if self.until_ms is None or now_ms < self.until_ms:
            return self
        return Setting(set_at_ms=self.until_ms)


@dataclass(frozen=True, slots=True)
class PresenceRecord:
    """Everything that is known about the presence of a user.

    Attributes:
        user: The user.
        devices: The connected devices by server, and those whose connections ended a moment ago.
        setting: What the user has set.
        custom_status: What the user shows; None: nothing.
        seen_ms: When the user was last there, as far as the devices do not say it; None: never.
        version: Greater for each later record of the same user in an epoch of Redis.
    """

    user: UserId
    devices: tuple[DevicePresence, ...] = ()
    setting: Setting = Setting()
    custom_status: CustomStatus | None = None
    seen_ms: int | None = None
    version: int = 0

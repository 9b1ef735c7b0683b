"""The stored facts about the presence of a user. They are private: others see `shown_presence` of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from store.base.ids import UserId

MOST_HIDDEN_TIMES = 4
"""Earlier times of being INVISIBLE that are remembered for each user."""


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


class HiddenTime(NamedTuple):
    """A time during which a user was INVISIBLE (ms). The end is not part of it."""

    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Setting:
    """The presence that a user has set, and since when.

    Attributes:
        value: The setting.
        set_at_ms: When it was set. Setting INVISIBLE again does not change the time.
        until_ms: When it becomes ONLINE by itself; None: never.
        before: The setting before INVISIBLE, which is shown until the departure is announced.
        before_until_ms: When `before` becomes ONLINE by itself; None: never.
        hidden_times: Earlier times of being INVISIBLE, oldest first. What devices did then is not shown later either.
    """

    value: PresenceSetting = PresenceSetting.ONLINE
    set_at_ms: int = 0
    until_ms: int | None = None
    before: PresenceSetting = PresenceSetting.ONLINE
    before_until_ms: int | None = None
    hidden_times: tuple[HiddenTime, ...] = ()

    def at(self, now_ms: int) -> Setting:
        """Return the setting at a time: ONLINE from `until_ms` on."""
        if self.until_ms is None or now_ms < self.until_ms:
            return self
        return Setting(set_at_ms=self.until_ms, hidden_times=self._hidden_until(self.until_ms))

    def is_hidden_at(self, now_ms: int) -> bool:
        """Return whether the setting is INVISIBLE at a time."""
        return self.at(now_ms).value is PresenceSetting.INVISIBLE

    def shown_at(self, now_ms: int) -> PresenceSetting:
        """Return the setting that is shown with devices at a time. In place of INVISIBLE it is the one before."""
        now = self.at(now_ms)
        if now.value is not PresenceSetting.INVISIBLE:
            return now.value
        return Setting(now.before, until_ms=now.before_until_ms).at(now_ms).value

    def change_to(self, value: PresenceSetting, until_ms: int | None, now_ms: int) -> Setting:
        """Return the setting after a user has set it. The same again changes nothing."""
        present = self.at(now_ms)
        if value is PresenceSetting.ONLINE:
            until_ms = None
        if value is present.value:
            return self if until_ms == present.until_ms else replace(present, until_ms=until_ms)
        if value is PresenceSetting.INVISIBLE:
            return Setting(value, now_ms, until_ms, present.value, present.until_ms, present.hidden_times)
        return Setting(value, now_ms, until_ms, hidden_times=present._hidden_until(now_ms))

    def _hidden_until(self, end_ms: int) -> tuple[HiddenTime, ...]:
        """Return the times of being INVISIBLE when this setting ends."""
        if self.value is not PresenceSetting.INVISIBLE:
            return self.hidden_times
        return _joined((*self.hidden_times, HiddenTime(self.set_at_ms, end_ms)))


def _joined(times: tuple[HiddenTime, ...]) -> tuple[HiddenTime, ...]:
    """Return at most MOST_HIDDEN_TIMES times: the oldest become one, with the time between them."""
    while len(times) > MOST_HIDDEN_TIMES:
        first, second, *rest = times
        times = (HiddenTime(first.from_ms, second.to_ms), *rest)
    return times


@dataclass(frozen=True, slots=True)
class PresenceRecord:
    """Everything that is known about the presence of a user.

    Attributes:
        user: The user.
        devices: The connected devices by server, and those whose connections ended a moment ago.
        setting: What the user has set.
        custom_status: What the user shows; None: nothing.
        departed: The devices as they were when the user last became INVISIBLE: departed at that moment. Those that
            ended more than a minute ago may be missing.
        seen_ms: When others last saw the user there, as far as the devices do not say it; None: never.
        version: Greater for each later record of the same user in an epoch of Redis.
    """

    user: UserId
    devices: tuple[DevicePresence, ...] = ()
    setting: Setting = Setting()
    custom_status: CustomStatus | None = None
    departed: tuple[DevicePresence, ...] = ()
    seen_ms: int | None = None
    version: int = 0

    def custom_status_at(self, now_ms: int) -> CustomStatus | None:
        """Return the custom status at a time: None from its end on."""
        status = self.custom_status
        has_ended = status is not None and status.expires_at_ms is not None and status.expires_at_ms <= now_ms
        return None if has_ended else status

"""Notification settings of a user, and their stored form. Levels of single conversations are in the sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from store.base.known_values import known_value
from store.sessions.fields import DEFAULT_LEVEL, NotificationLevel

DEFAULT_DELAY_SECONDS = 10


class NotificationField:
    """Stored names of the fields of `notification_settings`, sharded by ID. A value that is the default is absent."""

    ID = "_id"
    """The user."""
    LEVEL = "l"
    DND_FROM = "df"
    """Minute of the day, in TIME_ZONE."""
    DND_TO = "dt"
    TIME_ZONE = "tz"
    DELAY = "d"
    """Seconds."""
    HIDES_PREVIEW = "hp"
    KEYWORDS = "k"
    REVISION = "r"
    """Number of changes. In MongoDB only."""


_F = NotificationField


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """The settings of one user.

    Attributes:
        level: Of conversations and workspaces without a level of their own.
        dnd_from: Minute of the day, in `time_zone`, at which do not disturb begins each day; None: it is off.
        dnd_to: Minute of the day at which it ends. Before `dnd_from`: on the next day.
        time_zone: IANA name.
        delay_seconds: How long a push waits for a device in use to show the message.
        shows_preview: Notifications contain the text.
        keywords: Words that notify like a mention.
    """

    level: NotificationLevel = DEFAULT_LEVEL
    dnd_from: int | None = None
    dnd_to: int | None = None
    time_zone: str = "UTC"
    delay_seconds: int = DEFAULT_DELAY_SECONDS
    shows_preview: bool = True
    keywords: tuple[str, ...] = ()


DEFAULT_SETTINGS = NotificationSettings()


def fields_of(settings: NotificationSettings) -> dict[str, Any]:
    """Return the stored fields of settings, without the user and the revision."""
    fields: dict[str, Any] = {}
    if settings.level is not DEFAULT_LEVEL:
        fields[_F.LEVEL] = settings.level.value
    if settings.dnd_from is not None:
        fields |= {_F.DND_FROM: settings.dnd_from, _F.DND_TO: settings.dnd_to}
    if settings.time_zone != DEFAULT_SETTINGS.time_zone:
        fields[_F.TIME_ZONE] = settings.time_zone
    if settings.delay_seconds != DEFAULT_DELAY_SECONDS:
        fields[_F.DELAY] = settings.delay_seconds
    if not settings.shows_preview:
        fields[_F.HIDES_PREVIEW] = True
    if settings.keywords:
        fields[_F.KEYWORDS] = list(settings.keywords)
    return fields


def settings_from(row: Mapping[str, Any]) -> NotificationSettings:
    """Return settings by their stored fields."""
    return NotificationSettings(
        known_value(NotificationLevel, row.get(_F.LEVEL), DEFAULT_LEVEL),
        row.get(_F.DND_FROM),
        row.get(_F.DND_TO),
        row.get(_F.TIME_ZONE, DEFAULT_SETTINGS.time_zone),
        row.get(_F.DELAY, DEFAULT_DELAY_SECONDS),
        not row.get(_F.HIDES_PREVIEW, False),
        tuple(row.get(_F.KEYWORDS, ())),
    )

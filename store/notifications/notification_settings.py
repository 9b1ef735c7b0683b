"""Notification settings of users. Levels of single conversations are in the sessions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from store.base.ids import UserId
from store.mongo.client import Document, Mongo
from store.mongo.collections import NOTIFICATION_SETTINGS
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


class NotificationSettingsStore:
    """Reads and replaces settings. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find(self, user: UserId) -> NotificationSettings:
        """Return the settings of a user. One round trip."""
        return (await self.find_many([user]))[user]

    async def find_many(self, users: Collection[UserId]) -> dict[UserId, NotificationSettings]:
        """Return the settings of each of some users. One round trip."""
        rows = await self._mongo.find(NOTIFICATION_SETTINGS, {_F.ID: {"$in": list(users)}})
        found = {row[_F.ID]: _settings_from(row) for row in rows}
        return {user: found.get(user, DEFAULT_SETTINGS) for user in users}

    async def update(self, user: UserId, before: NotificationSettings, after: NotificationSettings) -> None:
        """Store the settings that differ. Of two calls at once, both changes are kept. One round trip."""
        old, new = _fields_of(before), _fields_of(after)
        changed = {name: value for name, value in new.items() if old.get(name) != value}
        removed = [name for name in old if name not in new]
        update: Document = {}
        if changed:
            update["$set"] = changed
        if removed:
            update["$unset"] = dict.fromkeys(removed, "")
        if update:
            await self._mongo.update_one(NOTIFICATION_SETTINGS, {_F.ID: user}, update, upsert=True)


def _fields_of(settings: NotificationSettings) -> Document:
    fields: Document = {}
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


def _settings_from(row: Document) -> NotificationSettings:
    return NotificationSettings(
        NotificationLevel(row.get(_F.LEVEL, DEFAULT_LEVEL.value)),
        row.get(_F.DND_FROM),
        row.get(_F.DND_TO),
        row.get(_F.TIME_ZONE, DEFAULT_SETTINGS.time_zone),
        row.get(_F.DELAY, DEFAULT_DELAY_SECONDS),
        not row.get(_F.HIDES_PREVIEW, False),
        tuple(row.get(_F.KEYWORDS, ())),
    )

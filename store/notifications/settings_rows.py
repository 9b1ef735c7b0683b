"""Rows of notification settings in MongoDB: one per user who has changed them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from store.base.ids import UserId
from store.mongo.client import Mongo
from store.mongo.collections import NOTIFICATION_SETTINGS
from store.mongo.writes import Update, Write
from store.notifications.notification_settings import (
    DEFAULT_SETTINGS,
    NotificationField,
    NotificationSettings,
    fields_of,
    settings_from,
)

_F = NotificationField


class SettingsRow(NamedTuple):
    """The row of a user. revision: number of changes so far; 0: there is no row yet."""

    value: NotificationSettings
    revision: int


class SettingsRows:
    """Reads and replaces rows. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find(self, users: Collection[UserId]) -> dict[UserId, SettingsRow]:
        """Return the rows of users; the default for a user without a row. One round trip."""
        rows = await self._mongo.find(NOTIFICATION_SETTINGS, {_F.ID: {"$in": list(users)}})
        found = {row[_F.ID]: SettingsRow(settings_from(row), row.get(_F.REVISION, 0)) for row in rows}
        return {user: found.get(user, SettingsRow(DEFAULT_SETTINGS, 0)) for user in users}

    async def replace(self, user: UserId, before: SettingsRow, after: NotificationSettings) -> SettingsRow | None:
        """Store settings in the place of those that were read. Return the row as it is stored.

        None: another call has changed the row since it was read, so nothing was stored. One round trip.
        """
        revision = before.revision + 1
        fields: dict[str, Any] = fields_of(after) | {_F.REVISION: revision}
        removed = [name for name in fields_of(before.value) if name not in fields]
        update: dict[str, Any] = {"$set": fields}
        if removed:
            update["$unset"] = dict.fromkeys(removed, "")
        unchanged = {_F.ID: user, _F.REVISION: before.revision or {"$exists": False}}
        statement = Update(unchanged, update, upsert=not before.revision)
        (outcome,) = await self._mongo.write([Write.updates(NOTIFICATION_SETTINGS, [statement], may_collide=True)])
        return SettingsRow(after, revision) if outcome.touched else None

"""Notification settings in MongoDB, with a copy in Redis from which users read their own."""

from __future__ import annotations

from collections.abc import Callable, Collection

from store.base.errors import StoreError, Unreachable
from store.base.ids import UserId
from store.notifications.notification_settings import NotificationSettings
from store.notifications.settings_rows import SettingsRow, SettingsRows
from store.redis.revised_records import RevisedRecords

_ATTEMPTS = 10


class NotificationSettingsStore:
    """Reads and changes settings. All methods that wait raise StoreError."""

    def __init__(
        self,
        rows: SettingsRows,
        records: RevisedRecords[NotificationSettings],
        note_stored: Callable[[UserId, bool], None],
    ) -> None:
        """Connect the parts.

        note_stored: called with a user whose row may have changed, and whether Redis has the change.
        """
        self._rows = rows
        self._records = records
        self._note_stored = note_stored

    async def find_many(self, users: Collection[UserId]) -> dict[UserId, NotificationSettings]:
        """Return the settings of each of some users: one round trip to MongoDB."""
        return {user: row.value for user, row in (await self._rows.find(users)).items()}

    async def read(self, user: UserId) -> NotificationSettings:
        """Return the settings of a user: one round trip to Redis if it has them. Else one more to each database."""
        return await self._records.read(user)

    async def change(
        self, user: UserId, change: Callable[[NotificationSettings], NotificationSettings]
    ) -> NotificationSettings:
        """Change the settings of a user, in MongoDB and then in Redis. Return them as they are then.

        Changes at the same time are made one after the other, so each `change` gets the result of the one before. Its
        errors are passed on. Settings that stay the same are not written.
        """
        for _ in range(_ATTEMPTS):
            before = await self._find_row(user)
            after = change(before.value)
            if after == before.value:
                return after
            field = await self._records.begin_change(user)
            try:
                stored = await self._rows.replace(user, before, after)
                await self._records.put(user, stored or before, [field])
            except StoreError:
                self._note_stored(user, False)
                raise
            if stored is not None:
                self._note_stored(user, True)
                return after
        raise Unreachable("the notification settings of a user were changed too often at the same time")

    async def _find_row(self, user: UserId) -> SettingsRow:
        return (await self._rows.find((user,)))[user]

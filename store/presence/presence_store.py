"""Presence records: in Redis, and in MongoDB what must outlast it (ADR 80).

MongoDB has the setting, the custom status and the time of the last departure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from store.base.ids import UserId
from store.presence.presence_record import CustomStatus, DevicePresence, PresenceRecord, PresenceSetting


class ChangedPresence(NamedTuple):
    """A change of a record.

    Attributes:
        before: The record before it.
        record: The record after it.
        servers: The servers that show the user to somebody.
    """

    before: PresenceRecord
    record: PresenceRecord
    servers: Sequence[str]


@dataclass(frozen=True, slots=True)
class DeviceChange:
    """The devices of a user on one server. put: added or replaced, by id; removed: ids."""

    user: UserId
    server: str
    put: Sequence[DevicePresence] = ()
    removed: Collection[str] = ()


class PresenceStore:
    """Reads and changes presence records. Every change returns the servers to notify."""

    async def read(self, users: Collection[UserId]) -> dict[UserId, PresenceRecord]:
        """Return the records of up to 200 users: one round trip to Redis.

        Records that Redis does not have are loaded from MongoDB: one more round trip to each. Raises StoreError.
        """
        raise NotImplementedError

    async def watch(self, users: Collection[UserId], server: str, until_ms: int) -> dict[UserId, PresenceRecord]:
        """Like `read`, and note that a server shows the users until a time. It gets every later change."""
        raise NotImplementedError

    async def unwatch(self, users: Collection[UserId], server: str) -> None:
        """Note that a server does not show the users any more. Raises StoreError."""
        raise NotImplementedError

    async def change_devices(self, changes: Iterable[DeviceChange]) -> list[ChangedPresence]:
        """Change the devices of users, one change each: one round trip to Redis. Raises StoreError."""
        raise NotImplementedError

    async def set_presence(self, user: UserId, value: PresenceSetting, until_ms: int | None) -> ChangedPresence:
        """Change what a user has set, in MongoDB and then in Redis. Raises StoreError.

        The same again changes nothing.
        """
        raise NotImplementedError

    async def set_custom_status(self, user: UserId, status: CustomStatus | None) -> ChangedPresence:
        """Change the custom status, in MongoDB and then in Redis. Raises StoreError."""
        raise NotImplementedError

    async def note_departures(self, seen_ms: Mapping[UserId, int]) -> None:
        """Store when users were last there, for the time when Redis has lost it: one round trip to MongoDB."""
        raise NotImplementedError

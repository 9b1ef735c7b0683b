"""Presence records: in Redis, and in MongoDB what must outlast it (ADR 80).

MongoDB has the setting, the custom status and the time of the last departure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from store.base.clock import Clock
from store.base.errors import StoreError, Unreachable
from store.base.ids import UserId
from store.presence.cached_record import departed_field, device_field, fields_of, record_from
from store.presence.presence_cache import ChangedPresence, PresenceCache, change_from
from store.presence.presence_record import CustomStatus, DevicePresence, PresenceRecord, PresenceSetting
from store.presence.presence_rows import PresenceRow, PresenceRows
from store.presence.shown_presence import FindEnd, departed_devices, last_seen_ms, without_ended_devices
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

__all__ = ["ChangedPresence", "DeviceChange", "PresenceStore"]

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class DeviceChange:
    """The devices of a user on one server. put: added or replaced, by id; removed: ids."""

    user: UserId
    server: str
    put: Sequence[DevicePresence] = ()
    removed: Collection[str] = ()


class PresenceStore:
    """Reads and changes presence records. Every change returns the servers to notify."""

    def __init__(
        self,
        rows: PresenceRows,
        records: PresenceCache,
        cache: Cache,
        keys: Keys,
        clock: Clock,
        note_stored: Callable[[UserId, bool], None],
    ) -> None:
        """Connect the parts.

        note_stored: called with a user whose row may have changed, and whether Redis has the change.
        """
        self._rows = rows
        self._records = records
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._note_stored = note_stored
        self._uncertain: set[UserId] = set()
        """Users whose devices this process has changed without learning the outcome."""
        self.find_end: FindEnd = lambda server: None
        """Finds the end of a server. To be set before the first call."""

    async def read(self, users: Collection[UserId]) -> dict[UserId, PresenceRecord]:
        """Return the records of up to 200 users: one round trip to Redis.

        Records that Redis does not have are loaded from MongoDB: one more round trip to each. The same is done once an
        hour for each user who is read. Raises StoreError.
        """
        answers = await self._cache.run(self._records.read_calls(users))
        return await self._records.complete(dict(zip(users, answers, strict=True)))

    async def watch(self, users: Collection[UserId], server: str, until_ms: int) -> dict[UserId, PresenceRecord]:
        """Like `read`, and note that a server shows the users until a time. It gets every later change."""
        answers = await self._cache.run([self._script("watch_presence", user, server, until_ms) for user in users])
        return await self._records.complete(dict(zip(users, answers, strict=True)))

    async def unwatch(self, users: Collection[UserId], server: str) -> None:
        """Note that a server does not show the users any more. Raises StoreError."""
        await self._cache.run([self._script("unwatch_presence", user, server) for user in users])

    async def change_devices(self, changes: Iterable[DeviceChange]) -> list[ChangedPresence]:
        """Change the devices of users, one change each: one round trip to Redis. Raises StoreError.

        Records without the part from MongoDB are loaded: one more round trip to each.
        """
        changes = list(changes)
        users = [change.user for change in changes]
        try:
            answers = await self._cache.run_in_background([self._change_call(change) for change in changes])
        except StoreError:
            self._uncertain.update(users)
            raise
        made = [change_from(user, answer) for user, answer in zip(users, answers, strict=True)]
        created = [user for user, change in zip(users, made, strict=True) if not change.before.record.version]
        if created:
            # Watches and devices of other servers may have been evicted with them.
            self._records.on_missing(created)
        loaded = await self._records.load(
            [user for user, change in zip(users, made, strict=True) if not change.after.is_complete]
        )
        changed = []
        for user, change in zip(users, made, strict=True):
            after = loaded[user].after if user in loaded else change.after
            before = change.before.complete_with(after)
            changed.append(ChangedPresence(before, after.record, change.servers))
        changed = await self._remove_ended_devices(changed)
        uncertain = self._uncertain.intersection(users)
        self._uncertain -= uncertain
        return [change._replace(before=None) if change.record.user in uncertain else change for change in changed]

    async def set_presence(self, user: UserId, value: PresenceSetting, until_ms: int | None) -> ChangedPresence:
        """Change what a user has set, in MongoDB and then in Redis. Raises StoreError.

        The same again changes nothing.
        """
        now_ms = self._clock.now_ms()
        return await self._change_row(
            user, lambda row: replace(row, setting=row.setting.change_to(value, until_ms, now_ms)), now_ms
        )

    async def set_custom_status(self, user: UserId, status: CustomStatus | None) -> ChangedPresence:
        """Change the custom status, in MongoDB and then in Redis. Raises StoreError."""
        return await self._change_row(user, lambda row: replace(row, status=status), self._clock.now_ms())

    async def note_departures(self, records: Iterable[PresenceRecord]) -> None:
        """Store when others last saw users there, for the time when Redis has lost it: one round trip to MongoDB.

        records: after the departures. Raises StoreError.
        """
        now_ms = self._clock.now_ms()
        seen_ms = {record.user: last_seen_ms(record, self.find_end, now_ms) for record in records}
        await self._rows.raise_seen({user: at_ms for user, at_ms in seen_ms.items() if at_ms is not None})

    async def _change_row(
        self, user: UserId, change: Callable[[PresenceRow], PresenceRow], now_ms: int
    ) -> ChangedPresence:
        """Change the part of a record that is in MongoDB. Changes at the same time are made one after the other."""
        (answer,) = await self._cache.run(self._records.read_calls((user,)))
        record = record_from(user, answer).record
        for _ in range(_ATTEMPTS):
            before = (await self._rows.find((user,)))[user]
            after = change(before)
            if after == before:
                return await self._put_row(user, before)
            if after.setting.is_hidden_at(now_ms) and not before.setting.is_hidden_at(now_ms):
                after = await self._depart(record, before, after, now_ms)
            try:
                stored = await self._rows.replace(user, before, after)
            except StoreError:
                self._note_stored(user, False)
                raise
            if stored is not None:
                return await self._put_row(user, stored)
        raise Unreachable("the presence of a user was changed too often at the same time")

    async def _depart(
        self, record: PresenceRecord, before: PresenceRow, after: PresenceRow, now_ms: int
    ) -> PresenceRow:
        """Keep what others know of the devices of a user who becomes INVISIBLE. Return the row to store.

        This is written before the setting, so that no other server finds the setting without it. A setting that is not
        stored then makes no difference: the devices themselves are newer.
        """
        seen_ms = max((at_ms for at_ms in (record.seen_ms, before.seen_ms) if at_ms is not None), default=None)
        known = replace(record, setting=before.setting, seen_ms=seen_ms)
        departed = departed_devices(known, self.find_end, now_ms)
        names = {departed_field(device) for device in departed}
        former = [name for device in record.departed if (name := departed_field(device)) not in names]
        if departed or former:
            fields = fields_of((), departed)
            await self._cache.one(self._script("change_presence", record.user, len(departed), *fields, *former))
        return replace(after, seen_ms=last_seen_ms(known, self.find_end, now_ms))

    async def _put_row(self, user: UserId, row: PresenceRow) -> ChangedPresence:
        """Put a stored row into the record."""
        try:
            answer = await self._cache.one(self._records.load_call(user, row))
        except StoreError:
            self._note_stored(user, False)
            raise
        self._note_stored(user, True)
        before, after, servers = change_from(user, answer)
        return ChangedPresence(before.record if before.is_complete else None, after.record, servers)

    async def _remove_ended_devices(self, changes: Sequence[ChangedPresence]) -> list[ChangedPresence]:
        """Remove devices that ended some time ago from changed records: one round trip, if there are any.

        What others know of the last use of devices that are gone from the record stays.
        """
        now_ms, calls, kept = self._clock.now_ms(), list[Call](), list[ChangedPresence]()
        for change in changes:
            record, left = change.record, without_ended_devices(change.record, self.find_end, now_ms)
            if change.before is not None:
                seen_ms = last_seen_ms(_without(change.before, record), self.find_end, now_ms)
                if seen_ms is not None and (left.seen_ms is None or left.seen_ms < seen_ms):
                    left = replace(left, seen_ms=seen_ms)
            if left is not record:
                ended = (
                    [device for device in record.devices if device not in left.devices],
                    [device for device in record.departed if device not in left.departed],
                )
                seen = "" if left.seen_ms is None else left.seen_ms
                calls.append(self._script("remove_ended_devices", record.user, seen, *fields_of(*ended)))
            kept.append(change._replace(record=left))
        if calls:
            # The next change of each record tries it again.
            with suppress(StoreError):
                await self._cache.run_in_background(calls)
        return kept

    def _change_call(self, change: DeviceChange) -> Call:
        removed = [device_field(change.server, device) for device in change.removed]
        return self._script("change_presence", change.user, len(change.put), *fields_of(change.put), *removed)

    def _script(self, name: str, user: UserId, *args: object) -> Call:
        return self._records.script(name, user, *args)


def _without(before: PresenceRecord, after: PresenceRecord) -> PresenceRecord:
    """Return a record with only the devices that are missing in the record after it."""
    kept = {(device.server, device.device) for device in after.devices}
    lost = tuple(each for each in before.devices if (each.server, each.device) not in kept)
    return replace(before, devices=lost, departed=())

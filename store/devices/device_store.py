"""Devices of users in MongoDB (ADR 82)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pymongo.errors import DuplicateKeyError

from store.base.ids import UserId
from store.devices.device import MAX_DEVICES, Device, PushAddress
from store.devices.device_fields import (
    PUSH_FIELDS,
    DeviceField,
    PushTokenField,
    device_from,
    push_fields,
    push_token_row_id,
)
from store.mongo.client import Document, Mongo
from store.mongo.collections import DEVICES, PUSH_TOKENS, device_row_id, devices_of_user
from store.mongo.writes import Update, Write
from store.presence.presence_record import DeviceType

_F = DeviceField

_USERS_AT_ONCE = 50


class DeviceKey(NamedTuple):
    """A user, and the id of one of the user's devices."""

    user: UserId
    device: str


class DeviceSighting(NamedTuple):
    """The connection of a device at a time. makes_row: its row is made if there is none."""

    key: DeviceKey
    type: DeviceType
    seen_ms: int
    makes_row: bool


@dataclass(frozen=True, slots=True)
class DeviceUpdate:
    """A change that a user or client makes. None leaves a field as it is; removes_name and removes_push remove it."""

    type: DeviceType
    name: str | None = None
    push: PushAddress | None = None
    locale: str | None = None
    removes_name: bool = False
    removes_push: bool = False


class DeviceStore:
    """Reads and changes the rows of devices. All methods raise Unreachable.

    A push token belongs to one device: the one that claimed it last. A device stores its token before it claims it, and
    the claim returns the device that had it before, whose row then loses it. So of several devices that claim a token
    at the same time, the last one keeps it.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list(self, user: UserId) -> list[Device]:
        """Return the devices of a user, the one seen last first. One round trip."""
        rows = [device_from(row) for row in await self._mongo.find(DEVICES, devices_of_user(user))]
        return sorted(rows, key=lambda device: (-device.seen_ms, device.id))

    async def find(self, key: DeviceKey) -> Device | None:
        """Return a device of a user. One round trip."""
        return (await self.find_each([key])).get(key)

    async def find_each(self, keys: Collection[DeviceKey]) -> dict[DeviceKey, Device]:
        """Return those devices that have a row. One round trip."""
        rows = await self._mongo.find(DEVICES, {_F.ID: {"$in": [device_row_id(*key) for key in keys]}})
        found = [device_from(row) for row in rows]
        return {DeviceKey(device.user, device.id): device for device in found}

    async def list_pushed(self, users: Collection[UserId]) -> Mapping[UserId, Sequence[Device]]:
        """Return the devices with a push address, by user. Users without one are left out. One round trip."""
        rows = await self._mongo.find(DEVICES, {_F.PUSHED_USER: {"$in": list(users)}})
        found: dict[UserId, tuple[Device, ...]] = {}
        for device in map(device_from, rows):
            if device.push is None:
                continue
            found[device.user] = (*found.get(device.user, ()), device)
        return found

    async def forget_push(self, device: Device) -> None:
        """Remove the push address of a device, which its service reports as gone, unless it has another one by now."""
        if device.push is None:
            return
        key = {_F.ID: device_row_id(device.user, device.id), _F.PLATFORM: device.push.platform}
        await self._mongo.update_one(
            DEVICES, key | {_F.TOKEN: device.push.token}, {"$unset": dict.fromkeys(PUSH_FIELDS, "")}
        )
        await self._release([device])

    async def note_seen(self, devices: Iterable[DeviceSighting]) -> None:
        """Store when devices were connected. One round trip."""
        updates = []
        for key, type, seen_ms, makes_row in devices:
            change: Document = {"$max": {_F.SEEN: seen_ms}, "$set": {_F.TYPE: type}}
            if makes_row:
                change["$setOnInsert"] = {_F.CREATED: seen_ms}
            updates.append(Update({_F.ID: device_row_id(*key)}, change, upsert=makes_row))
        # Another server may make the same row at the same time.
        await self._mongo.write([Write.updates(DEVICES, updates, may_collide=True)])

    async def drop_surplus(self, kept: Mapping[UserId, Collection[str]]) -> set[DeviceKey]:
        """Delete rows of users who have more than MAX_DEVICES: those that were seen longest ago.

        Args:
            kept: For each user the devices that are connected. They are deleted only if there are more than MAX_DEVICES
                of them, the newest rows first.

        Returns:
            The devices whose rows were deleted. One round trip for up to 50 users, two more if there are surplus rows.
        """
        dropped: list[Device] = []
        users = list(kept)
        for start in range(0, len(users), _USERS_AT_ONCE):
            reads = [self.list(user) for user in users[start : start + _USERS_AT_ONCE]]
            for devices in await self._mongo.gather(*reads):
                dropped += _surplus(devices, kept)
        if dropped:
            await self._delete(dropped)
        return {DeviceKey(device.user, device.id) for device in dropped}

    async def update(self, key: DeviceKey, update: DeviceUpdate, now_ms: int) -> Device:
        """Make or change a device. One round trip, and up to three more if its push token changes."""
        row_id = device_row_id(*key)
        fields: dict[str, Any] = {_F.TYPE: update.type}
        removed = [_F.NAME] if update.removes_name else []
        if update.name is not None:
            fields[_F.NAME] = update.name
        if update.locale is not None:
            fields[_F.LOCALE] = update.locale
        if update.push is not None:
            fields |= push_fields(key.user, update.push)
        if update.push is not None or update.removes_push:
            removed += [name for name in PUSH_FIELDS if name not in fields]
        # Apps that use no connection register their address at each start. Other changes may come from other devices.
        seen_ms = now_ms if update.push is not None else 0
        on_insert = {_F.CREATED: now_ms} if seen_ms else {_F.CREATED: now_ms, _F.SEEN: now_ms}
        change: Document = {"$set": fields, "$setOnInsert": on_insert}
        if seen_ms:
            change["$max"] = {_F.SEEN: seen_ms}
        if removed:
            change["$unset"] = dict.fromkeys(removed, "")
        before = await self._upsert(DEVICES, row_id, change)
        old = device_from(before) if before is not None else None
        if update.push is not None:
            await self._claim(row_id, update.push)
        if old is not None and _loses_token(old, update):
            await self._release([old])
        after = dict(before or {_F.ID: row_id, _F.CREATED: now_ms, _F.SEEN: now_ms})
        after[_F.SEEN] = max(after[_F.SEEN], seen_ms)
        for name in removed:
            after.pop(name, None)
        return device_from(after | fields)

    async def remove(self, key: DeviceKey) -> bool:
        """Delete the row of a device, and its push token. Return whether there was one."""
        device = await self.find(key)
        if device is None:
            return False
        await self._delete([device])
        return True

    async def _upsert(self, collection: str, row_id: str, change: Document) -> Document | None:
        """Make or change a row. Return the row before it."""
        try:
            return await self._mongo.find_one_and_update(collection, {"_id": row_id}, change, upsert=True)
        except DuplicateKeyError:
            # Another call has made the row at the same time, so it is there now.
            return await self._mongo.find_one_and_update(collection, {"_id": row_id}, change, upsert=True)

    async def _claim(self, row_id: str, push: PushAddress) -> None:
        """Make a token belong to a device, and remove it from the device that had it."""
        before = await self._upsert(PUSH_TOKENS, push_token_row_id(push), {"$set": {PushTokenField.OWNER: row_id}})
        if before is not None and before[PushTokenField.OWNER] != row_id:
            await self._mongo.update_one(
                DEVICES,
                {_F.ID: before[PushTokenField.OWNER], _F.PLATFORM: push.platform, _F.TOKEN: push.token},
                {"$unset": dict.fromkeys(PUSH_FIELDS, "")},
            )

    async def _delete(self, devices: Sequence[Device]) -> None:
        # A token without a device can be claimed by any other; a device without its claim would be pushed to twice.
        await self._mongo.delete_ids(DEVICES, [device_row_id(device.user, device.id) for device in devices])
        await self._release(devices)

    async def _release(self, devices: Iterable[Device]) -> None:
        """Forget which devices have tokens, unless other devices have claimed them since."""
        claims = [
            {PushTokenField.ID: push_token_row_id(device.push), PushTokenField.OWNER: device_row_id(*key)}
            for device in devices
            if device.push is not None
            for key in (DeviceKey(device.user, device.id),)
        ]
        if claims:
            await self._mongo.delete_each(PUSH_TOKENS, claims)


def _loses_token(device: Device, update: DeviceUpdate) -> bool:
    if device.push is None:
        return False
    if update.push is None:
        return update.removes_push
    return push_token_row_id(update.push) != push_token_row_id(device.push)


def _surplus(devices: Sequence[Device], kept: Mapping[UserId, Collection[str]]) -> Sequence[Device]:
    """Return the devices of a user to delete. devices: the one seen last first."""
    count = len(devices) - MAX_DEVICES
    if count <= 0:
        return ()
    connected = kept[devices[0].user]
    others = [device for device in reversed(devices) if device.id not in connected]
    newest = sorted(
        (device for device in devices if device.id in connected), key=lambda device: (-device.created_ms, device.id)
    )
    return [*others, *newest][:count]

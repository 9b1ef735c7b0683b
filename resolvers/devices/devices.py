"""The devices of a user: listed, registered and removed by the user (ADR 82).

The id of a device has a meaning only together with its user, so nobody can name the device of another user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.errors import LimitReached, NotFound
from resolvers.devices.device_input import DeviceDraft, check_device, check_device_id
from resolvers.web_requests.addresses import outgoing_rules
from store.base.ids import UserId
from store.devices.device import MAX_DEVICES, Device, is_device_id
from store.devices.device_store import DeviceKey
from subscriptions.transport.engine import LiveConnection
from subscriptions.voice.voice_devices import VoiceDevice


@dataclass(frozen=True, slots=True)
class SeenDevice:
    """A device as its user sees it.

    Attributes:
        device: Its row.
        last_seen_ms: The present time while it is connected, else when it was last connected.
        is_current: The caller asks over a connection of it.
    """

    device: Device
    last_seen_ms: int
    is_current: bool


async def list_devices(app: Confab, user: UserId, connection: LiveConnection | None) -> list[SeenDevice]:
    """Return the devices of a user, connected ones first, then the one seen last."""
    devices, connected = await asyncio.gather(app.store.devices.list(user), app.devices.list_connected([user]))
    seen = [_as_seen(app, device, connected[user], connection) for device in devices]
    return sorted(seen, key=lambda each: -each.last_seen_ms)[:MAX_DEVICES]


async def find_device(app: Confab, user: UserId, id: str, connection: LiveConnection | None) -> SeenDevice | None:
    """Return a device of a user, or None."""
    device = await app.store.devices.find(DeviceKey(user, id)) if is_device_id(id) else None
    if device is None:
        return None
    return _as_seen(app, device, (await app.devices.list_connected([user]))[user], connection)


async def register_device(
    app: Confab, user: UserId, id: str | None, draft: DeviceDraft, connection: LiveConnection | None
) -> SeenDevice:
    """Make or change a device. id: None makes a new one.

    Of more than MAX_DEVICES devices, the one seen longest ago is dropped; never one that is connected.

    Raises:
        InvalidInput: Something about the device is malformed.
        LimitReached: The device is new, and MAX_DEVICES others are connected.
    """
    if id is not None:
        check_device_id(id)
    update = check_device(draft, outgoing_rules(allow_loopback=app.allow_loopback))
    key = DeviceKey(user, f"d_{app.store.ids.next()}" if id is None else id)
    present, listed = await asyncio.gather(app.store.devices.list(user), app.devices.list_connected([user]))
    connected = listed[user]
    is_new = all(device.id != key.device for device in present)
    if is_new and sum(device.id in connected for device in present) >= MAX_DEVICES:
        raise LimitReached(f"{MAX_DEVICES} devices are connected; remove one of them first")
    device = await app.store.devices.update(key, update, app.store.clock.now_ms())
    if is_new:
        # Also if there were few: other calls may have made some at the same time.
        await app.store.devices.drop_surplus({user: connected | {key.device}})
    return _as_seen(app, device, connected, connection)


async def remove_device(app: Confab, user: UserId, id: str) -> None:
    """Delete a device, and close its connections on all servers. Raises NotFound."""
    key = DeviceKey(user, id)
    if not is_device_id(id) or not await _exists(app, key):
        raise NotFound("there is no such device")
    # The row is deleted last: if closing fails, the call can be repeated.
    await app.devices.remove(user, id)
    await app.voice_devices.end(VoiceDevice(user, id))
    await app.store.devices.remove(key)


async def _exists(app: Confab, key: DeviceKey) -> bool:
    """Return whether a device has a row, or is connected: its row may not be made yet, or there are too many."""
    if app.devices.has_device(*key) or await app.store.devices.find(key) is not None:
        return True
    return key.device in (await app.devices.list_connected([key.user]))[key.user]


def _as_seen(app: Confab, device: Device, connected: Collection[str], connection: LiveConnection | None) -> SeenDevice:
    current = connection.device if connection is not None else None
    is_current = current is not None and current.user == device.user and current.device == device.id
    is_connected = is_current or device.id in connected
    return SeenDevice(device, app.store.clock.now_ms() if is_connected else device.seen_ms, is_current)

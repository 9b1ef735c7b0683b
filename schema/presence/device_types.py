"""The GraphQL types of devices."""

from __future__ import annotations

import strawberry

from resolvers.devices import devices
from resolvers.devices.device_input import DeviceDraft, WebPushKeys
from resolvers.devices.devices import SeenDevice
from schema.base.context import Context
from schema.base.nodes import Node
from schema.base.scalars import DateTime
from schema.compiler import reads
from store.devices.device import PushPlatform
from store.presence.presence_record import DeviceType

strawberry.enum(DeviceType)
strawberry.enum(PushPlatform)


@strawberry.type(name="Device")
class DeviceNode(Node):
    record: strawberry.Private[SeenDevice]
    id: strawberry.ID = reads("record.device.id")
    type: DeviceType = reads("record.device.type")
    name: str | None = reads("record.device.name")
    last_seen_at: DateTime = reads("record.last_seen_ms", description="Now while it is connected.")
    is_current: bool = reads("record.is_current", description="The caller asks over a connection of it.")

    @strawberry.field
    def push_platform(self) -> PushPlatform | None:
        push = self.record.device.push
        return push.platform if push is not None else None


@strawberry.input
class WebPushInput:
    endpoint: str
    p256dh: str
    auth: str


@strawberry.input(
    description="null leaves a field as it is; id: null makes a new device. name: up to 100 characters; an empty one "
    "removes it. APNS and FCM take pushToken, WEB_PUSH takes webPush; an empty pushToken alone switches pushes off."
)
class DeviceInput:
    id: strawberry.ID | None = None
    type: DeviceType
    name: str | None = None
    push_platform: PushPlatform | None = None
    push_token: str | None = None
    web_push: WebPushInput | None = None
    locale: str | None = None

    def to_draft(self) -> DeviceDraft:
        """Return what the client says about the device. It is not checked."""
        keys = self.web_push
        return DeviceDraft(
            self.type,
            self.name,
            self.push_platform,
            self.push_token,
            WebPushKeys(keys.endpoint, keys.p256dh, keys.auth) if keys is not None else None,
            self.locale,
        )


def device_from(record: SeenDevice) -> DeviceNode:
    """Return the GraphQL object of a device."""
    return DeviceNode(record=record)


async def list_own_devices(context: Context) -> list[DeviceNode]:
    """Return the devices of the viewer."""
    found = await devices.list_devices(context.app, context.viewer, context.connection)
    return [device_from(device) for device in found]


async def find_device(context: Context, id: str) -> DeviceNode | None:
    """Return a device of the viewer, or None."""
    found = await devices.find_device(context.app, context.viewer, id, context.connection)
    return device_from(found) if found is not None else None

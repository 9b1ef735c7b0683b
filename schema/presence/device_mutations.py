"""Mutations of devices."""

from __future__ import annotations

import strawberry

from resolvers.devices import devices
from schema.base.context import Info
from schema.presence.device_types import DeviceInput, DeviceNode, device_from


@strawberry.type
class DeviceMutations:
    @strawberry.mutation(
        description="id: the client's deviceId. One record per device. The same push token from another user moves it "
        "there (the old record stays, without push). At most 20 per user: the one seen longest ago is dropped."
    )
    async def register_device(self, info: Info, input: DeviceInput) -> DeviceNode:
        context = info.context
        id = str(input.id) if input.id is not None else None
        return device_from(
            await devices.register_device(context.app, context.viewer, id, input.to_draft(), context.connection)
        )

    @strawberry.mutation(description="Closes the device's connections with 4401. Its token stays valid.")
    async def remove_device(self, info: Info, device_id: strawberry.ID) -> bool:
        await devices.remove_device(info.context.app, info.context.viewer, str(device_id))
        return True

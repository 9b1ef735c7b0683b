"""Queries for devices."""

from __future__ import annotations

import strawberry

from schema.base.context import Info
from schema.base.list_sizes import holds
from schema.presence.device_types import DeviceNode, list_own_devices
from store.devices.device import MAX_DEVICES


@strawberry.type
class DeviceQueries:
    @strawberry.field(
        description="The caller's own: connected ones first, then the one seen last.", metadata=holds(MAX_DEVICES)
    )
    async def devices(self, info: Info) -> list[DeviceNode]:
        return await list_own_devices(info.context)

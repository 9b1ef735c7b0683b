"""The query of notification settings."""

from __future__ import annotations

import strawberry

from resolvers.notifications.settings import find_settings
from schema.base.context import Info
from schema.notifications.settings_types import NotificationSettingsType


@strawberry.type
class NotificationQueries:
    @strawberry.field
    async def notification_settings(self, info: Info) -> NotificationSettingsType:
        return NotificationSettingsType(record=await find_settings(info.context.app, info.context.viewer))

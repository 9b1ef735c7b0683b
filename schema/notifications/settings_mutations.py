"""The mutation of notification settings."""

from __future__ import annotations

import strawberry

from resolvers.notifications.settings import change_settings
from schema.base.context import Info
from schema.notifications.settings_types import NotificationSettingsInput, NotificationSettingsType


@strawberry.type
class NotificationMutations:
    @strawberry.mutation(description="null leaves a setting as it is.")
    async def set_notification_settings(self, info: Info, input: NotificationSettingsInput) -> NotificationSettingsType:
        context = info.context
        changed = await change_settings(context.app, context.viewer, input.to_change())
        return NotificationSettingsType(record=changed)

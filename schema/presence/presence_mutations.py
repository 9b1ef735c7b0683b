"""Mutations of the caller's own presence."""

from __future__ import annotations

import strawberry

from resolvers.presence import activities as activity_reports
from resolvers.presence import own_presence
from schema.base.context import Info
from schema.base.scalars import DateTime
from schema.presence.presence_types import ActivityInput, OwnPresenceType
from store.presence.presence_record import PresenceSetting


@strawberry.type
class PresenceMutations:
    @strawberry.mutation(
        description="Kept until it is set again; with until: ONLINE again by itself at that time (in the past: "
        "INVALID_INPUT). ONLINE: derived from the devices. To everyone else INVISIBLE cannot be told from OFFLINE, in "
        "content or in timing: becoming INVISIBLE is announced as late as a departure is."
    )
    async def set_presence(self, info: Info, status: PresenceSetting, until: DateTime | None = None) -> OwnPresenceType:
        context = info.context
        return OwnPresenceType(record=await own_presence.set_presence(context.app, context.viewer, status, until))

    @strawberry.mutation(
        description="text: up to 128 characters; emoji as in addReaction; both null: removed. It ends by itself at "
        "expiresAt (in the past: INVALID_INPUT)."
    )
    async def set_custom_status(
        self, info: Info, text: str | None = None, emoji: str | None = None, expires_at: DateTime | None = None
    ) -> OwnPresenceType:
        context = info.context
        return OwnPresenceType(
            record=await own_presence.set_custom_status(context.app, context.viewer, text, emoji, expires_at)
        )

    @strawberry.mutation(
        description="On a WebSocket: whether this device has been used just now, or not for 5 minutes. Counts at most "
        "once in 15 s, a change always. Over HTTP: INVALID_INPUT. The device is named by the connection_init payload: "
        "deviceId (chosen by the client, 1 to 64 printable characters) and deviceType (WEB, DESKTOP, MOBILE)."
    )
    async def report_activity(
        self, info: Info, active: bool, activities: list[ActivityInput] | None = None
    ) -> OwnPresenceType:
        context = info.context
        # Only callers with a token.
        _ = context.viewer
        given = [activity.to_activity() for activity in activities] if activities is not None else None
        reported = await activity_reports.report_activity(
            context.app, context.connection, is_active=active, activities=given
        )
        return OwnPresenceType(record=reported)

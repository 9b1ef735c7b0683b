"""The GraphQL types of presence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import strawberry

from resolvers.presence.own_presence import OwnPresence
from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.base.scalars import DateTime, Timestamp
from schema.compiler import prefetched_by, reads, then
from schema.presence.device_types import DeviceNode, list_own_devices
from schema.users.user_types import UserType, load_user
from store.base.ids import UserId
from store.devices.device import MAX_DEVICES
from store.presence.presence_record import Activity, ActivityType, CustomStatus, PresenceSetting
from store.presence.shown_presence import MAX_ACTIVITIES, PresenceStatus, ShownPresence

strawberry.enum(PresenceSetting)
strawberry.enum(PresenceStatus)
strawberry.enum(ActivityType)


def _prefetch_users(context: Context, presences: Sequence[PresenceType]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([presence.record.user for presence in presences])


@strawberry.type(name="CustomStatus")
class CustomStatusType:
    record: strawberry.Private[CustomStatus]
    text: str | None = reads("record.text")
    emoji: str | None = reads("record.emoji")
    expires_at: DateTime | None = reads("record.expires_at_ms")


@strawberry.type(name="Activity", description="At most 5 per user.")
class ActivityItem:
    record: strawberry.Private[Activity]
    type: ActivityType = reads("record.type")
    name: str = reads("record.name")
    details: str | None = reads("record.details")
    state: str | None = reads("record.state")
    started_at: DateTime | None = reads("record.started_at_ms")
    ends_at: DateTime | None = reads("record.ends_at_ms")


@strawberry.input
class ActivityInput:
    type: ActivityType
    name: str
    details: str | None = None
    state: str | None = None
    started_at: DateTime | None = None
    ends_at: DateTime | None = None

    def to_activity(self) -> Activity:
        """Return the activity. It is not checked."""
        return Activity(self.type, self.name, self.details, self.state, self.started_at, self.ends_at)


@strawberry.type(
    name="Presence",
    description="Over all devices: OFFLINE if none was heard from for 30 s (announced 15 s later, so that a reconnect "
    "is not announced), else DND if that is set, else IDLE if that is set or no device was used for 5 minutes, else "
    "ONLINE. isMobile: only mobile devices are connected. lastActiveAt: to the minute; of an INVISIBLE user the moment "
    "of becoming so.",
)
class PresenceType:
    record: strawberry.Private[ShownPresence]
    at_ms: strawberry.Private[int]
    """When it was as `record` says."""
    status: PresenceStatus = reads("record.status")
    is_mobile: bool = reads("record.is_mobile")
    last_active_at: DateTime | None = reads("record.last_active_at_ms")
    at: Timestamp = reads("at_ms")

    @classmethod
    def load(cls, context: Context, user: UserId) -> Any:
        """Return the presence of a user, or a Deferred of it; None if the viewer shares nothing with them."""
        clock = context.app.store.clock
        return then(
            context.loaders.presences.find(user),
            lambda shown: presence_from(shown, clock.now_ms()) if shown is not None else None,
        )

    @strawberry.field(metadata=prefetched_by(_prefetch_users))
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.record.user)

    @strawberry.field
    def custom_status(self) -> CustomStatusType | None:
        return custom_status_from(self.record.custom_status)

    @strawberry.field(metadata=holds(MAX_ACTIVITIES))
    def activities(self) -> list[ActivityItem]:
        return [ActivityItem(record=activity) for activity in self.record.activities]


@strawberry.type(name="OwnPresence")
class OwnPresenceType:
    record: strawberry.Private[OwnPresence]
    setting: PresenceSetting = reads("record.setting")
    until: DateTime | None = reads("record.until_ms")
    shown: PresenceStatus = reads("record.shown")

    @strawberry.field
    def custom_status(self) -> CustomStatusType | None:
        return custom_status_from(self.record.custom_status)

    @strawberry.field(metadata=holds(MAX_DEVICES))
    async def devices(self, info: Info) -> list[DeviceNode]:
        return await list_own_devices(info.context)


def presence_from(shown: ShownPresence, at_ms: int) -> PresenceType:
    """Return the GraphQL object of what others see of a user at a time (ms)."""
    return PresenceType(record=shown, at_ms=at_ms)


def custom_status_from(status: CustomStatus | None) -> CustomStatusType | None:
    """Return the GraphQL object of a custom status."""
    return CustomStatusType(record=status) if status is not None else None

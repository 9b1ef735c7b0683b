"""Connected devices, and who sees them, for tests of presence."""

from __future__ import annotations

from store.base.ids import UserId
from store.presence.presence_record import DevicePresence, DeviceType, PresenceSetting
from store.presence.presence_store import DeviceChange
from tests.api.client import Api, Json, Subscriber
from tests.waiting import TIMEOUT_SECONDS

PRESENCE = "user { id displayName } status isMobile customStatus { text } activities { name } lastActiveAt at"
PRESENCE_EVENTS = f"subscription ($users: [ID!]!) {{ presenceEvents(userIds: $users) {{ {PRESENCE} }} }}"


class Connections:
    """The devices of users on one server, as its connections would write them."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.server = api.services.app.hub.server

    async def write(
        self,
        user: str,
        device: str = "phone",
        *,
        type: DeviceType = DeviceType.WEB,
        idle_since_ms: int | None = None,
        gone_at_ms: int | None = None,
        since_ms: int | None = None,
    ) -> None:
        """Write the state of a device, and send the change."""
        app = self._api.services.app
        now_ms = app.store.clock.now_ms()
        state = DevicePresence(
            self.server, device, type, since_ms if since_ms is not None else now_ms, idle_since_ms, gone_at_ms
        )
        changes = await app.store.presence.change_devices([DeviceChange(UserId(user), self.server, (state,))])
        app.presence.publish(changes)

    async def end(self, user: str, device: str = "phone") -> None:
        """Write that the last connection of a device has ended now."""
        await self.write(user, device, gone_at_ms=self._api.services.app.store.clock.now_ms())

    async def set(self, user: str, value: PresenceSetting, until_ms: int | None = None) -> None:
        """Change the setting of a user."""
        app = self._api.services.app
        app.presence.publish([await app.store.presence.set_presence(UserId(user), value, until_ms)])


async def look_at(api: Api, viewer: str, *users: str) -> tuple[Subscriber, dict[str, Json]]:
    """Return a subscription of a viewer, and the first state of each user."""
    subscriber = await api.subscribe(viewer, PRESENCE_EVENTS, users=list(users))
    first = {event["user"]["id"]: event for event in await subscriber.take(len(dict.fromkeys(users)))}
    return subscriber, first


async def next_status(subscriber: Subscriber, within: float = TIMEOUT_SECONDS) -> str:
    """Return the status in the next event."""
    status: str = (await subscriber.next(within))["status"]
    return status

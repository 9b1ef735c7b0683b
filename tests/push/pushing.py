"""A deployment with a push service, whose work is done when a test says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from resolvers.push.worker.push_worker import PushWorker
from store.base.ids import UserId
from store.devices.device import PushPlatform
from tests.api.client import Api, gather_all
from tests.api.devices.calls import register
from tests.clock import ManualClock
from tests.push.recording import Push, RecordingService

SET_LEVEL = """mutation ($id: ID!, $level: NotificationLevel, $everyone: Boolean) {
    setNotificationLevel(id: $id, level: $level, suppressEveryone: $everyone) }"""


@dataclass
class Pushing:
    """Users with and without devices, the service that their devices get pushes from, and the clock of all."""

    api: Api
    clock: ManualClock
    services: dict[PushPlatform, RecordingService]
    others: tuple[Api, ...] = ()
    """Other processes of the deployment, which have the same clock."""

    @property
    def service(self) -> RecordingService:
        return self.services[PushPlatform.FCM]

    @property
    def worker(self) -> PushWorker:
        worker = self.api.services.push_worker
        assert worker is not None
        return worker

    async def create_users(self, *names: str) -> list[str]:
        """Create users, all with a phone."""
        users = await self.api.create_users(*names)
        await gather_all(*(self.add_device(user) for user in users))
        names_by_id = [{"id": user, "displayName": user.split("-")[0].title()} for user in users]
        await self.api.upsert_users(*names_by_id)
        return users

    async def add_device(
        self, user: str, id: str = "phone", platform: PushPlatform = PushPlatform.FCM, **fields: Any
    ) -> str:
        """Register a device that takes pushes. Return its token."""
        token = f"{user}:{id}"
        await register(self.api, user, id, type="MOBILE", pushPlatform=platform.value, pushToken=token, **fields)
        return token

    async def set(self, user: str, **settings: Any) -> None:
        """Change the notification settings of a user."""
        store = self.api.services.app.store.notification_settings
        await store.change(UserId(user), lambda before: replace(before, **settings))

    async def set_level(self, user: str, id: str, level: str | None, everyone: bool | None = None) -> None:
        await self.api.data(user, SET_LEVEL, id=id, level=level, everyone=everyone)

    async def use_device(self, user: str) -> Callable[[], Awaitable[None]]:
        """Connect a device of a user that is in use. Return the function that disconnects it."""
        return await self.api.connect_device(user)

    async def work(self) -> None:
        """Do all that is due."""
        await self.api.wait_until_idle()
        await self.api.services.app.stale_notifications.write()
        await self.worker.run_due()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and do all that is due then."""
        self.clock.ms += round(seconds * 1000)
        for api in (self.api, *self.others):
            store = api.services.app.store
            await store.deployment.worker_numbers.lease(store.ids, 0)
            await api.services.app.live_servers.report()
        await self.work()

    async def expect(self, user: str, *texts: tuple[str, str]) -> None:
        """Do all that is due. Then the user must have got exactly these notifications, oldest first."""
        await self.work()
        assert self.service.texts(user) == list(texts)

    async def send(self, sender: str, to: str, content: str = "hello", **more: Any) -> Any:
        return (await self.api.send(sender, to, content, **more))["message"]

    def last(self, user: str) -> Push:
        return self.service.to(user)[-1]

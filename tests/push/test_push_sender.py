"""Web Push services are named by users: those that never answer hold nobody else's pushes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from resolvers.push.push_service import PushMessage, PushOutcome, PushResult
from resolvers.push.worker.push_sender import PushSender, SentPush
from store.base.ids import ConversationId, UserId
from store.devices.device import Device, PushAddress, PushPlatform
from store.presence.presence_record import DeviceType
from tests.clock import START_MS, ManualClock
from tests.push.recording import UNREACHABLE, RecordingService
from tests.waiting import wait_for

MESSAGE = PushMessage(ConversationId("g_7"), "tag", 1, "title", "body")


class HangingHosts(RecordingService):
    """Answers for some hosts at once, and for others when the test ends."""

    def __init__(self) -> None:
        super().__init__()
        self.end = asyncio.Event()

    async def send(self, address: PushAddress, message: PushMessage) -> PushResult:
        if "hanging" in address.token:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await self.end.wait()
        return await super().send(address, message)


class Sending:
    """A sender, and the pushes that have not ended."""

    def __init__(self) -> None:
        self.clock, self.service = ManualClock(), HangingHosts()
        services = {PushPlatform.WEB_PUSH: self.service, PushPlatform.APNS: self.service}
        self.sender = PushSender(services, None, self.clock, lambda: 0.5)  # type: ignore[arg-type]
        self.tasks: list[asyncio.Task[SentPush]] = []

    def start(
        self, endpoint: str, platform: PushPlatform = PushPlatform.WEB_PUSH, message: PushMessage = MESSAGE
    ) -> asyncio.Task[SentPush]:
        device = Device(UserId("u"), "d", DeviceType.WEB, 0, 0, push=PushAddress(platform, endpoint))
        self.tasks.append(asyncio.create_task(self.sender.send(device, message)))
        return self.tasks[-1]


@pytest.fixture
async def sending() -> AsyncIterator[Sending]:
    sending = Sending()
    yield sending
    sending.service.end.set()
    await asyncio.gather(*sending.tasks)


async def test_hanging_hosts_share_few_slots(sending: Sending) -> None:
    assert (await sending.start("https://good.example/1")).is_accepted
    for number in range(200):
        sending.start(f"https://hanging{number}.example/1")
    await wait_for(lambda: sum(task.done() for task in sending.tasks) >= 185)
    assert sending.service.most_at_once == 16
    assert (await sending.start("https://good.example/2")).is_accepted
    assert (await sending.start("token", PushPlatform.APNS)).is_accepted
    assert (await sending.start("https://new.example/1")).retry_at_ms is not None


async def test_pushes_that_found_no_slot_do_not_all_come_back_at_once(sending: Sending) -> None:
    for number in range(216):
        sending.start(f"https://hanging{number}.example/1")
    await wait_for(lambda: sum(task.done() for task in sending.tasks) == 200)
    times = [task.result().retry_at_ms for task in sending.tasks if task.done()]
    assert times == [START_MS + 1_500 + 20 * number for number in range(200)]
    sending.clock.ms += 60_000
    assert (await sending.start("https://new.example/1")).retry_at_ms == sending.clock.ms + 1_500


async def test_hanging_hosts_hold_no_push_to_the_services_of_browsers(sending: Sending) -> None:
    for number in range(20):
        sending.start(f"https://hanging{number}.example/1")
    await wait_for(lambda: sending.service.at_once == 16)
    for host in ("fcm.googleapis.com", "updates.push.services.mozilla.com", "web.push.apple.com"):
        sending.service.answers.append(UNREACHABLE)
        assert not (await sending.start(f"https://{host}/1")).is_accepted
        assert (await sending.start(f"https://{host}/2")).is_accepted


async def test_one_hanging_host_gets_four_pushes_at_once(sending: Sending) -> None:
    for number in range(50):
        sending.start(f"https://hanging.example/{number}")
    await wait_for(lambda: sum(task.done() for task in sending.tasks) == 46)
    assert (await sending.start("https://new.example/1")).is_accepted


async def test_a_pause_of_web_push_is_about_one_address(sending: Sending) -> None:
    busy = PushResult(PushOutcome.UNREACHABLE, "busy", retry_after_seconds=100)
    sending.service.answers.append(busy)
    first = await sending.start("https://good.example/1")
    assert first == SentPush(may_be_shown=True, attempts=1, retry_at_ms=START_MS + 100_500)
    assert not (await sending.start("https://good.example/1")).is_accepted
    assert (await sending.start("https://good.example/2")).is_accepted
    sending.clock.ms += 100_000
    assert (await sending.start("https://good.example/1")).is_accepted


async def test_a_device_without_an_address_gets_nothing(sending: Sending) -> None:
    device = Device(UserId("u"), "d", DeviceType.WEB, 0, 0)
    assert await sending.sender.send(device, MESSAGE) == SentPush()


async def test_quiet_pushes_are_not_sent_to_safari_which_is_no_failure(sending: Sending) -> None:
    quiet = replace(MESSAGE, title="", body="", is_quiet=True)
    with capture_logs() as logs:
        assert await sending.start("https://web.push.apple.com/1", message=quiet) == SentPush()
    assert (sending.service.pushes, sending.sender.outcomes, logs) == ([], {}, [])
    assert (await sending.start("https://web.push.apple.com/1")).is_accepted
    assert (await sending.start("https://good.example/1", message=quiet)).is_accepted
    assert (await sending.start("token", PushPlatform.APNS, quiet)).is_accepted

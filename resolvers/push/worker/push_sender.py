"""Sends pushes: one lane for each service, so that a slow service delays no other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog

from resolvers.push.push_service import PushMessage, PushOutcome, PushResult, PushService
from store.base.clock import Clock
from store.base.errors import StoreError
from store.devices.device import Device, PushPlatform
from store.devices.device_store import DeviceStore

_log = structlog.get_logger()

AT_ONCE = 32
"""Pushes that a service is given at the same time."""

_MOST_WAITING = 32
"""Further pushes that wait for it. Others are sent later, and do not hold their workers."""

SEND_SECONDS = 10.0
"""Time limit of one push. Together with the wait for another one it is shorter than a lease."""

_FULL_MS = 1_000
RETRY_SECONDS = (1.0, 10.0, 60.0, 600.0)
"""Pauses after failures. Then a push is given up."""

_JITTER = 0.2


class SentPush(NamedTuple):
    """The end of an attempt to send a push.

    Attributes:
        is_shown: The service has it.
        attempts: Attempts so far, if it is sent again.
        retry_at_ms: When it is sent again; None: not again.
    """

    is_shown: bool
    attempts: int = 0
    retry_at_ms: int | None = None


class _Lane:
    """One service: bounded, and paused for as long as the service asks for."""

    def __init__(self, service: PushService) -> None:
        self.service = service
        self.slots = asyncio.Semaphore(AT_ONCE)
        self.taken = 0
        self.paused_until_ms = 0

    async def send(self, device: Device, message: PushMessage) -> PushResult:
        """Send a push when there is a slot."""
        assert device.push is not None
        self.taken += 1
        try:
            async with self.slots, asyncio.timeout(SEND_SECONDS):
                return await self.service.send(device.push, message)
        except TimeoutError:
            return PushResult(PushOutcome.UNREACHABLE, f"no answer within {SEND_SECONDS:g} s")
        except Exception:
            _log.exception("push_failed", platform=device.push.platform)
            return PushResult(PushOutcome.REFUSED, "the push could not be made")
        finally:
            self.taken -= 1


class PushSender:
    """Sends pushes to devices, and forgets addresses that are gone."""

    def __init__(
        self,
        services: Mapping[PushPlatform, PushService],
        devices: DeviceStore,
        clock: Clock,
        random: Callable[[], float],
    ) -> None:
        self._lanes = {platform: _Lane(service) for platform, service in services.items()}
        self._devices = devices
        self._clock = clock
        self._random = random
        self.outcomes: Counter[tuple[PushPlatform, PushOutcome]] = Counter()
        """Pushes that this process sent, by service and outcome."""
        self.given_up: Counter[PushPlatform] = Counter()
        """Pushes that were not sent again after the last attempt."""

    async def send(self, device: Device, message: PushMessage, attempts: int = 0) -> SentPush:
        """Send a push once. attempts: earlier ones. Raises nothing."""
        assert device.push is not None
        platform, now_ms = device.push.platform, self._clock.now_ms()
        lane = self._lanes.get(platform)
        if lane is None:
            self.outcomes[platform, PushOutcome.NOT_CONFIGURED] += 1
            return SentPush(False)
        if lane.paused_until_ms > now_ms:
            return SentPush(False, attempts, lane.paused_until_ms + self._spread(_FULL_MS))
        if lane.taken >= AT_ONCE + _MOST_WAITING:
            return SentPush(False, attempts, now_ms + _FULL_MS + self._spread(_FULL_MS))
        result = await lane.send(device, message)
        self.outcomes[platform, result.outcome] += 1
        if result.retry_after_seconds is not None:
            until_ms = self._clock.now_ms() + round(result.retry_after_seconds * 1000)
            lane.paused_until_ms = max(lane.paused_until_ms, until_ms)
        match result.outcome:
            case PushOutcome.ACCEPTED:
                return SentPush(True)
            case PushOutcome.GONE:
                await self._forget(device)
                return SentPush(False)
            case PushOutcome.UNREACHABLE:
                return self._retry(lane, platform, attempts)
            case _:
                _log.warning("push_refused", platform=platform, outcome=result.outcome, reason=result.reason)
                return SentPush(False)

    async def close(self) -> None:
        """Close the connections to the services."""
        for lane in self._lanes.values():
            await lane.service.close()

    def _retry(self, lane: _Lane, platform: PushPlatform, attempts: int) -> SentPush:
        if attempts >= len(RETRY_SECONDS):
            self.given_up[platform] += 1
            return SentPush(False)
        pause_ms = round(RETRY_SECONDS[attempts] * 1000)
        at_ms = self._clock.now_ms() + pause_ms + self._spread(round(pause_ms * _JITTER))
        if lane.paused_until_ms > at_ms:
            at_ms = lane.paused_until_ms + self._spread(_FULL_MS)
        return SentPush(False, attempts + 1, at_ms)

    def _spread(self, most_ms: int) -> int:
        return round(self._random() * most_ms)

    async def _forget(self, device: Device) -> None:
        try:
            await self._devices.forget_push(device)
        except StoreError as error:
            # The service says it again with the next push.
            _log.warning("push_address_not_forgotten", reason=str(error))

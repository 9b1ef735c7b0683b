"""Sends pushes, with a bounded queue for each service, so that a slow service delays no other."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog

from resolvers.push.push_service import PushMessage, PushOutcome, PushResult, PushService
from resolvers.push.services.web_push import is_known_service, takes_quiet_pushes
from store.base.clock import Clock
from store.base.errors import StoreError
from store.devices.device import Device, PushAddress, PushPlatform
from store.devices.device_store import DeviceStore

_log = structlog.get_logger()

AT_ONCE = 32
"""Pushes that are sent to one service at the same time."""

_MOST_TAKEN = 300
"""Pushes that a service has or that wait for it. Others are sent later, and do not hold their workers."""

_LONGEST_WAIT_SECONDS = 5.0
"""Longest wait for a slot. Together with SEND_SECONDS it is shorter than a lease. Of a slow service fewer pushes
wait."""

_UNPROVEN_AT_ONCE = 16
"""Pushes at the same time to all Web Push services together that have not answered, or not the last time."""

_EACH_UNPROVEN_AT_ONCE = 4
_MOST_HOSTS = 1_000
_MOST_PAUSES = 10_000

SEND_SECONDS = 10.0
"""Time limit of one push."""

_FULL_MS = 1_000
"""Shortest time after which a push that found no slot is sent again."""

_UNPROVEN_MS = 20
"""Time between two pushes that come back for a slot of services that have not answered."""

_LONGEST_PUT_OFF_MS = 600_000
RETRY_SECONDS = (1.0, 10.0, 60.0, 600.0)
"""Pauses after failures. Then a push is given up."""

_JITTER = 0.2


class SentPush(NamedTuple):
    """The outcome of an attempt to send a push.

    Attributes:
        is_accepted: The service has it.
        may_be_shown: The service has it, or may have it although it gave no answer.
        attempts: Attempts so far, if it is sent again.
        retry_at_ms: When it is sent again; None: not again.
    """

    is_accepted: bool = False
    may_be_shown: bool = False
    attempts: int = 0
    retry_at_ms: int | None = None


class _PutOff:
    """Spreads pushes that found no slot over time: each comes back after the one before it."""

    def __init__(self) -> None:
        self._last_ms = 0.0

    def next_ms(self, now_ms: int, interval_ms: float) -> int:
        """Return the time of the next one."""
        self._last_ms = min(max(self._last_ms + interval_ms, now_ms + _FULL_MS), now_ms + _LONGEST_PUT_OFF_MS)
        return round(self._last_ms)


class _Lane:
    """The bounded queue of pushes to one service, so that it does not occupy all workers.

    is_proven: The service has answered the last push. Users name services of Web Push: a new one may never answer.
    Known services are always proven: they share no slots with those that a user may have made to hang.
    """

    def __init__(self, service: PushService, *, is_known: bool) -> None:
        self._service = service
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._began: dict[object, float] = {}
        self._usual_seconds = 0.0
        self.is_known = self.is_proven = is_known
        self.put_off = _PutOff()
        self.taken = 0

    @property
    def wait_seconds(self) -> float:
        """Expected wait of another push for a slot, by the durations of the last pushes and the oldest running one."""
        oldest = time.monotonic() - next(iter(self._began.values())) if self._began else 0.0
        return max(0, self.taken - AT_ONCE) / AT_ONCE * max(self._usual_seconds, oldest)

    @property
    def interval_ms(self) -> float:
        """Usual time between two pushes that end."""
        return self._usual_seconds * 1000 / AT_ONCE

    async def send(self, address: PushAddress, message: PushMessage) -> PushResult | None:
        """Send a push when there is a slot; None: there was none for too long."""
        self.taken += 1
        try:
            try:
                async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                    await self._slots.acquire()
            except TimeoutError:
                return None
            try:
                return await self._send_now(address, message)
            finally:
                self._slots.release()
        finally:
            self.taken -= 1

    async def _send_now(self, address: PushAddress, message: PushMessage) -> PushResult:
        place, began = object(), time.monotonic()
        self._began[place] = began
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return await self._service.send(address, message)
        except TimeoutError:
            return PushResult(PushOutcome.UNREACHABLE, f"no answer within {SEND_SECONDS:g} s")
        except Exception:
            _log.exception("push_failed", platform=address.platform)
            return PushResult(PushOutcome.REFUSED, "the push could not be made")
        finally:
            del self._began[place]
            self._usual_seconds += (time.monotonic() - began - self._usual_seconds) * _SMOOTHING


_SMOOTHING = 0.1


class PushSender:
    """Sends pushes to devices, and forgets addresses that are gone.

    Each service has its own queue (`_Lane`), and so has each host of Web Push. If a queue is full, or its service has
    asked for a pause, pushes are sent later.
    """

    def __init__(
        self,
        services: Mapping[PushPlatform, PushService],
        devices: DeviceStore,
        clock: Clock,
        random: Callable[[], float],
    ) -> None:
        self._services = services
        self._devices = devices
        self._clock = clock
        self._random = random
        self._lanes: dict[str, _Lane] = {}
        self._unproven = 0
        self._paused_until_ms: dict[str, int] = {}
        """Services, and addresses of Web Push, that asked for a pause."""
        self.outcomes: Counter[tuple[PushPlatform, PushOutcome]] = Counter()
        """Pushes that this process sent, by service and outcome."""
        self._put_off_unproven = _PutOff()
        self.given_up: Counter[PushPlatform] = Counter()
        """Pushes that were not sent again after the last attempt."""

    async def send(self, device: Device, message: PushMessage, attempts: int = 0) -> SentPush:
        """Send a push once. attempts: earlier ones. Raises nothing. Nothing is sent where quiet pushes do harm."""
        address = device.push
        if address is None or address.platform not in self._services:
            if address is not None:
                self.outcomes[address.platform, PushOutcome.NOT_CONFIGURED] += 1
            return SentPush()
        if message.is_quiet and not takes_quiet_pushes(_web_push_host(address)):
            return SentPush()
        held = self.hold(device, attempts)
        if held is not None:
            return held
        lane = self._lane_of(address)
        result = await self._send_in(lane, address, message)
        if result is None:
            return SentPush(attempts=attempts, retry_at_ms=self._put_off(lane))
        self.outcomes[address.platform, result.outcome] += 1
        if result.retry_after_seconds is not None:
            self._pause(address, round(result.retry_after_seconds * 1000))
        match result.outcome:
            case PushOutcome.ACCEPTED:
                return SentPush(is_accepted=True, may_be_shown=True)
            case PushOutcome.GONE:
                await self._forget(device)
                return SentPush()
            case PushOutcome.UNREACHABLE:
                return self._retry(address, attempts)
            case _:
                _log.warning("push_refused", platform=address.platform, outcome=result.outcome, reason=result.reason)
                return SentPush()

    def hold(self, device: Device, attempts: int = 0) -> SentPush | None:
        """Return the end of an attempt that has to wait: for the end of a pause, or for other pushes; None: it has not.

        So callers need not prepare what cannot be sent now.
        """
        address = device.push
        if address is None or address.platform not in self._services:
            return None
        paused_until_ms = self._paused_until_ms.get(_pause_key(address), 0)
        if paused_until_ms > self._clock.now_ms():
            return SentPush(attempts=attempts, retry_at_ms=paused_until_ms + self._spread(_FULL_MS))
        lane = self._lane_of(address)
        return SentPush(attempts=attempts, retry_at_ms=self._put_off(lane)) if self._is_full(lane) else None

    def _put_off(self, lane: _Lane) -> int:
        """Return when a push that found no slot is sent again. No more of them come back than can be sent."""
        queue, interval_ms = (
            (lane.put_off, lane.interval_ms) if lane.is_proven else (self._put_off_unproven, _UNPROVEN_MS)
        )
        return queue.next_ms(self._clock.now_ms(), interval_ms) + self._spread(_FULL_MS)

    async def _send_in(self, lane: _Lane, address: PushAddress, message: PushMessage) -> PushResult | None:
        was_proven = lane.is_proven
        self._unproven += not was_proven
        try:
            result = await lane.send(address, message)
        finally:
            self._unproven -= not was_proven
        if not lane.is_known and result is not None:
            lane.is_proven = result.outcome is not PushOutcome.UNREACHABLE
        return result

    def _lane_of(self, address: PushAddress) -> _Lane:
        host = _web_push_host(address)
        name = f"{address.platform} {host}"
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= _MOST_HOSTS:
                self._lanes = {name: lane for name, lane in self._lanes.items() if lane.taken}
            lane = self._lanes[name] = _Lane(
                self._services[address.platform],
                is_known=address.platform is not PushPlatform.WEB_PUSH or is_known_service(host),
            )
        return lane

    def _is_full(self, lane: _Lane) -> bool:
        if lane.is_proven:
            return lane.taken >= _MOST_TAKEN or lane.wait_seconds > _LONGEST_WAIT_SECONDS
        return lane.taken >= _EACH_UNPROVEN_AT_ONCE or self._unproven >= _UNPROVEN_AT_ONCE

    def _pause(self, address: PushAddress, pause_ms: int) -> None:
        now_ms, key = self._clock.now_ms(), _pause_key(address)
        if len(self._paused_until_ms) >= _MOST_PAUSES:
            self._paused_until_ms = {name: until for name, until in self._paused_until_ms.items() if until > now_ms}
        self._paused_until_ms[key] = max(self._paused_until_ms.get(key, 0), now_ms + pause_ms)

    def _retry(self, address: PushAddress, attempts: int) -> SentPush:
        if attempts >= len(RETRY_SECONDS):
            self.given_up[address.platform] += 1
            return SentPush(may_be_shown=True)
        pause_ms = round(RETRY_SECONDS[attempts] * 1000)
        at_ms = self._clock.now_ms() + pause_ms + self._spread(round(pause_ms * _JITTER))
        paused_until_ms = self._paused_until_ms.get(_pause_key(address), 0)
        if paused_until_ms > at_ms:
            at_ms = paused_until_ms + self._spread(_FULL_MS)
        return SentPush(may_be_shown=True, attempts=attempts + 1, retry_at_ms=at_ms)

    def _spread(self, most_ms: int) -> int:
        return round(self._random() * most_ms)

    async def _forget(self, device: Device) -> None:
        try:
            await self._devices.forget_push(device)
        except StoreError as error:
            # The service says it again with the next push.
            _log.warning("push_address_not_forgotten", reason=str(error))


def _web_push_host(address: PushAddress) -> str:
    """Return the host of a Web Push service; "" for other services."""
    return urlsplit(address.token).hostname or "" if address.platform is PushPlatform.WEB_PUSH else ""


def _pause_key(address: PushAddress) -> str:
    """Return what a pause is about. Of Web Push it is one address: users name the services, so they may be hostile."""
    return address.token if address.platform is PushPlatform.WEB_PUSH else address.platform

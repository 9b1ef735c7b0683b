"""Delivers the events of one webhook: in order in each conversation, several conversations at the same time."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import structlog

from resolvers.web_requests.signatures import signed_headers
from resolvers.webhooks.outgoing.endpoint import Attempt, Endpoints
from resolvers.webhooks.outgoing.payloads import Payloads
from resolvers.webhooks.outgoing.retry_schedule import (
    OUTAGE_FAILURES,
    PAUSED_AFTER_MS,
    delay_ms,
    hold_ms,
    parse_retry_after,
)
from store.base.errors import StoreError
from store.base.tasks import end_tasks
from store.store import Store
from store.webhooks.delivery_store import DueWebhook
from store.webhooks.event_rows import KNOWN_TYPES, Line, WebhookEvent
from store.webhooks.webhook import WebhookId

_log = structlog.get_logger()

LINES_AT_ONCE = 8
"""Conversations whose events are sent to one webhook at the same time."""

EVENTS_AT_ONCE = 16
"""Events of a conversation that are read together. If the process dies, at most these are sent again."""

_LOOK_SECONDS = 0.3
_LONGEST_LOOK_SECONDS = 1.2
"""Interval at which further due conversations are looked for while one is slow. It doubles until one is found."""

_FRESH_SECONDS = 2.0
"""Time after which a webhook is read again while its events are sent."""

_PAUSE_SECONDS = 1.0
"""Pause after a failure of a database."""


UNKNOWN_TYPE_RETRY_MS, UNKNOWN_TYPE_HELD_MS = 5_000, 3_600_000
"""Events of types that only later versions know wait for servers of these versions.

A server of this version looks at them again after the first time. It drops an event that it has held for the second
time: then the operator has probably gone back for good. The age of the event says nothing, because its endpoint may
have failed for long.
"""

_MOST_UNKNOWN = 1_000
"""Largest number of lines for which the time of waiting for servers of later versions is remembered."""


SLOW_SECONDS = 2.0
"""An endpoint that takes longer than this to answer counts as slow."""


class Delivering(NamedTuple):
    """The parts of a process that deliver, for all webhooks.

    `outcomes`: attempts by outcome. `slow`: webhooks whose endpoint was slow when it answered last, or did not answer.
    `unknown`: lines that wait for servers of later versions: the event that is next (empty after one was dropped), and
    the time since when (ms).
    """

    store: Store
    endpoints: Endpoints
    payloads: Payloads
    chance: random.Random
    outcomes: Counter[str]
    slow: set[WebhookId]
    unknown: dict[str, tuple[str, int]]


class Deliverer:
    """Delivers the events of one webhook while this process has its lease.

    The first pending event of a line is sent, and the next one only after its success. Each success is stored before
    the line continues with the next rows, so an event may be sent again after a failure, with the same id.
    """

    def __init__(
        self, parts: Delivering, id: WebhookId, has_lease: Callable[[], bool], is_turn: Callable[[], bool]
    ) -> None:
        """Create it.

        Args:
            parts: The parts of this process.
            id: The webhook.
            has_lease: Returns whether the lease is certainly still valid.
            is_turn: Returns whether this process may go on; otherwise other webhooks wait for it.
        """
        self._is_turn = is_turn
        self._is_paused = False
        """The webhook was PAUSED by an attempt."""
        self._parts = parts
        self._store = parts.store
        self._deliveries = parts.store.webhook_deliveries
        self._id = id
        self._has_lease = has_lease
        self._look_seconds = _LOOK_SECONDS
        self._lines: dict[str, asyncio.Task[None]] = {}
        """Lines that are being delivered."""
        self._failures = 0
        """Failed attempts since the last success, as stored."""
        self._held_until_ms = 0
        """No attempt begins until then, in any line."""
        self._wished_until_ms = 0
        """End of the pause that the endpoint asked for. A success of an attempt that ran then does not end it."""

    async def run(self) -> None:
        """Deliver all that is due, then return. Raises StoreError."""
        self._is_paused = False
        self._held_until_ms = self._wished_until_ms = 0
        try:
            while self._may_send():
                due = await self._deliveries.find_due(self._id, self._now_ms())
                if due is None:
                    await self._finish()
                    return
                self._failures = due.failures
                if due.resumed_ms is not None and await self._deliveries.resume_some(self._id, due.resumed_ms):
                    continue
                if not await self._deliver_some():
                    return
            await self._finish()
        finally:
            await end_tasks(self._lines.values())
            # Events whose attempt failed are still due.
            await asyncio.gather(*self._lines.values(), return_exceptions=True)

    async def _deliver_some(self) -> bool:
        """Start lines that are due, and wait for one to end, or for a moment. Return false if none is running."""
        most = LINES_AT_ONCE if self._failures < OUTAGE_FAILURES else 1
        free = most - len(self._lines)
        self._look_seconds = min(2 * self._look_seconds, _LONGEST_LOOK_SECONDS)
        if free > 0:
            found = await self._deliveries.list_due_lines(self._id, self._now_ms(), free, self._lines.keys())
            for line in found:
                self._lines[line.id] = asyncio.create_task(self._deliver_line(line))
                self._look_seconds = _LOOK_SECONDS
        if not self._lines:
            return False
        await self._wait(self._look_seconds if len(self._lines) < most else None)
        return True

    async def _wait(self, seconds: float | None) -> None:
        """Wait until a line has ended, or for a time."""
        done, _ = await asyncio.wait(self._lines.values(), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._lines = {id: task for id, task in self._lines.items() if task not in done}
        for task in done:
            task.result()

    async def _finish(self) -> None:
        """Wait for the attempts that run."""
        while self._lines and self._has_lease():
            await self._wait(None)

    async def _deliver_line(self, line: Line) -> None:
        due = await self._deliveries.find_due(self._id, self._now_ms())
        if due is None:
            return
        events = await self._deliveries.list_pending(line, EVENTS_AT_ONCE)
        delivered: list[tuple[WebhookEvent, int]] = []
        dropped: list[WebhookEvent] = []
        failed: tuple[WebhookEvent, Attempt] | None = None
        is_cut = is_unknown = False
        read_at = time.monotonic()
        try:
            for event in events:
                if time.monotonic() - read_at > _FRESH_SECONDS:
                    # The secret may have been rotated meanwhile.
                    read_at = time.monotonic()
                    due = await self._deliveries.find_due(self._id, self._now_ms())
                if due is None or not self._may_send():
                    is_cut = True
                    break
                if event.type not in KNOWN_TYPES:
                    if not self._may_drop(line, event):
                        is_unknown = True
                        break
                    _log.warning("webhook_event_not_understood", webhook=self._id, type=event.type)
                    dropped.append(event)
                    continue
                self._parts.unknown.pop(line.id, None)
                body = await self._parts.payloads.render(due.webhook, event)
                if body is None:
                    dropped.append(event)
                    continue
                attempt = await self._send(due, event, body)
                if not attempt.is_success:
                    failed = event, attempt
                    break
                assert attempt.status is not None
                delivered.append((event, attempt.status))
                await self._note_success()
        finally:
            # Also if this task is cancelled between two events.
            await self._deliveries.complete(delivered, dropped, self._now_ms())
        if failed is not None:
            await self._note_failure(line._replace(failures=0) if delivered else line, *failed)
        elif is_cut:
            # The line is due as before. Its delivered events are stored.
            return
        elif is_unknown:
            await self._deliveries.hold_line(line, self._now_ms() + UNKNOWN_TYPE_RETRY_MS)
        elif len(events) < EVENTS_AT_ONCE:
            await self._deliveries.end_line(line, self._now_ms())
        else:
            await self._deliveries.continue_line(line, self._now_ms())

    def _may_drop(self, line: Line, event: WebhookEvent) -> bool:
        """Return whether an event that this version does not know is dropped. Otherwise it waits."""
        unknown, now = self._parts.unknown, self._now_ms()
        next, since_ms = unknown.pop(line.id, (event.id, now))
        if next not in ("", event.id):
            # A server of a later version has delivered the one before.
            since_ms = now
        is_over = now >= max(since_ms, event.at_ms) + UNKNOWN_TYPE_HELD_MS
        if len(unknown) >= _MOST_UNKNOWN:
            del unknown[min(unknown, key=lambda id: unknown[id][1])]
        # The events after it have waited for the same time.
        unknown[line.id] = ("" if is_over else event.id, since_ms)
        return is_over

    def _may_send(self) -> bool:
        """Return whether another attempt may begin. A webhook that is deleted is unknown to all servers."""
        is_known = self._id in self._store.webhook_registry.webhooks
        is_stopped = self._is_paused or self._now_ms() < self._held_until_ms
        return is_known and not is_stopped and self._has_lease() and self._is_turn()

    async def _send(self, due: DueWebhook, event: WebhookEvent, body: bytes) -> Attempt:
        webhook = due.webhook
        assert webhook.url is not None
        now_ms = self._now_ms()
        headers = signed_headers(event.id, now_ms // 1000, body, webhook.secrets(now_ms))
        began = time.monotonic()
        attempt = await self._parts.endpoints.send(webhook.url, body, headers)
        if time.monotonic() - began > SLOW_SECONDS:
            self._parts.slow.add(self._id)
        else:
            self._parts.slow.discard(self._id)
        self._parts.outcomes[attempt.outcome] += 1
        return attempt

    async def _note_success(self) -> None:
        if self._failures:
            was_down, self._failures = self._failures >= OUTAGE_FAILURES, 0
            # The lines that failed while the endpoint was down need not wait for their next attempt.
            self._held_until_ms = self._wished_until_ms
            await self._deliveries.set_active(self._id, self._now_ms() if was_down else None, self._wished_until_ms)

    async def _note_failure(self, line: Line, event: WebhookEvent, attempt: Attempt) -> None:
        now_ms = self._now_ms()
        self._failures += 1
        wish_ms = parse_retry_after(attempt.retry_after, now_ms)
        wait_ms = max(delay_ms(line.failures + 1, self._parts.chance), wish_ms)
        held_ms = max(hold_ms(self._failures), wish_ms)
        self._held_until_ms = max(self._held_until_ms, now_ms + held_ms)
        self._wished_until_ms = max(self._wished_until_ms, now_ms + wish_ms if wish_ms else 0)
        since_ms = await self._deliveries.set_failing(
            self._id, now_ms, now_ms + held_ms if held_ms else 0, PAUSED_AFTER_MS, is_gone=attempt.is_gone
        )
        await self._deliveries.fail(event, line, attempt.status, now_ms + wait_ms)
        if since_ms is not None and not self._is_paused:
            self._is_paused = True
            _log.warning("webhook_paused", webhook=self._id, status=attempt.status, failing_since_ms=since_ms)

    def _now_ms(self) -> int:
        return self._store.clock.now_ms()


async def deliver_or_log(deliverer: Deliverer, id: WebhookId) -> None:
    """Deliver what is due. Failures are logged, and the events are found again later."""
    try:
        await deliverer.run()
    except StoreError as error:
        _log.warning("webhook_not_delivered_yet", webhook=id, reason=str(error))
        await asyncio.sleep(_PAUSE_SECONDS)
    except Exception:
        _log.exception("webhook_not_delivered_yet", webhook=id)
        await asyncio.sleep(_PAUSE_SECONDS)

"""Notes events of outgoing webhooks in Redis when they become visible (ADR 90)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import structlog

from store.base.background import mark_as_background
from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.base.workspace_ids import WorkspaceId
from store.messages.message import Message
from store.messages.revision_store import RevisionKind
from store.redis.cache import Call
from store.redis.server_lock import ServerLock
from store.reports.report import Report
from store.store import Store
from store.webhooks.event_rows import GAP, NotedEvent
from store.webhooks.webhook import WebhookEventType
from store.webhooks.webhook_registry import CLOCK_TOLERANCE_MS
from store.workspaces.policy import PendingChange, Policy
from subscriptions.delivery.webhooks.message_events import events_of, reactions_event, report_event
from subscriptions.realtime.bus import Bus

_log = structlog.get_logger()

REFRESH_SECONDS = 2.0
"""Interval at which each process reads the list of webhooks, if it has changed."""

ASK_SECONDS = REFRESH_SECONDS + 0.5
"""Time after which every process that reaches MongoDB knows a new webhook, even if it has not answered."""

_QUESTION = "webhooks"

_LONGEST_NOTING_MS = 60_000
"""Longest time from the time of a message, or of a change of it, to its note, with the difference of clocks."""

_PAGE = 500

Json = dict[str, Any]


class WebhookNotes:
    """Notes events for the webhooks that this process knows. An event that no webhook wants costs nothing.

    Before this process has read the webhooks for the first time, it notes all events.
    """

    def __init__(self, store: Store, bus: Bus) -> None:
        """Create it, and answer the questions of other servers."""
        self._store = store
        self._bus = bus
        self._registry = store.webhook_registry
        self._task: asyncio.Task[None] | None = None
        self.noted = asyncio.Event()
        """Set whenever events were noted by this process."""
        bus.calls.answer_kind(_QUESTION, self._answer)

    async def open(self) -> None:
        """Read the webhooks, and continue to do so in the background."""
        with suppress(StoreError):
            await self._registry.refresh()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None

    async def announce(self) -> None:
        """Wait until all servers that reach MongoDB know the present webhooks."""
        try:
            await self._registry.refresh()
            servers = await self._store.deployment.worker_numbers.list_ring()
        except StoreError:
            await asyncio.sleep(ASK_SECONDS)
            return
        await asyncio.gather(
            *(
                self._bus.calls.ask(server, {_QUESTION: True}, timeout_seconds=ASK_SECONDS)
                for server in servers
                if server != self._store.deployment.owner
            ),
            return_exceptions=True,
        )

    # Notes

    def note_calls(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> list[Call]:
        """See `MessageNotes`."""
        if not self._registry.may_want_any or revision is RevisionKind.REACTIONS:
            return []
        return self._store.webhook_notes.note_calls(self._events_of(messages, revision))

    def _events_of(self, messages: Sequence[Message], revision: RevisionKind | None) -> Iterator[NotedEvent]:
        now_ms = self._store.clock.now_ms()
        for message in messages:
            yield from events_of(message, revision, self._registry.wants, now_ms)

    def _recovered(self, messages: Sequence[Message], revision: RevisionKind | None) -> Iterator[NotedEvent]:
        """Yield events with the times at which they happened: webhooks get none from before they were created."""
        for message in messages:
            at_ms = message.created_at_ms
            if revision is RevisionKind.EDIT:
                at_ms = message.edited_at_ms or at_ms
            elif revision is RevisionKind.RECALL:
                at_ms = message.recalled_at_ms or at_ms
            yield from events_of(message, revision, self._registry.wants, at_ms)

    def take(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> None:
        """See `MessageNotes`."""
        if self._registry.may_want_any:
            self.noted.set()

    async def note_reactions(self, message: Message) -> None:
        """Note that the reactions to a message have changed. Raises StoreError."""
        if self._registry.wants(WebhookEventType.REACTIONS_CHANGED, message.conversation):
            await self._note([reactions_event(message, self._store.clock.now_ms())])

    def wants_report(self, report: Report) -> bool:
        """Return whether a webhook may want the event of a report."""
        return self._registry.wants(WebhookEventType.REPORT_OPENED, report_event(report).conversation)

    async def note_report(self, report: Report) -> None:
        """Note that a report was opened. Raises StoreError. It may be called again for the same report."""
        if self.wants_report(report):
            await self._note([report_event(report)])

    async def note_joined(self, workspace: WorkspaceId, users: Collection[UserId]) -> None:
        """Note that users have joined a workspace. If Redis is unavailable, the event is lost."""
        kind = WebhookEventType.MEMBER_JOINED
        if self._registry.wants(kind, workspace):
            now_ms = self._store.clock.now_ms()
            with suppress(StoreError):
                await self._note(
                    NotedEvent(_id(kind, workspace, user, now_ms), kind.value, workspace, (user,), now_ms)
                    for user in users
                )

    async def note_change(self, policy: Policy, change: PendingChange) -> None:
        """Note changed channels of a workspace, and members who have left. Raises StoreError.

        It may be called again for the same change.
        """
        workspace, now_ms = policy.workspace, self._store.clock.now_ms()
        changed, left = WebhookEventType.CHANNEL_CHANGED, WebhookEventType.MEMBER_LEFT
        events = [
            NotedEvent(_id(changed, channel, policy.version), changed.value, channel, (channel,), now_ms)
            for channel in sorted(change.channels)
            if self._registry.wants(changed, channel)
        ]
        if change.members and not policy.is_deleted and self._registry.wants(left, workspace):
            present = await self._store.policies.find_members(workspace, sorted(change.members), policy.version)
            events += [
                NotedEvent(_id(left, workspace, user, policy.version), left.value, workspace, (user,), now_ms)
                for user in sorted(change.members - set(present))
            ]
        await self._note(events)

    async def recover(self, from_ms: int, lock: ServerLock) -> None:
        """Note the messages and reports again whose notes Redis may have lost, and announce a gap for other events.

        Raises StoreError: repeat it.

        Args:
            from_ms: When Redis was last known to have its contents.
            lock: The lock of the recovery. It is extended after each page.
        """
        await self._registry.refresh()
        if not self._registry.may_want_any:
            return
        store = self._store
        oldest_ms = min(webhook.created_at_ms for webhook in self._registry.webhooks.values()) - CLOCK_TOLERANCE_MS
        written_ms = await store.webhook_log.find_written_until() - _LONGEST_NOTING_MS
        since_ms = max(oldest_ms, min(from_ms, written_ms))
        async for messages, revision in store.changed_messages.list_since(since_ms, _PAGE):
            calls = store.webhook_notes.note_calls(self._recovered(messages, revision), is_recovery=True)
            if calls:
                await store.cache.run_in_background(calls)
            await lock.extend()
        await self._recover_reports(since_ms, lock)
        gap = NotedEvent(f"gap-{store.deployment.redis_epoch}", GAP, "", (since_ms, store.clock.now_ms()), from_ms)
        await self._note([gap])
        _log.warning("webhook_events_may_be_lost", since_ms=since_ms)

    async def _recover_reports(self, since_ms: int, lock: ServerLock) -> None:
        after = 0
        while reports := await self._store.reports.list_since(since_ms, _PAGE, after):
            events = [report_event(report) for report in reports if self.wants_report(report)]
            calls = self._store.webhook_notes.note_calls(events, is_recovery=True)
            if calls:
                await self._store.cache.run_in_background(calls)
            await lock.extend()
            after = reports[-1].order

    async def _note(self, events: Iterable[NotedEvent]) -> None:
        calls = self._store.webhook_notes.note_calls(events)
        if calls:
            self._store.cache.require_shared()
            await self._store.cache.run_in_background(calls)
            self.noted.set()

    # The list of webhooks

    async def _answer(self, _question: Json) -> Json:
        await self._registry.refresh()
        return {}

    async def _run(self) -> None:
        mark_as_background()
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self._registry.refresh()
            except StoreError:
                continue
            except Exception:
                _log.exception("webhooks_not_read")


def _id(kind: WebhookEventType, *parts: object) -> str:
    """Return the id of an event that is about no message. It contains no character with a meaning in signatures."""
    digest = hashlib.sha256("\n".join(map(str, (kind.value, *parts))).encode()).hexdigest()
    return f"e_{digest[:32]}"

"""The parts of outgoing webhooks in one process."""

from __future__ import annotations

import asyncio

from resolvers.web_requests.addresses import SystemResolver, outgoing_rules
from resolvers.web_requests.errors import AddressRefused, FetchFailed
from resolvers.webhooks.outgoing.delivery_worker import WEBHOOKS_AT_ONCE, DeliveryWorker
from resolvers.webhooks.outgoing.waiting_events import WaitingEvents
from store.store import Store
from subscriptions.delivery.recipients import ListViewers
from subscriptions.delivery.webhooks.log_writer import LogWriter
from subscriptions.delivery.webhooks.webhook_notes import WebhookNotes
from subscriptions.realtime.bus import Bus

_RESOLVE_SECONDS = 5.0
"""Time that the creation of a webhook waits for the addresses of its host. They are judged again when it connects."""


class WebhookParts:
    """Notes events. In processes that do background work it also writes the log and delivers."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        notes: WebhookNotes,
        list_viewers: ListViewers,
        *,
        allow_loopback: bool,
        does_work: bool,
    ) -> None:
        """Connect the parts. Nothing works before `open`.

        Args:
            store: The store.
            bus: Announces new events and webhooks.
            notes: Notes events for the log.
            list_viewers: Returns the users who can read a message.
            allow_loopback: Endpoints may be on loopback, with http.
            does_work: This process writes the log and delivers.
        """
        self._rules = outgoing_rules(allow_loopback=allow_loopback)
        # A name that never answers delays no other webhook.
        self._resolver = SystemResolver(2 * WEBHOOKS_AT_ONCE)
        self._does_work = does_work
        self.notes = notes
        self.writer = LogWriter(store, bus, notes, list_viewers)
        self.worker = DeliveryWorker(store, bus, self._rules, self._resolver.resolve)
        self.waiting = WaitingEvents(store, lambda: self.writer.has_lease)

    async def open(self) -> None:
        """Begin."""
        await self.notes.open()
        if self._does_work:
            self.writer.open()
            self.worker.open()
            self.waiting.open()

    async def close(self) -> None:
        """Stop. Noted events are written first, if this process writes the log."""
        await self.notes.close()
        await self.writer.close()
        await self.worker.close()
        await self.waiting.close()
        self._resolver.close()

    async def find_refusal(self, url: str) -> str | None:
        """Return why events may not be sent to an address; None: they may. Its host is resolved.

        A host without addresses is not refused: it may get some later.
        """
        try:
            address = self._rules.parse(url)
            async with asyncio.timeout(_RESOLVE_SECONDS):
                await self._rules.judge(address.host, address.port, self._resolver.resolve)
        except AddressRefused as error:
            return error.reason
        except (FetchFailed, TimeoutError):
            return None
        return None

"""Loss recovery: finds messages that were stored but not fanned out when Redis was lost, and delivers them.

It is needed if the servers that were delivering these messages died too. It also notes messages for pushes and webhooks
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from store.base.ids import MessageId
from store.base.snowflakes import first_id_at
from store.messages.message import Message
from store.redis.server_lock import LockLost, ServerLock
from store.store import Store
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.push.push_notes import PushNotes
from subscriptions.delivery.webhooks.webhook_notes import WebhookNotes

_log = structlog.get_logger()

_PAGE = 1_000
_PAUSE_SECONDS = 0.05
_LOCK_MS = 60_000

_SETTLING_SECONDS = 1.0
"""Time for which running writes may still complete a message."""

PUSH_MS = 600_000
"""Age at the loss up to which messages are noted for pushes again: these may have waited for a device or a service."""

_LATE_MS = 5_000
"""The recovery checks messages up to this time after its beginning. Servers notice a loss within seconds, and their
clocks differ a little. Later messages are delivered with the new contents of Redis."""

_YOUNG_MS = 10_000
"""Age of messages from which on no server writes them any more."""


class LossRecovery:
    """Recovery by one server at a time. If that server dies, another one starts over after a minute at most."""

    def __init__(
        self, store: Store, delivery: MessageDelivery, push_notes: PushNotes, webhook_notes: WebhookNotes
    ) -> None:
        self._store = store
        self._webhook_notes = webhook_notes
        self._delivery = delivery
        self._push_notes = push_notes

    async def recover(self) -> None:
        """Recover if Redis was lost and no other server recovers. Raises StoreError; the next call tries again."""
        store = self._store
        from_ms = store.deployment.generations.recover_from_ms
        if from_ms is None:
            return
        store.cache.require_shared()
        epoch = store.deployment.redis_epoch
        lock = ServerLock(store.cache, store.keys.loss_recovery_lock, store.deployment.owner, _LOCK_MS)
        if not await lock.take():
            return
        try:
            await self._recover(from_ms, epoch, lock)
        except LockLost:
            # This server was paused, and another one does the recovery now.
            return
        finally:
            await lock.release()

    async def _recover(self, from_ms: int, epoch: str, lock: ServerLock) -> None:
        store = self._store
        await self._webhook_notes.recover(from_ms, lock)
        # Their notes for the index are lost too.
        await store.index_states.extend(from_ms)
        await self._note_earlier(from_ms, lock)
        delivered = await self._deliver_from(from_ms, lock)
        await store.deployment.end_loss_recovery(from_ms, epoch)
        if delivered:
            _log.warning("incomplete_deliveries_finished", messages=delivered)

    async def _deliver_from(self, from_ms: int, lock: ServerLock) -> int:
        """Deliver all incomplete messages from a time on. Return their number."""
        delivered = 0
        after: MessageId | None = None
        end = first_id_at(self._store.clock.now_ms() + _LATE_MS)
        while page := await self._store.incomplete_deliveries.list_page(from_ms, after, _PAGE):
            after = page[-1].id
            delivered += await self._deliver(page)
            await self._note(page)
            if after >= end:
                break
            await lock.extend()
            await asyncio.sleep(_PAUSE_SECONDS)
        return delivered

    async def _note_earlier(self, from_ms: int, lock: ServerLock) -> None:
        """Note messages from before the loss whose pushes may have waited. Some pushes are sent twice."""
        if not self._push_notes.is_enabled:
            return
        after: MessageId | None = None
        end = first_id_at(from_ms)
        while page := await self._store.incomplete_deliveries.list_page(from_ms - PUSH_MS, after, _PAGE):
            after = page[-1].id
            await self._note([message for message in page if message.id < end])
            if after >= end:
                return
            await lock.extend()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _note(self, messages: Sequence[Message]) -> None:
        """Note messages for pushes. Decisions leave out messages that were read or shown meanwhile."""
        if messages and (calls := self._push_notes.note_calls(messages)):
            await self._store.cache.run_in_background(calls)

    async def _deliver(self, page: Sequence[Message]) -> int:
        # Origins are written together with the message. If one is missing, the message is not found by its id.
        await self._store.messages.origins.save(page)
        incomplete = await self._store.incomplete_deliveries.select_incomplete(page)
        if incomplete and incomplete[-1].created_at_ms > self._store.clock.now_ms() - _YOUNG_MS:
            # Another server may still be storing them. Two deliveries at once would give a message different times.
            await asyncio.sleep(_SETTLING_SECONDS)
            incomplete = await self._store.incomplete_deliveries.select_incomplete(incomplete)
        messages = [message for message in incomplete if self._delivery.find(message.id) is None]
        await asyncio.gather(*(self._delivery.deliver_stored(message) for message in messages))
        return len(messages)

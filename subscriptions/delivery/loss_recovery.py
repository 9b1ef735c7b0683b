"""After Redis was lost: what had been stored and not shown is shown, where the servers that were about to do that died too."""

from __future__ import annotations

import asyncio

import structlog

from store.base.ids import MessageId
from store.redis.cache import Call
from store.store import Store
from subscriptions.delivery.message_delivery import MessageDelivery

_log = structlog.get_logger()

_PAGE = 1_000
_PAUSE_SECONDS = 0.05
_TAKEN_MS = 60_000


class LossRecovery:
    """One server at a time looks through what the deployment says; another one begins anew where that one died."""

    def __init__(self, store: Store, delivery: MessageDelivery) -> None:
        self._store = store
        self._delivery = delivery

    async def mend(self) -> None:
        """Where there is something to be looked through. Raises StoreError: it is tried again then."""
        store = self._store
        from_ms = store.deployment.generations.recover_from_ms
        if from_ms is None:
            return
        store.cache.require_shared()
        epoch = store.deployment.redis_epoch
        taken = Call("SET", (store.keys.loss_recovery_lock,), (store.deployment.owner, "NX", "PX", _TAKEN_MS))
        if await store.cache.one(taken) is None:
            return
        shown = await self._show_from(from_ms)
        await store.deployment.end_loss_recovery(from_ms, epoch)
        await store.cache.one(Call("DEL", (store.keys.loss_recovery_lock,)))
        if shown:
            _log.warning("messages are shown that were stored and left when Redis was lost", messages=shown)

    async def _show_from(self, from_ms: int) -> int:
        unshown, shown = self._store.incomplete_deliveries, 0
        after: MessageId | None = None
        while page := await unshown.list_page(from_ms, after, _PAGE):
            after = page[-1].id
            # It may be missing where it was to be written beside the message, and then nobody finds that by its id.
            await asyncio.gather(*self._store.messages.origins.writes(page))
            left = [m for m in await unshown.select(page) if self._delivery.find(m.id) is None]
            await asyncio.gather(*(self._delivery.show_stored(message) for message in left))
            shown += len(left)
            still = Call("SET", (self._store.keys.loss_recovery_lock,), (self._store.deployment.owner, "PX", _TAKEN_MS))
            await self._store.cache.one(still)
            await asyncio.sleep(_PAUSE_SECONDS)
        return shown

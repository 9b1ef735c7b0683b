"""What use cases are given to work with."""

from __future__ import annotations

from dataclasses import dataclass

from store.redis.fallback import FallbackScope
from store.store import Store
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.revisions import Revisions
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.hub import Hub
from subscriptions.realtime.replay import Replayer
from subscriptions.realtime.typing_notifier import TypingNotifier


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the product that operators may set."""

    max_group_members: int = 5_000
    recall_seconds: int = 120
    """How long a sender may recall their own message."""


@dataclass(frozen=True, slots=True)
class Confab:
    """One process's parts, put together by the server. Handed to every use case; holds no state of its own."""

    store: Store
    hub: Hub
    bus: Bus
    delivery: MessageDelivery
    replayer: Replayer
    receipts: ReceiptNotifier
    revisions: Revisions
    typing: TypingNotifier
    limits: Limits

    def scope(self) -> FallbackScope:
        """To be entered for the time of an operation: what it holds in the cache is its own while Redis is away."""
        return FallbackScope()

    @property
    def is_around(self) -> bool:
        """Whether requests are answered without Redis."""
        return self.store.cache.spare is not None

    async def settle_around(self) -> bool:
        """To be called after an operation that went around Redis, before it is answered. True: the deployment still does without, so
        whoever finds Redis again finds what was written in MongoDB. False: others had begun to use it again; what this process
        wrote is theirs to see by now, and what it read may be older than what they show. Raises Unreachable where neither is certain.
        """
        deployment = self.store.deployment
        if await deployment.generations.is_away():
            return True
        await deployment.check_redis()
        await self.store.owed.pay()
        return False

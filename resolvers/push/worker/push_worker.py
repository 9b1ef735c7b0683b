"""The worker of pushes: works on noted conversations and due intents, and looks for more every half second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog

from resolvers.base.app import Confab
from resolvers.push.worker.content import NotificationTexts
from resolvers.push.worker.expansion import PushExpansion
from resolvers.push.worker.intent_batch import DuePush, IntentBatch
from resolvers.push.worker.push_sender import PushSender
from store.base.background import mark_as_background
from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.repeated_work import RepeatedWork
from store.base.tasks import end_tasks
from store.push.push_intents import SettledIntent, TakenIntent

_log = structlog.get_logger()

POLL_SECONDS = 0.5
"""Interval at which a worker looks for work that others noted, or whose time has come."""

_PAUSE_SECONDS = 0.05
"""Shortest pause between two rounds of work, so that messages sent at the same time are worked on together."""

_RETRY_SECONDS = 2.0
_INTENTS_AT_ONCE = 100
_MOST_RUNNING = 1_000
"""Users whose pushes are being sent, from which on no further intents are taken."""

_CLOSING_SECONDS = 5.0


class PushWorker:
    """One process's worker. Several processes share the work: each intent is taken by one of them.

    If a worker dies, others take what it had when its lease ends. Pushes that it had sent may be sent again then; they
    replace the first ones.
    """

    def __init__(self, app: Confab, sender: PushSender, texts: NotificationTexts) -> None:
        self._store = app.store
        self.sender = sender
        self.batch = IntentBatch(app, sender, texts)
        self._expansion = PushExpansion(app.store)
        self._noted = asyncio.Event()
        self._due = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    def open(self) -> None:
        """Begin to work in the background."""
        self._loops = [
            asyncio.create_task(self._repeat(RepeatedWork("push_notes", self._expand), self._noted)),
            asyncio.create_task(self._repeat(RepeatedWork("push_intents", self._decide_due), self._due)),
        ]

    async def close(self) -> None:
        """Take nothing more, and complete pushes that are being sent, for up to five seconds."""
        await end_tasks(self._loops)
        if self._running:
            await asyncio.wait(self._running, timeout=_CLOSING_SECONDS)
        await end_tasks(self._running)

    def wake(self) -> None:
        """Look for noted conversations now."""
        self._noted.set()

    def wake_for_intents(self) -> None:
        """Look for due intents now."""
        self._due.set()

    async def run_due(self) -> None:
        """Do all that is due now, and wait for the pushes. Raises StoreError."""
        await self._expand()
        await self._decide_due()
        while self._running:
            await asyncio.gather(*self._running)
            await self._decide_due()

    async def _expand(self) -> None:
        async with self._one_at_a_time:
            self._store.cache.require_shared()
            if await self._expansion.expand_due():
                self._due.set()

    async def _decide_due(self) -> None:
        """Decide on all intents that are due, and begin to send their pushes."""
        self._store.cache.require_shared()
        while True:
            while len(self._running) >= _MOST_RUNNING:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            taken = await self._store.push_intents.take(_INTENTS_AT_ONCE)
            if not taken:
                return
            pushes: dict[UserId, list[DuePush]] = {}
            for due in await self._decide(taken):
                pushes.setdefault(due.taken.user, []).append(due)
            for of_user in pushes.values():
                task = asyncio.create_task(self._carry_out(of_user))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def _decide(self, taken: Sequence[TakenIntent]) -> Sequence[DuePush]:
        try:
            return await self.batch.decide(taken)
        except StoreError:
            # Otherwise they are due again when the lease ends.
            with suppress(StoreError):
                await self._store.push_intents.give_back(taken, round(_RETRY_SECONDS * 1000))
            raise
        except Exception:
            if len(taken) > 1:
                # One of them is at fault. It must not hold the others.
                return [due for each in taken for due in await self._decide([each])]
            _log.exception("push_not_decided")
            await self._store.push_intents.settle([SettledIntent(taken[0])])
            return ()

    async def _carry_out(self, pushes: Sequence[DuePush]) -> None:
        mark_as_background()
        try:
            await self.batch.carry_out(pushes)
        except StoreError as error:
            # They are due again when the lease ends.
            _log.warning("push_not_settled", reason=str(error))
        except Exception:
            _log.exception("push_not_sent")

    async def _repeat(self, work: RepeatedWork, wake: asyncio.Event) -> None:
        """Work when it is asked for, and at an interval."""
        mark_as_background()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS if work.is_failing else POLL_SECONDS):
                    await wake.wait()
            wake.clear()
            await work.run()
            await asyncio.sleep(_PAUSE_SECONDS)

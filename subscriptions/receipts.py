"""Telling senders that they were read."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from store.errors import StoreError
from store.ids import ConversationId, UserId, parse_private
from store.receipts import Mark
from store.sessions import applied
from store.store import Store
from subscriptions.bus import Bus, Parcel
from subscriptions.events import ReceiptAdvanced, log_receipt

_log = structlog.get_logger()

LARGEST_GROUP = 200
"""Members of a group in which receipts are pushed at most; in larger ones senders ask."""


_AT_ONCE = 16
_RETRY_SECONDS = (0.2, 6.0)


class ReceiptNotifier:
    """Tells those who sent what an acknowledgement covers, after the acknowledging request was answered."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store = store
        self._bus = bus
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._closing = False

    def advance(self, receipt: ReceiptAdvanced, after: int, *, keep: bool = False) -> None:
        """Somebody acknowledged what came after a seq, up to the receipt's. keep: its mark is not stored yet. Returns at once."""
        self._start(self._notify(receipt, after, keep))

    async def close(self) -> None:
        """Waits for what is under way."""
        self._closing = True
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self, receipt: ReceiptAdvanced, after: int, keep: bool) -> None:
        pause, longest = _RETRY_SECONDS
        while True:
            try:
                async with self._at_once:
                    await self._try_to_tell(receipt, after, keep)
                return
            except StoreError as error:
                if pause > longest or self._closing:
                    # The mark is kept: who asks learns of it.
                    _log.warning("senders not told of a receipt", conversation=receipt.conversation, reason=str(error))
                    return
            except Exception:
                _log.exception("senders not told of a receipt", conversation=receipt.conversation)
                return
            await asyncio.sleep(pause)
            pause *= 3

    async def _try_to_tell(self, receipt: ReceiptAdvanced, after: int, keep: bool) -> None:
        if keep:
            mark = Mark(receipt.conversation, receipt.user, receipt.kind, receipt.seq)
            await self._store.receipts.insert([mark], self._store.clock.now_ms())
        await self._tell(await self._senders(receipt, after), receipt)

    async def _senders(self, receipt: ReceiptAdvanced, after: int) -> list[UserId]:
        people = parse_private(receipt.conversation)
        if people is None:
            head = await self._store.conversations.find(receipt.conversation)
            if head is None or head.member_count > LARGEST_GROUP:
                return []
        senders = await self._store.messages.list_senders(receipt.conversation, after, receipt.seq)
        if people is None and senders:
            members = await self._store.conversations.list_members(receipt.conversation)
            senders &= {member.user for member in members if member.is_current}
        return sorted(senders - {receipt.user})

    async def _tell(self, users: list[UserId], receipt: ReceiptAdvanced) -> None:
        if not users:
            return
        store, conversation = self._store, receipt.conversation
        now = store.clock.now_ms()
        change = {
            "c": conversation,
            "s": receipt.seq,
            "at": now,
            "e": log_receipt(receipt),
            "peer": int(_is_private(conversation)),
        }
        answers = await store.cache.run_aside([store.sessions.change(user, "receipt", change) for user in users])
        parcel = Parcel()
        parcel.add(receipt, [(user, applied(user, answer)) for user, answer in zip(users, answers, strict=True)])
        self._bus.send(parcel)


def _is_private(conversation: ConversationId) -> bool:
    return parse_private(conversation) is not None

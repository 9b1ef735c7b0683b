"""Release of receipts that were held back while their user was INVISIBLE (ADR 81)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import structlog

from store.base.errors import StoreError
from store.base.ids import UserId
from store.presence.presence_record import Setting
from store.receipts.held_receipts import HeldReceipt
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark
from store.redis.request_scope import RequestScope
from store.store import Store
from subscriptions.delivery.receipts.receipt_notifier import ReceiptNotifier
from subscriptions.realtime.events.receipts import ReceiptAdvanced

_log = structlog.get_logger()

CHECK_MS = 30 * 60_000
"""Time after which any server checks a user who is still INVISIBLE, in case nobody has released their receipts."""

_LEASE_MS = 30_000
"""Time for which other servers leave the receipts of a user to the one that has begun to release them."""

_RECEIPTS_AT_ONCE = 200
_RETRY_SECONDS = (0.2, 6.0)
_HOLD_SECONDS = 120.0


def next_check_ms(setting: Setting, now_ms: int) -> int:
    """Return when to check whether an INVISIBLE user is visible again (ms): at the end of the setting, if it has one.

    A change of the setting releases receipts at once. The check is for those whose server died meanwhile.
    """
    until = setting.until_ms
    return now_ms + CHECK_MS if until is None else min(until, now_ms + CHECK_MS)


class ReceiptRelease:
    """Stores held receipts as if they were given now, and notifies senders.

    Every step may be repeated, by any server. A held receipt is deleted after it is stored.
    """

    def __init__(self, store: Store, notifier: ReceiptNotifier) -> None:
        self._store = store
        self._notifier = notifier
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    def begin(self, user: UserId) -> None:
        """Release what is held of a user who may be visible now. Returns at once.

        If it fails, `release_due` does it. The receipts of an INVISIBLE user are checked at the end of the setting.
        """
        self._start(self._try_to_release(user))

    def complete_hold(self, receipts: Sequence[HeldReceipt], until_ms: int, *, are_stored: bool) -> None:
        """Continue after receipts of a user were held. Returns at once.

        They are stored first, unless they certainly are. Then they are released if the user became visible meanwhile.
        """
        if receipts:
            self._start(self._complete_hold(receipts, until_ms, are_stored=are_stored))

    async def release_due(self) -> int:
        """Release receipts of users who were not seen to become visible. Return the number of these users.

        Raises StoreError; the next call continues.
        """
        store = self._store
        store.cache.require_shared()
        users = await store.held_receipts.list_due_users(store.clock.now_ms(), _RECEIPTS_AT_ONCE)
        records = await store.presence.read(users) if users else {}
        released = 0
        for user in users:
            now, setting = store.clock.now_ms(), records[user].setting
            is_hidden = setting.is_hidden_at(now)
            until = next_check_ms(setting, now) if is_hidden else now + _LEASE_MS
            if await store.held_receipts.take_due(user, now, until) and not is_hidden:
                await self._release(user)
                released += 1
        return released

    @property
    def pending(self) -> int:
        """The number of users whose receipts are being released, and of receipts that are not held yet."""
        return len(self._tasks)

    async def close(self) -> None:
        """Finish. What fails is tried once more."""
        self._closing.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _try_to_release(self, user: UserId) -> None:
        held = self._store.held_receipts
        try:
            with RequestScope():
                await self._release(user)
        except StoreError as error:
            _log.warning("held_receipts_not_released", user=user, reason=str(error))
            # Any server may try again at once. Without MongoDB they wait for their time.
            with suppress(StoreError):
                await held.hold(await held.list_of(user, _RECEIPTS_AT_ONCE), self._store.clock.now_ms())
        except Exception:
            _log.exception("held_receipts_not_released", user=user)

    async def _release(self, user: UserId) -> None:
        store = self._store
        while True:
            store.cache.require_shared()
            # Read before each part: the user may become INVISIBLE again.
            setting = (await store.presence.read([user]))[user].setting
            now = store.clock.now_ms()
            if setting.is_hidden_at(now):
                await self._check_at_end(user, setting, now)
                return
            held = await store.held_receipts.list_of(user, _RECEIPTS_AT_ONCE)
            if not held:
                return
            unknown = await self._without_read(user, held)
            if unknown:
                delivered = ReceiptKind.DELIVERED
                marks = [ReceiptMark(each.conversation, user, delivered, each.seq) for each in unknown]
                await store.receipts.save_marks(marks, now)
            for each in unknown:
                receipt = ReceiptAdvanced(each.conversation, user, ReceiptKind.DELIVERED, each.seq)
                self._notifier.notify(receipt, each.after, at_ms=now)
            await store.held_receipts.forget(held)

    async def _check_at_end(self, user: UserId, setting: Setting, now_ms: int) -> None:
        """Let receipts of an INVISIBLE user be checked when the setting ends, if it does: it may have got an end."""
        if setting.until_ms is not None:
            held = await self._store.held_receipts.list_of(user, 0)
            if held:
                await self._store.held_receipts.hold(held, next_check_ms(setting, now_ms))

    async def _without_read(self, user: UserId, held: Sequence[HeldReceipt]) -> list[HeldReceipt]:
        """Return the receipts that senders do not know: the user has not read so far since."""
        found = await self._store.sessions.find_many(user, [each.conversation for each in held])
        read = {session.conversation: session.acknowledged_seq for session in found.sessions}
        return [each for each in held if each.seq > read.get(each.conversation, 0)]

    async def _complete_hold(self, receipts: Sequence[HeldReceipt], until_ms: int, *, are_stored: bool) -> None:
        if are_stored or await self._hold(receipts, until_ms):
            await self._try_to_release(receipts[0].user)

    async def _hold(self, receipts: Sequence[HeldReceipt], until_ms: int) -> bool:
        """Try until it works, or the time is up. After `close` only once more. Return whether it worked."""
        deadline = asyncio.get_running_loop().time() + _HOLD_SECONDS
        pause, longest = _RETRY_SECONDS
        while True:
            is_last = self._closing.is_set() or asyncio.get_running_loop().time() + pause > deadline
            try:
                await self._store.held_receipts.hold(receipts, until_ms)
                return True
            except StoreError as error:
                if is_last:
                    _log.warning("receipts_not_held", receipts=len(receipts), reason=str(error))
                    return False
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
            pause = min(3 * pause, longest)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

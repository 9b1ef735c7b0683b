"""Receipts: notifies senders that their messages were received or read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId, parse_private
from store.messages.message import ReservedMessage
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark
from store.redis.request_scope import RequestScope
from store.sessions.apply_results import ApplyResult
from store.sessions.changes import ReceiptReceived
from store.store import Store
from subscriptions.delivery.event_publisher import EventPublisher
from subscriptions.realtime.events.receipts import ReceiptAdvanced

_log = structlog.get_logger()

LARGEST_GROUP = 200
"""Members of a group up to which receipts are pushed. In larger groups senders query them."""

_AT_ONCE = 16
_RETRY_SECONDS = (0.2, 6.0)
_NOTIFY_SECONDS = 8.0
_STORE_SECONDS = 120.0
"""Longest time of retries for a receipt whose mark is not stored yet."""


@dataclass(frozen=True, slots=True)
class _Acknowledgement:
    """A receipt for the senders of messages after a seq."""

    receipt: ReceiptAdvanced
    after: int | None
    """None: not known, to be read from the marks."""
    stored_at: int = 0
    """Time (ms) of the mark, which the head of a private conversation has as well; 0: not known."""
    store_mark: bool = False
    concerns_peer: bool = True
    """The other person of a private conversation gets it. False: only if they wrote a message that it covers."""


class ReceiptNotifier:
    """Sends receipts after the request that caused them was answered.

    Receipts of one user in one conversation are sent in order. Failures are retried for a few seconds; after that
    senders find the receipt with a query.
    """

    def __init__(self, store: Store, publisher: EventPublisher) -> None:
        self._store = store
        self._publisher = publisher
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest: dict[tuple[ConversationId, UserId], asyncio.Task[None]] = {}
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._closing = asyncio.Event()

    def notify(self, receipt: ReceiptAdvanced, after: int, *, at_ms: int, store_mark: bool = False) -> None:
        """Notify the senders of messages after a seq, up to the receipt's. Returns at once.

        Args:
            receipt: The receipt.
            after: The seq.
            at_ms: Time of the receipt's mark.
            store_mark: The mark may not be stored yet, and is stored first.
        """
        stored_at = 0 if store_mark else at_ms
        self._start(_Acknowledgement(receipt, after, stored_at, store_mark))

    def notify_of_sending(self, reserved: ReservedMessage, sender: ApplyResult) -> None:
        """Notify other senders that the sender of a durable message has read theirs. Returns at once.

        sender: the result of the message for its sender's session. The sender gets no event.
        """
        message = reserved.message
        if not (message.has_receipts and reserved.reads_unread):
            return
        receipt = ReceiptAdvanced(message.conversation, message.sender, ReceiptKind.READ, message.seq)
        if not sender.changed or sender.old_read_seq >= message.seq:
            # The session is not cached, or includes the message already, so the old read position is not known.
            self._start(_Acknowledgement(receipt, None, concerns_peer=False))
        elif sender.old_unread:
            self._start(_Acknowledgement(receipt, sender.old_read_seq, concerns_peer=sender.old_unread > 0))

    @property
    def pending_receipts(self) -> int:
        """The number of receipts that are not sent yet."""
        return len(self._tasks)

    async def close(self) -> None:
        """Finish the pending receipts. A receipt that fails is tried once more."""
        self._closing.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, acknowledgement: _Acknowledgement) -> None:
        receipt = acknowledgement.receipt
        key = (receipt.conversation, receipt.user)
        task = asyncio.create_task(self._notify(acknowledgement, self._newest.get(key)))
        self._newest[key] = task
        self._tasks.add(task)

        def remove(_: object) -> None:
            self._tasks.discard(task)
            if self._newest.get(key) is task:
                del self._newest[key]

        task.add_done_callback(remove)

    async def _notify(self, acknowledgement: _Acknowledgement, previous: asyncio.Task[None] | None) -> None:
        """Wait for the user's previous receipt, then try until it works or the time is up."""
        if previous is not None:
            await asyncio.wait({previous})
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (_STORE_SECONDS if acknowledgement.store_mark else _NOTIFY_SECONDS)
        pause, longest = _RETRY_SECONDS
        conversation = acknowledgement.receipt.conversation
        is_last = False
        while True:
            try:
                async with self._at_once:
                    with RequestScope():
                        await self._try_to_notify(acknowledgement)
                return
            except StoreError as error:
                if is_last or loop.time() + pause > deadline:
                    # Queries find the mark. In private conversations the sender's state has it too: load it again.
                    if _is_private(conversation):
                        self._store.stale_caches.add_conversation(conversation)
                    _log.warning("receipt_not_sent", conversation=conversation, reason=str(error))
                    return
            except Exception:
                _log.exception("receipt_not_sent", conversation=conversation)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
            is_last, pause = self._closing.is_set(), min(3 * pause, longest)

    async def _try_to_notify(self, acknowledgement: _Acknowledgement) -> None:
        receipt = acknowledgement.receipt
        if acknowledgement.store_mark:
            mark = ReceiptMark(receipt.conversation, receipt.user, receipt.kind, receipt.seq)
            await self._store.receipts.save_marks([mark], self._store.clock.now_ms())
        await self._publish(receipt, await self._list_senders(acknowledgement), acknowledgement.stored_at)

    async def _list_senders(self, acknowledgement: _Acknowledgement) -> list[UserId]:
        """Return the other current members who sent a message that the receipt covers. Large groups: none.

        In a private conversation it is the other person, even if only a SYSTEM message was read: their session shows
        the position.
        """
        store, receipt = self._store, acknowledgement.receipt
        conversation, after = receipt.conversation, acknowledgement.after
        people = parse_private(conversation)
        if people is not None and acknowledgement.concerns_peer:
            return [user for user in people[:2] if user != receipt.user]
        if people is None:
            head = await store.conversations.find(conversation)
            if head is None or head.member_count > LARGEST_GROUP:
                return []
        if after is None:
            after = await self._find_last_read(receipt)
        senders = await store.messages.list_senders(conversation, after, receipt.seq) - {receipt.user}
        if senders and people is None:
            senders &= {m.user for m in await store.conversations.list_members(conversation) if m.is_current}
        return sorted(senders)

    async def _find_last_read(self, receipt: ReceiptAdvanced) -> int:
        """Return the user's read position before the receipt, from the marks."""
        store, conversation = self._store, receipt.conversation
        marked = await store.receipts.find_last_read(conversation, receipt.user, receipt.seq)
        if _is_private(conversation):
            return marked
        # Joining reads all earlier messages, and stores no mark.
        members = await store.conversations.list_members(conversation)
        return max([marked, *(m.intervals[-1][0] - 1 for m in members if m.user == receipt.user)])

    async def _publish(self, receipt: ReceiptAdvanced, users: list[UserId], stored_at: int) -> None:
        """Apply a receipt to senders' cached states, and send the event to their devices."""
        conversation = receipt.conversation
        if _is_private(conversation):
            received = ReceiptReceived(conversation, receipt.kind, receipt.seq)
            await self._publisher.publish(receipt, users, received, stored_at)
        else:
            await self._publisher.publish(receipt, users)


def _is_private(conversation: ConversationId) -> bool:
    return parse_private(conversation) is not None

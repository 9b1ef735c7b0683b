"""Telling senders that they were read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId, parse_private
from store.messages.message import ReservedMessage
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark
from store.redis.request_scope import RequestScope
from store.sessions.apply_results import ApplyResult, parse_result
from store.sessions.changes import ReceiptReceived, logged
from store.store import Store
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.outgoing_events import OutgoingEvents

_log = structlog.get_logger()

LARGEST_GROUP = 200
"""Members of a group in which receipts are pushed at most; in larger ones senders ask."""


_AT_ONCE = 16
_RETRY_SECONDS = (0.2, 6.0)
_TELL_SECONDS = 8.0
_KEEP_SECONDS = 120.0


class ReceiptNotifier:
    """Tells those who sent what an acknowledgement covers, after the acknowledging request was answered: what one user
    acknowledged in one conversation in the order in which it was."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store = store
        self._bus = bus
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest: dict[tuple[ConversationId, UserId], asyncio.Task[None]] = {}
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._closing = asyncio.Event()

    def advance(self, receipt: ReceiptAdvanced, after: int, *, keep: bool = False) -> None:
        """Somebody acknowledged what came after a seq, up to the receipt's. keep: its mark may not be stored yet. Returns at once."""
        self._start(receipt, after, keep)

    def sent(self, reserved: ReservedMessage, sender: ApplyResult) -> None:
        """Sending reads: those whose messages a durable one covers learn of it, its sender doesn't. Returns at once.
        sender: what the message did to the session of who sent it."""
        message = reserved.message
        if not (message.kind.countable and reserved.reads_unread):
            return
        receipt = ReceiptAdvanced(message.conversation, message.sender, ReceiptKind.READ, message.seq)
        if not sender.changed or sender.old_read_seq >= message.seq:
            # The session does not tell any more what was unread before: it is not in use, or knew of the message already.
            self._start(receipt, None, keep=False)
        elif sender.old_unread:
            self._start(receipt, sender.old_read_seq, keep=False, unread=sender.old_unread > 0)

    @property
    def under_way(self) -> int:
        """Acknowledgements whose senders are not told yet."""
        return len(self._tasks)

    async def close(self) -> None:
        """Waits for what is under way; what has failed is tried once more."""
        self._closing.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, receipt: ReceiptAdvanced, after: int | None, keep: bool, *, unread: bool = False) -> None:
        """unread: some of what it covers was, and so somebody else's."""
        line = (receipt.conversation, receipt.user)
        task = asyncio.create_task(self._notify(receipt, after, keep, unread, self._newest.get(line)))
        self._newest[line] = task
        self._tasks.add(task)

        def ended(_: object) -> None:
            self._tasks.discard(task)
            if self._newest.get(line) is task:
                del self._newest[line]

        task.add_done_callback(ended)

    async def _notify(
        self,
        receipt: ReceiptAdvanced,
        after: int | None,
        keep: bool,
        unread: bool,
        before: asyncio.Task[None] | None,
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (_KEEP_SECONDS if keep else _TELL_SECONDS)
        pause, longest = _RETRY_SECONDS
        last = False
        while True:
            try:
                async with self._at_once:
                    with RequestScope():
                        await self._try_to_tell(receipt, after, keep, unread)
                return
            except StoreError as error:
                if last or loop.time() + pause > deadline:
                    # Queries find the mark. The state of a private conversation's sender contains it too, and has to be loaded again.
                    if _is_private(receipt.conversation):
                        self._store.stale_caches.add_conversation(receipt.conversation)
                    _log.warning("senders not told of a receipt", conversation=receipt.conversation, reason=str(error))
                    return
            except Exception:
                _log.exception("senders not told of a receipt", conversation=receipt.conversation)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
            last, pause = self._closing.is_set(), min(3 * pause, longest)

    async def _try_to_tell(self, receipt: ReceiptAdvanced, after: int | None, keep: bool, unread: bool) -> None:
        if keep:
            mark = ReceiptMark(receipt.conversation, receipt.user, receipt.kind, receipt.seq)
            await self._store.receipts.save_marks([mark], self._store.clock.now_ms())
        await self._tell(await self._senders(receipt, after, unread), receipt)

    async def _senders(self, receipt: ReceiptAdvanced, after: int | None, unread: bool) -> list[UserId]:
        store, conversation = self._store, receipt.conversation
        people = parse_private(conversation)
        if people is not None and unread:
            # There is nobody else who can have written it.
            return [user for user in people[:2] if user != receipt.user]
        if not _is_private(conversation):
            head = await store.conversations.find(conversation)
            if head is None or head.member_count > LARGEST_GROUP:
                return []
        if after is None:
            after = await self._acknowledged(receipt)
        senders = await store.messages.list_senders(conversation, after, receipt.seq) - {receipt.user}
        if senders and not _is_private(conversation):
            senders &= {m.user for m in await store.conversations.list_members(conversation) if m.is_current}
        return sorted(senders)

    async def _acknowledged(self, receipt: ReceiptAdvanced) -> int:
        """How far the user had read before, by the marks."""
        store, conversation = self._store, receipt.conversation
        marked = await store.receipts.find_last_read(conversation, receipt.user, receipt.seq)
        if _is_private(conversation):
            return marked
        # Joining reads what was there, and leaves no mark.
        members = await store.conversations.list_members(conversation)
        return max([marked, *(m.intervals[-1][0] - 1 for m in members if m.user == receipt.user)])

    async def _tell(self, users: list[UserId], receipt: ReceiptAdvanced) -> None:
        if not users:
            return
        store, conversation = self._store, receipt.conversation
        if not store.cache.is_shared:
            for user in users:
                store.stale_caches.add_user(user)
            return
        received = ReceiptReceived(conversation, receipt.kind, receipt.seq, _is_private(conversation))
        change = logged(received, store.clock.now_ms(), receipt.log_entry())
        answers = await store.cache.run_in_background([store.sessions.apply(user, change) for user in users])
        parcel = OutgoingEvents()
        parcel.add(receipt, [(user, parse_result(user, answer)) for user, answer in zip(users, answers, strict=True)])
        self._bus.send(parcel)


def _is_private(conversation: ConversationId) -> bool:
    return parse_private(conversation) is not None

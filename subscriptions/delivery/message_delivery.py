"""The delivery of a message after its reservation: group commit, fan-out, publishing.

Each stage takes all messages that wait for it.

The sender is answered when the message is durable and applied for the sender and the first recipients. The other
recipients of a large group follow in a queue of their own. Until the delivery is complete the message stays in the
outbox: if this process dies, another one starts again with the commit. Every step is idempotent.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

from store.base.errors import Unreachable
from store.base.ids import ConversationId, MessageId
from store.base.tasks import end_tasks
from store.channels.channel_mentions import has_mentions
from store.messages.copy_store import make_copy, with_reactions_row
from store.messages.message import Message, ReservedMessage
from store.messages.outbox.places import Refusal, ReservationReason
from store.redis.request_scope import RequestScope, discard_request_cache
from store.redis.single_flight import retry_until_true
from store.store import Store
from subscriptions.delivery.batch_window import BatchWindow
from subscriptions.delivery.coalescing.thread_events import ThreadEvents
from subscriptions.delivery.commit_stage import CommitStage, reserve_place
from subscriptions.delivery.fanout_publisher import FanoutPublisher
from subscriptions.delivery.fanout_stage import FanoutStage
from subscriptions.delivery.in_flight_messages import InFlightMessage, InFlightMessages, Sent
from subscriptions.delivery.large_group_stage import LargeGroupStage
from subscriptions.delivery.message_notes import MessageNotes
from subscriptions.delivery.receipts.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.recipients import SelectViewers
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.shared.shared_events import SharedEvents

_CLOSING_SECONDS = 5.0
_NO_ENTRY = "0-0"
"""The outbox entry of messages that are not in the outbox."""


class QueueDepths(NamedTuple):
    """Messages that wait for each stage, and all that are in flight."""

    commit: int
    fanout: int
    large_groups: int
    in_flight: int


class MessageDelivery:
    """Delivers the messages of one process. Call `open` before use; `close` finishes running deliveries."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        receipts: ReceiptNotifier,
        shared_events: SharedEvents,
        threads: ThreadEvents,
        select_viewers: SelectViewers,
        notes: MessageNotes,
    ) -> None:
        self._store = store
        self.in_flight = InFlightMessages()
        self._publisher = FanoutPublisher(store, bus, self.in_flight)
        self.large_group_stage = LargeGroupStage(store, self._publisher, select_viewers)
        large_groups = self.large_group_stage.queue
        self.fanout_stage = FanoutStage(
            store, receipts, self.in_flight, self._publisher, large_groups, shared_events, threads, notes
        )
        self.commit_stage = CommitStage(store, self.in_flight, self.fanout_stage.queue)
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start the stages."""
        stages = (self.fanout_stage, self.large_group_stage)
        self._tasks = [asyncio.create_task(stage.run()) for stage in stages]

    async def close(self) -> None:
        """Wait up to five seconds for running deliveries, then stop. Other servers finish the rest from the outbox."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _CLOSING_SECONDS
        # An asyncio.Event would cost time for every message, and would only be used here.
        while self.in_flight and loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self._closed = True
        await self.commit_stage.close()
        await end_tasks(self._tasks)
        await self._publisher.close()
        for message in self.in_flight:
            self.in_flight.give_up(message, Unreachable("the server is stopping"))

    @property
    def batch_window(self) -> BatchWindow:
        """The batch window, to be entered while a message is being reserved."""
        return self.commit_stage.batch_window

    async def send(self, reserved: ReservedMessage, *, recovered: bool = False) -> Sent:
        """Make a reserved message durable and deliver it. Cancelling the caller does not stop the delivery.

        The copy of a broadcast reply is delivered as a message of its own. Normally both are in the same batch. With a
        change of the followers, or if the reply waits for what its mentions need, the copy follows the durable reply.

        Args:
            reserved: The message.
            recovered: True if another server began its delivery.

        Returns:
            The message, and the sender's session after it. The copy is durable too. If MongoDB has another message with
            the sender's idempotency key, that one: then this one was not stored.

        Raises:
            Unreachable: The commit was not confirmed in time. The message may be durable, and may be delivered later.
            Superseded: The message belongs to a group change that was decided on an old state. Nothing was stored.
        """
        if self._closed:
            raise Unreachable("the server is stopping")
        message = self._begin(reserved, recovered=recovered)
        try:
            if reserved.copy is not None:
                if reserved.change is not None or _may_be_refused_later(reserved.message):
                    sent = await asyncio.shield(message.sent)
                    if sent.message.id != reserved.message.id:
                        return sent
                await asyncio.shield(self._begin(reserved.copy, recovered=recovered).sent)
            return await asyncio.shield(message.sent)
        finally:
            discard_request_cache()

    def _begin(self, reserved: ReservedMessage, *, recovered: bool) -> InFlightMessage:
        """Begin to deliver a message, unless this process is delivering it already."""
        message = self.in_flight.find(reserved.message.id)
        if message is None:
            message = self.in_flight.add(reserved, recovered=recovered)
            self.commit_stage.begin(message)
        return message

    async def deliver_stored(self, message: Message) -> Sent:
        """Deliver a stored message whose delivery may be incomplete. Steps that were done before have no effect.

        Its outbox entry, if there is one, is left to the housekeeper. Raises Unreachable.
        """
        return await self.send(ReservedMessage(message, membership_version="", outbox_entry=_NO_ENTRY), recovered=True)

    async def complete_copy(self, reply: Message) -> None:
        """Deliver the copy of a durable reply if it has none: Redis may have lost it with the server that sent both.

        One round trip if it is stored. A sender who may not write any more gets no copy. Raises Unreachable.
        """
        if not reply.is_broadcast or await self._store.copies.find(reply) is not None:
            return
        await self.wait_until_delivered(reply)
        if reply.is_recalled or await self._store.copies.find(reply) is not None:
            return
        with RequestScope():
            place = await reserve_place(self._store, make_copy(reply), ReservationReason.MISSING_COPY)
            if isinstance(place, ReservedMessage):
                await self.send(place)
            elif place is Refusal.ALREADY_RESERVED:
                # Another server sends the copy.
                await self.wait_until_delivered(reply)
            # The reply may have changed since the copy was made.
            found = await self._store.messages.find_in_conversation(reply.conversation, reply.id)
            await self._store.copies.update(found or reply)

    async def wait_until_delivered(self, message: Message) -> bool:
        """Wait until a message is delivered, so that no change of it overtakes it. Return False if it already was.

        Raises Unreachable.
        """
        if await self._is_delivered(message):
            return False
        await retry_until_true(partial(self._is_delivered, message), "a message is still being delivered")
        return True

    async def _is_delivered(self, message: Message) -> bool:
        """Return whether the message's creation is applied to all recipients, so that no revision overtakes it.

        Reply and copy are delivered when both are.
        """
        return await self._are_delivered(message.conversation, message.id, message.copy_id)

    async def _are_delivered(self, conversation: ConversationId, *messages: MessageId | None) -> bool:
        if any(message is not None and self.find(message) is not None for message in messages):
            return False
        return not await self._store.outbox.contains(conversation, *messages)

    async def find_reply(self, copy: Message) -> Message | None:
        """Return the reply that a copy shows. A copy may be durable a moment before its reply. Raises Unreachable."""
        place = with_reactions_row(copy)

        async def find() -> Message | None:
            return await self._store.messages.find_in_conversation(place.conversation, place.id)

        found = await find()
        if found is None:
            await retry_until_true(
                partial(self._are_delivered, place.conversation, place.id), "a message is still being delivered"
            )
            found = await find()
        return found

    @property
    def queue_depths(self) -> QueueDepths:
        """The length of each stage's queue."""
        return QueueDepths(
            len(self.commit_stage.queue),
            len(self.fanout_stage.queue),
            len(self.large_group_stage.queue),
            len(self.in_flight),
        )

    def find(self, message: int) -> asyncio.Future[Sent] | None:
        """Return the outcome of a message that is in flight on this process."""
        found = self.in_flight.find(message)
        return found.sent if found else None


def _may_be_refused_later(reply: Message) -> bool:
    """Return whether a reply may be refused, because of its key, after its copy would be durable."""
    return reply.key is not None and has_mentions(reply)

"""Fan-out: applies durable messages to the sessions of their first recipients, then answers their senders."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationKind, kind_of
from store.messages.idempotency_claims import Claim
from store.redis.cache import Call
from store.sessions.apply_results import NOT_CACHED
from store.sessions.changes import INVALIDATE
from store.store import Store
from subscriptions.delivery.fanout_batch import FanoutBatch
from subscriptions.delivery.fanout_publisher import FanoutPublisher, add_fanout
from subscriptions.delivery.in_flight_messages import InFlightMessage, InFlightMessages, StageQueue, delivery_order
from subscriptions.delivery.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.recipients import RecipientSlice, list_recipients, membership_updates, slice_recipients
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.events.shared import MessageChange
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.shared.shared_events import SharedEvents, is_on_workspace_clock

_log = structlog.get_logger()

BATCH = 500
"""Largest number of messages that are fanned out together."""

FIRST_RECIPIENTS = 200
"""Recipients that are served before the sender is answered, the sender included."""


class FanoutStage:
    """Fans messages out in the order of their commit timestamps: one round trip to Redis for all waiting messages."""

    def __init__(
        self,
        store: Store,
        receipts: ReceiptNotifier,
        in_flight: InFlightMessages,
        publisher: FanoutPublisher,
        large_groups: StageQueue,
        shared_events: SharedEvents,
    ) -> None:
        self._store = store
        self._receipts = receipts
        self._in_flight = in_flight
        self._publisher = publisher
        self._large_groups = large_groups
        self._shared_events = shared_events
        self.queue = StageQueue()

    async def run(self) -> None:
        """Fan batches out, one after the other."""
        while True:
            batch = await self.queue.take(BATCH)
            try:
                self._store.cache.require_shared()
                await self._fan_out(batch)
            except Exception as error:
                # The messages are durable, so their senders get an answer. The rest is done when Redis answers again.
                if not isinstance(error, StoreError):
                    _log.exception("fanout_failed")
                for message in batch:
                    self._in_flight.answer(message, NOT_CACHED)
                    self._publisher.leave_incomplete(message)

    async def _fan_out(self, batch: list[InFlightMessage]) -> None:
        """Apply all messages to the heads, then to the sessions of senders and first recipients: one round trip."""
        batch.sort(key=delivery_order)
        head_calls: list[int] = []
        calls: list[Call] = []
        slices: list[RecipientSlice] = []
        for message in batch:
            head_calls.append(len(calls))
            calls += self._message_calls(message)
            slices.append(await self._first_slice(message))
        fanout = FanoutBatch(self._store, slices)
        answers = await fanout.run(self._store.cache.run, calls)
        # A head that is not cached answers 0, and may have been overtaken.
        overtaken = [
            message
            for message, call in zip(batch, head_calls, strict=True)
            if answers[call] != message.reserved.message.seq
        ]
        await self._invalidate_new_members(overtaken)
        for message, call in zip(batch, head_calls, strict=True):
            if is_on_workspace_clock(message.reserved.message.conversation):
                answer = answers[call + 1]
                self._shared_events.publish_message(message.reserved.message, MessageChange.CREATED, answer)
        outgoing = OutgoingEvents()
        for message, recipients, result in zip(batch, slices, fanout.results, strict=True):
            sender = add_fanout(outgoing, message, recipients, result)
            self._receipts.notify_of_sending(message.reserved, sender)
            self._in_flight.answer(message, sender)
        self._large_groups.push([message for message in batch if message.remaining])
        self._publisher.publish(outgoing, [message for message in batch if not message.remaining])

    def _message_calls(self, message: InFlightMessage) -> list[Call]:
        """Return the calls for the head, the clock of a channel's workspace, and others, in this order.

        The first one answers the head's newest seq.
        """
        assert message.committed is not None
        record = message.committed.reserved.message
        calls = [self._store.commits.newest_message_call(message.committed)]
        if is_on_workspace_clock(record.conversation):
            may_repeat = message.recovered
            calls.append(self._shared_events.message_call(record, MessageChange.CREATED, may_repeat=may_repeat))
        if record.mentions_all and kind_of(record.conversation) is ConversationKind.CHANNEL:
            calls.append(self._store.commits.mention_all_call(record))
        if record.key and record.digest:
            claim = Claim(record.id, record.conversation, record.digest, record.seq)
            calls.append(self._store.claims.settle_call(record.sender, record.key, claim))
        return calls

    async def _first_slice(self, message: InFlightMessage) -> RecipientSlice:
        """Return the first recipients. The others become the message's `remaining`."""
        committed = message.committed
        assert committed is not None
        message.event = MessageCreated(committed.reserved.message)
        change = committed.reserved.change
        if change is not None and change.updates_group:
            # The head includes the change since its reservation.
            head = await self._store.conversations.find(committed.reserved.message.conversation)
            message.group_event = GroupChanged(head) if head is not None and not head.has_ended else None
        first, message.remaining = await list_recipients(self._store, committed, FIRST_RECIPIENTS)
        return slice_recipients(committed, first, membership_updates(committed))

    async def _invalidate_new_members(self, overtaken: Sequence[InFlightMessage]) -> None:
        """Invalidate the states of users who joined with a message that a later one overtook.

        The later one was applied before they had a session for it.
        """
        changes = [message.reserved.change for message in overtaken]
        users = [user for change in changes if change is not None for user in change.joined]
        if users:
            await self._store.cache.run([self._store.sessions.apply_call(user, INVALIDATE) for user in users])

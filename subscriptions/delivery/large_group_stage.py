"""The large-group queue: recipients after the first ones, without delaying messages of other conversations.

Then users who begin to follow a thread are judged once more. Those who look at a thread and do not follow it come last.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from store.base.errors import StoreError
from store.sessions.changes import INVALIDATE
from store.store import Store
from subscriptions.delivery.coalescing.log_appends import append_event
from subscriptions.delivery.fanout_batch import FanoutBatch
from subscriptions.delivery.fanout_publisher import FanoutPublisher, add_fanout
from subscriptions.delivery.in_flight_messages import InFlightMessage, StageQueue
from subscriptions.delivery.recipients import RecipientSlice, SelectViewers, slice_recipients
from subscriptions.realtime.events.shared import MessageChange
from subscriptions.realtime.events.watched import WatchedMessage
from subscriptions.realtime.outgoing_events import OutgoingEvents

_log = structlog.get_logger()

_SLICE = 500
_MESSAGES = 32
"""Largest number of messages of one group that are fanned out together."""


class LargeGroupStage:
    """Fans messages out to their remaining recipients, one group at a time, in slices of 500.

    Each recipient gets the messages of a group in order.
    """

    def __init__(self, store: Store, publisher: FanoutPublisher, select_viewers: SelectViewers) -> None:
        self._store = store
        self._publisher = publisher
        self._select_viewers = select_viewers
        self.queue = StageQueue()

    async def run(self) -> None:
        """Fan out waiting messages, one group after the other."""
        while True:
            (first,) = await self.queue.take(1)
            conversation = first.reserved.message.conversation
            burst = [first, *self.queue.take_conversation(conversation, _MESSAGES - 1)]
            try:
                while any(message.remaining for message in burst):
                    await self._fan_out_slice([message for message in burst if message.remaining])
                for message in burst:
                    if message.new_followers:
                        await self._judge_new_followers(message)
                    if message.watchers:
                        await self._send_to_watchers(message)
            except Exception as error:
                if not isinstance(error, StoreError):
                    _log.exception("large_group_fanout_failed", group=conversation)
                for message in burst:
                    self._publisher.leave_incomplete(message)

    async def _fan_out_slice(self, burst: Sequence[InFlightMessage]) -> None:
        """Fan all messages out to the next recipients of the first one.

        So no recipient gets a later message before an earlier one.
        """
        slices = _take_slices(burst)
        fanout = FanoutBatch(self._store, slices)
        await fanout.run(self._store.cache.attempt_in_background)
        for user in fanout.unreached:
            self._store.stale_caches.add_user(user)
        outgoing = OutgoingEvents()
        for message, recipients, result in zip(burst, slices, fanout.results, strict=True):
            add_fanout(outgoing, message, recipients, result)
        self._publisher.publish(outgoing, [message for message in burst if message.is_complete])

    async def _judge_new_followers(self, message: InFlightMessage) -> None:
        """Drop the states of users who began to follow a thread that is hidden by now. A load hides it.

        What hid the thread from them may have been applied to their states before they followed it. What comes after
        this judgement is applied after it.
        """
        store, thread = self._store, message.reserved.message.conversation
        viewers = await store.thread_recipients.select_viewers(thread, message.new_followers)
        others = [user for user in message.new_followers if user not in viewers]
        if others:
            await store.cache.run_in_background([store.sessions.apply_call(user, INVALIDATE) for user in others])
        message.new_followers = ()
        if message.is_complete:
            self._publisher.publish(OutgoingEvents(), [message])

    async def _send_to_watchers(self, message: InFlightMessage) -> None:
        """Append the event of a reply to the logs of those who look at the thread and do not follow it."""
        record = message.reserved.message
        watchers = await self._select_viewers(record, message.watchers)
        event, outgoing = WatchedMessage(record, MessageChange.CREATED), OutgoingEvents()
        outcomes = await append_event(
            self._store, watchers, WatchedMessage.log_entry(record, event.change), may_repeat=message.may_be_shared
        )
        outgoing.add(event, outcomes)
        if message.recovered:
            outgoing.add_positions([pair for pair in outcomes if not pair[1].changed])
        message.watchers = ()
        self._publisher.publish(outgoing, [message])


def _take_slices(burst: Sequence[InFlightMessage]) -> list[RecipientSlice]:
    """Take the same users from the remaining recipients of all messages. Their order differs between messages."""
    users = burst[0].remaining[:_SLICE]
    chosen = frozenset(users)
    slices = []
    for message in burst:
        assert message.committed is not None
        taken, remaining = message.remaining[:_SLICE], message.remaining[_SLICE:]
        if taken != users:
            taken = [user for user in message.remaining if user in chosen]
            remaining = [user for user in message.remaining if user not in chosen]
        message.remaining = remaining
        slices.append(slice_recipients(message.committed, taken, outside=message.outside, judged=message.judged))
    return slices

"""The large-group queue: recipients after the first ones, without delaying messages of other conversations."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from store.base.errors import StoreError
from store.store import Store
from subscriptions.delivery.fanout_batch import FanoutBatch
from subscriptions.delivery.fanout_publisher import FanoutPublisher, add_fanout
from subscriptions.delivery.in_flight_messages import InFlightMessage, StageQueue
from subscriptions.delivery.recipients import RecipientSlice, slice_recipients
from subscriptions.realtime.outgoing_events import OutgoingEvents

_log = structlog.get_logger()

_SLICE = 500
_MESSAGES = 32
"""Largest number of messages of one group that are fanned out together."""


class LargeGroupStage:
    """Fans messages out to their remaining recipients, one group at a time, in slices of 500.

    Each recipient gets the messages of a group in order.
    """

    def __init__(self, store: Store, publisher: FanoutPublisher) -> None:
        self._store = store
        self._publisher = publisher
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
        await fanout.run(self._store.cache.run_in_background)
        outgoing = OutgoingEvents()
        for message, recipients, result in zip(burst, slices, fanout.results, strict=True):
            add_fanout(outgoing, message, recipients, result)
        self._publisher.publish(outgoing, [message for message in burst if not message.remaining])


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
        slices.append(slice_recipients(message.committed, taken))
    return slices

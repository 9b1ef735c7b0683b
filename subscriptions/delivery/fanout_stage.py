"""Fan-out: applies durable messages to the sessions of their first recipients, then answers their senders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationKind, kind_of, parse_thread
from store.conversations.watchers import parse_watchers
from store.messages.idempotency_claims import Claim
from store.redis.cache import Call
from store.sessions.apply_results import NOT_CACHED
from store.sessions.changes import INVALIDATE
from store.store import Store
from subscriptions.delivery.coalescing.thread_events import ThreadEvents
from subscriptions.delivery.fanout_batch import FanoutBatch
from subscriptions.delivery.fanout_publisher import FanoutPublisher, add_fanout
from subscriptions.delivery.in_flight_messages import InFlightMessage, InFlightMessages, StageQueue, delivery_order
from subscriptions.delivery.message_notes import MessageNotes
from subscriptions.delivery.receipts.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.recipients import (
    RecipientSlice,
    judge_threads,
    list_recipients,
    membership_updates,
    slice_recipients,
)
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


_NOT_CACHED_HEAD = (0, 0)
"""The answer for a head that is not in Redis: its newest seq, and its write time."""


class _Places(NamedTuple):
    """Places of a message's calls in a batch, by what they answer; None: there is no such call.

    Attributes:
        head: The head's newest seq and write time.
        clock: The event on the clock of a workspace.
        thread: The note that a thread has changed.
        watchers: The users who look at a thread.
    """

    head: int
    clock: int | None = None
    thread: int | None = None
    watchers: int | None = None


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
        threads: ThreadEvents,
        notes: MessageNotes,
    ) -> None:
        self._store = store
        self._notes = notes
        self._receipts = receipts
        self._in_flight = in_flight
        self._publisher = publisher
        self._large_groups = large_groups
        self._shared_events = shared_events
        self._threads = threads
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
                    self._leave_incomplete(message)

    def _leave_incomplete(self, message: InFlightMessage) -> None:
        """Answer the sender of a durable message whose fan-out failed. The message stays in its outbox."""
        self._in_flight.answer(message, NOT_CACHED)
        self._publisher.leave_incomplete(message)

    async def _fan_out(self, messages: list[InFlightMessage]) -> None:
        """Apply all messages to the heads, then to the sessions of senders and first recipients: one round trip.

        If a shard of Redis does not answer, its caches are remembered as stale. Recipients on other shards get the
        messages.
        """
        calls: list[Call] = []
        batch: list[InFlightMessage] = []
        places: list[_Places] = []
        slices: list[RecipientSlice] = []
        for message in sorted(messages, key=delivery_order):
            try:
                recipients = await self._first_slice(message)
            except StoreError:
                self._leave_incomplete(message)
                continue
            batch.append(message)
            slices.append(recipients)
            places.append(self._add_calls(calls, message))
        if not batch:
            return
        ends = [*(place.head for place in places[1:]), len(calls)]
        # Before a message leaves the outbox, and before its sender is answered.
        calls += self._notes.note_calls([message.reserved.message for message in batch])
        fanout = FanoutBatch(self._store, slices)
        answers = await fanout.run(self._store.cache.attempt, calls)
        if any(isinstance(answer, Exception) for answer in answers[ends[-1] :]):
            self._note_later(batch)
        for user in fanout.unreached:
            self._store.stale_caches.add_user(user)
        results = fanout.results
        if any(isinstance(answer, Exception) for answer in answers):
            publishable = [
                i for i, end in enumerate(ends) if self._handle_failures(batch[i], answers, places[i].head, end)
            ]
            batch, slices = [batch[i] for i in publishable], [slices[i] for i in publishable]
            places, results = [places[i] for i in publishable], [results[i] for i in publishable]
        # A head that is not cached answers 0, and may have been overtaken.
        overtaken = [
            message
            for message, place in zip(batch, places, strict=True)
            if not 0 < answers[place.head][0] <= _place_of(message)
        ]
        await self._invalidate_new_members(overtaken)
        for message, recipients, place in zip(batch, slices, places, strict=True):
            record = message.reserved.message
            message.written_at_ms = answers[place.head][1]
            if place.clock is not None:
                self._shared_events.publish_message(record, MessageChange.CREATED, answers[place.clock])
            if place.thread is not None:
                self._threads.publish(record.conversation, answers[place.thread])
            if place.watchers is not None:
                followers = {*recipients.users, *message.remaining} - message.outside
                watchers = parse_watchers(answers[place.watchers])
                message.watchers = [user for user in watchers if user not in followers]
        outgoing = OutgoingEvents()
        for message, recipients, result in zip(batch, slices, results, strict=True):
            sender = add_fanout(outgoing, message, recipients, result)
            self._receipts.notify_of_sending(message.reserved, sender)
            self._in_flight.answer(message, sender)
        self._notes.take([message.reserved.message for message in batch])
        self._large_groups.push([message for message in batch if not message.is_complete])
        self._publisher.publish(outgoing, [message for message in batch if message.is_complete])

    def _handle_failures(self, message: InFlightMessage, answers: list[Any], first: int, end: int) -> bool:
        """Handle failed calls of a message, if there are any. Return whether it can be published.

        A head that could not be updated counts as not cached, and is dropped later. A claim that could not be updated
        is no failure: it names the message already.
        """
        if not any(isinstance(answer, Exception) for answer in answers[first:end]):
            return True
        conversation = message.reserved.message.conversation
        if kind_of(conversation) not in (ConversationKind.PRIVATE, ConversationKind.GROUP):
            self._leave_incomplete(message)
            return False
        if isinstance(answers[first], Exception):
            answers[first] = _NOT_CACHED_HEAD
            message.stays_in_outbox = True
            self._store.stale_caches.add_head(conversation)
        return True

    def _note_later(self, batch: Sequence[InFlightMessage]) -> None:
        """Make sure that messages are noted later: keep them in the outbox, so that their delivery is repeated.

        While the row says that a shard is away, repeating would fail again and again. The loss recovery that follows
        notes these messages instead.
        """
        generations = self._store.deployment.generations
        if generations.is_apart:
            generations.lost_notes.add()
        else:
            for message in batch:
                message.stays_in_outbox = True

    def _add_calls(self, calls: list[Call], message: InFlightMessage) -> _Places:
        """Add the calls for the head, the clock of a channel's workspace, and others. Return the places of some."""
        assert message.committed is not None
        record = message.committed.reserved.message
        places = _Places(len(calls))
        calls.append(self._store.commits.newest_message_call(message.committed))
        kind, change = kind_of(record.conversation), message.reserved.change
        has_message = change is None or change.announced
        if has_message and is_on_workspace_clock(record.conversation):
            places = places._replace(clock=len(calls))
            may_repeat = message.may_be_shared
            calls.append(self._shared_events.message_call(record, MessageChange.CREATED, may_repeat=may_repeat))
        if record.mentions_all and kind in (ConversationKind.CHANNEL, ConversationKind.THREAD):
            calls.append(self._store.commits.mention_all_call(record))
        thread = parse_thread(record.conversation)
        if thread is not None and change is not None and change.announced:
            # The first reply of a thread always has a change.
            calls.append(self._store.threads.mark_parent_call(thread.parent, thread.seq))
        if thread is not None and self._threads.is_changed_by(message.reserved):
            places = places._replace(thread=len(calls))
            calls.append(self._threads.note_call(record.conversation))
        if thread is not None and has_message and places.clock is None:
            places = places._replace(watchers=len(calls))
            calls.append(self._store.watchers.list_call(record.conversation))
        if record.key and record.digest:
            claim = Claim(record.id, record.conversation, record.digest, record.seq)
            calls.append(self._store.claims.settle_call(record.sender, record.key, claim))
        return places

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
        recipients = await list_recipients(self._store, committed, FIRST_RECIPIENTS)
        message.remaining, message.outside = recipients.remaining, recipients.outside
        if change is not None and change.is_of_thread:
            message.new_followers = change.joined
        message.judged = await judge_threads(self._store, committed)
        updates = membership_updates(committed)
        return slice_recipients(committed, recipients.first, updates, recipients.outside, message.judged)

    async def _invalidate_new_members(self, overtaken: Sequence[InFlightMessage]) -> None:
        """Invalidate the states of users who joined with a message that a later one overtook.

        The later one was applied before they had a session for it.
        """
        changes = [message.reserved.change for message in overtaken]
        users = [user for change in changes if change is not None for user in change.joined]
        if users:
            await self._store.cache.run([self._store.sessions.apply_call(user, INVALIDATE) for user in users])


def _place_of(message: InFlightMessage) -> int:
    """Return the seq from which on users who join with a message get later ones."""
    seq, change = message.reserved.message.seq, message.reserved.change
    return change.newest_seq if not seq and change is not None and change.newest_seq is not None else seq

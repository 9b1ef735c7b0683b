"""The last step of a fan-out: events for the recipients' devices, and the end of the delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationKind, UserId, kind_of, parse_thread, without_thread
from store.base.tasks import end_tasks
from store.channels.channel_sessions import with_newest
from store.sessions.apply_results import NOT_CACHED, ApplyResult
from store.store import Store
from subscriptions.delivery.fanout_batch import SliceResult
from subscriptions.delivery.in_flight_messages import InFlightMessage, InFlightMessages
from subscriptions.delivery.recipients import RecipientSlice, channel_recipients
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.messages import Mentioned
from subscriptions.realtime.outgoing_events import OutgoingEvents

_log = structlog.get_logger()

_WITH_OTHERS = (ConversationKind.CHANNEL, ConversationKind.THREAD)
"""There a message changes sessions of users who get no message."""


class FanoutPublisher:
    """Publishes fanned-out messages."""

    def __init__(self, store: Store, bus: Bus, in_flight: InFlightMessages) -> None:
        self._store = store
        self._bus = bus
        self._in_flight = in_flight
        self._tasks: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """Stop what is not done. Other servers finish it from the outbox."""
        await end_tasks(self._tasks)

    def publish(self, outgoing: OutgoingEvents, complete: Sequence[InFlightMessage]) -> None:
        """Send events. Messages whose delivery is complete then leave the outbox, once their files are bound to them.

        Messages without files do not wait for those with files.
        """
        with_files = [message for message in complete if message.reserved.message.own_files]
        if with_files:
            complete = [message for message in complete if not message.reserved.message.own_files]
            self._start(self._bind_and_end(with_files))
        self._end(outgoing, complete)

    def _end(self, outgoing: OutgoingEvents, complete: Sequence[InFlightMessage]) -> None:
        for message in complete:
            self._in_flight.remove(message)
        noted = (message for message in complete if not message.stays_in_outbox)
        self._bus.send(outgoing, [self._store.outbox.clear_call(message.reserved) for message in noted])

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind_and_end(self, messages: Sequence[InFlightMessage]) -> None:
        if await self._bind(messages):
            self._end(OutgoingEvents(), messages)
        for message in messages:
            self._in_flight.remove(message)

    async def _bind(self, messages: Sequence[InFlightMessage]) -> bool:
        """Bind the files of stored messages to them. Return whether that was done."""
        try:
            await self._store.message_files.bind([message.reserved.message for message in messages])
        except StoreError as error:
            # The outbox has the messages. If it is lost, the files are bound before they would be removed.
            _log.warning("files_not_bound_yet", messages=len(messages), reason=str(error))
            return False
        return True

    def leave_incomplete(self, message: InFlightMessage) -> None:
        """Leave the rest of the delivery to the outbox, or to the stale caches if the outbox was lost."""
        self._in_flight.remove(message)
        if message.reserved.message.own_files:
            self._start(self._bind([message]))
        record, stale_caches = message.reserved.message, self._store.stale_caches
        stale_caches.add_conversation(record.conversation)
        if parse_thread(record.conversation) is not None:
            # It may be the first reply: then the parent message gets its thread.
            stale_caches.add_head(without_thread(record.conversation))
        if kind_of(record.conversation) in _WITH_OTHERS:
            for user in channel_recipients(message.reserved):
                stale_caches.add_user(user)


def add_fanout(
    outgoing: OutgoingEvents,
    message: InFlightMessage,
    recipients: RecipientSlice,
    result: SliceResult,
) -> ApplyResult:
    """Add the events of one slice of recipients.

    Args:
        outgoing: The events are added to it.
        message: The message.
        recipients: The slice.
        result: The effects on the slice.

    Returns:
        The result for the message's sender; NOT_CACHED if the sender is not in the slice.
    """
    at_ms = recipients.committed.at_ms
    outcomes: list[tuple[UserId, ApplyResult]] = []
    for update, applied in zip(recipients.updates, result.updates, strict=True):
        outcome = _shown(message, applied.others[0][1] if applied.others else NOT_CACHED, at_ms)
        outcomes.append((update.user, outcome))
        outgoing.add(
            update.session_event(outcome),
            [(update.user, outcome)],
            stored_at=at_ms,
            has_own_write_ts=update.has_own_write_ts,
        )
    assert message.event is not None
    outgoing.add_message(message.event, result.message, at_ms)
    outcomes += result.message.others
    change = message.reserved.change
    if recipients.notified:
        is_update = change is not None and change.updates_group
        event = message.group_event if is_update else Mentioned(message.reserved.message)
        stored_at = change.update_time_ms(at_ms) if change is not None and is_update else at_ms
        outgoing.add(event, result.notice.others, stored_at=stored_at)
        outcomes += result.notice.others
    if message.recovered:
        # The server that died may have applied the message without publishing it: hubs compare their users' clocks.
        outgoing.add_positions([pair for pair in outcomes if not pair[1].changed])
    sender, own = message.reserved.message.sender, result.message.others
    if kind_of(message.reserved.message.conversation) in _WITH_OTHERS:
        # The message comes after the change that made its sender follow the thread.
        own = [*own, *outcomes]
    return next((outcome for user, outcome in own if user == sender), NOT_CACHED)


def _shown(message: InFlightMessage, outcome: ApplyResult, at_ms: int) -> ApplyResult:
    """Return a result with the sessions as their user sees them, if they take something from the head."""
    if not any(session.comes_from_head for session in outcome.sessions):
        return outcome
    place, change = message.reserved.message, message.reserved.change
    # Clocks of servers differ, so an earlier message may have been written later.
    seq, written_ms = place.seq, max(at_ms, message.written_at_ms)
    if change is not None and change.newest_seq is not None and not change.announced:
        seq, written_ms = change.newest_seq, change.written_at_ms
    sessions = (with_newest(s, seq, place.n, written_ms) if s.comes_from_head else s for s in outcome.sessions)
    return replace(outcome, sessions=tuple(sessions))

"""The last step of a fan-out: events for the recipients' devices, and the end of the delivery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from store.base.ids import ConversationKind, UserId, kind_of
from store.channels.channel_sessions import with_newest
from store.sessions.apply_results import NOT_CACHED, ApplyResult
from store.store import Store
from subscriptions.delivery.fanout_batch import SliceResult
from subscriptions.delivery.in_flight_messages import InFlightMessage, InFlightMessages
from subscriptions.delivery.recipients import RecipientSlice, channel_recipients
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.messages import Mentioned
from subscriptions.realtime.outgoing_events import OutgoingEvents


class FanoutPublisher:
    """Publishes fanned-out messages."""

    def __init__(self, store: Store, bus: Bus, in_flight: InFlightMessages) -> None:
        self._store = store
        self._bus = bus
        self._in_flight = in_flight

    def publish(self, outgoing: OutgoingEvents, complete: Sequence[InFlightMessage]) -> None:
        """Send events. Messages whose delivery is complete then leave the outbox."""
        for message in complete:
            self._in_flight.remove(message)
        self._bus.send(outgoing, [self._store.outbox.clear_call(message.reserved) for message in complete])

    def leave_incomplete(self, message: InFlightMessage) -> None:
        """Leave the rest of the delivery to the outbox, or to the stale caches if the outbox was lost."""
        self._in_flight.remove(message)
        record, stale_caches = message.reserved.message, self._store.stale_caches
        stale_caches.add_conversation(record.conversation)
        if kind_of(record.conversation) is ConversationKind.CHANNEL:
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
        event = message.group_event if change is not None else Mentioned(message.reserved.message)
        stored_at = change.update_time_ms(at_ms) if change is not None else at_ms
        outgoing.add(event, result.notice.others, stored_at=stored_at)
        outcomes += result.notice.others
    if message.recovered:
        # The server that died may have applied the message without publishing it: hubs compare their users' clocks.
        outgoing.add_positions([pair for pair in outcomes if not pair[1].changed])
    sender, own = message.reserved.message.sender, result.message.others
    if kind_of(message.reserved.message.conversation) is ConversationKind.CHANNEL:
        own = outcomes
    return next((outcome for user, outcome in own if user == sender), NOT_CACHED)


def _shown(message: InFlightMessage, outcome: ApplyResult, at_ms: int) -> ApplyResult:
    """Return the result for the sender of a message in a channel with the session as the sender sees it."""
    place = message.reserved.message
    if kind_of(place.conversation) is not ConversationKind.CHANNEL:
        return outcome
    return replace(outcome, sessions=tuple(with_newest(each, place.seq, place.n, at_ms) for each in outcome.sessions))

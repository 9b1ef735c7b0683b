"""The interface of a subscription's events, as the engine uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from resolvers.live.live_stream import LiveEvent, LiveEventReceiver, LivePayload
from subscriptions.realtime.mailboxes import Position


class LiveEvents(Protocol):
    """The events of one subscription: `LiveStream` those on clocks, `PresenceStream` those without a position."""

    @property
    def is_catching_up(self) -> bool:
        """True if the last taken event was read for this subscriber alone."""
        ...

    def on_ready(self, call: Callable[[], None]) -> None:
        """Make `call` when `take` has returned None and may return an event again."""
        ...

    def hand_over_to(self, receiver: LiveEventReceiver) -> None:
        """From the time when `take` has returned None, hand events to a receiver while it is ready."""
        ...

    def take(self) -> LiveEvent | None:
        """Remove and return the next event, if there is one. Raises the errors of reads from the databases."""
        ...

    def still_shows(self, payload: LivePayload) -> bool:
        """Return whether an event that was taken may still be sent."""
        ...

    def drop(self, position: Position) -> None:
        """Drop the events up to a position and those that wait. The subscriber has to start over."""
        ...

    def close(self) -> None:
        """End the stream. Idempotent."""
        ...

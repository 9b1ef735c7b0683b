"""Events of messages on users' own clocks, as those who look at the conversation see them."""

from __future__ import annotations

from collections import OrderedDict

from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.messages import MessageCreated, MessageEvent, MessageRecalled, MessageUpdated
from subscriptions.realtime.events.shared import ChannelMessage, MessageChange
from subscriptions.realtime.mailboxes import Position

_CHANGES: dict[type[Event], MessageChange] = {
    MessageCreated: MessageChange.CREATED,
    MessageUpdated: MessageChange.UPDATED,
    MessageRecalled: MessageChange.RECALLED,
}

_REMEMBERED_EVENTS = 256


class UserClockMessages:
    """Converts events, each once for all users whose clocks gave it the same tick. That is usual."""

    def __init__(self) -> None:
        """Begin without events."""
        self._converted: OrderedDict[tuple[int, int], tuple[Event, ChannelMessage]] = OrderedDict()

    def convert(self, event: Event, position: Position) -> ChannelMessage | None:
        """Return the event of a message in a conversation; None for other events."""
        if isinstance(event, ChannelMessage):
            return event
        change = _CHANGES.get(type(event))
        if change is None or not isinstance(event, MessageEvent):
            return None
        key = (id(event), position.tick)
        known = self._converted.get(key)
        if known is not None:
            return known[1]
        converted = ChannelMessage(event.message, change, rev=position.tick)
        # It holds the event, so the id is not used again meanwhile.
        self._converted[key] = (event, converted)
        if len(self._converted) > _REMEMBERED_EVENTS:
            self._converted.popitem(last=False)
        return converted

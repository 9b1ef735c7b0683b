"""Events on users' own clocks, as those who look at the conversation see them in `channelEvents`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.messages import (
    MessageCreated,
    MessageEvent,
    MessageRecalled,
    MessageUpdated,
    PinsChanged,
)
from subscriptions.realtime.events.reactions import ChannelReactions, ReactionsChanged
from subscriptions.realtime.events.shared import ChannelEvent, ChannelMessage, ChannelPins, MessageChange
from subscriptions.realtime.events.threads import ChannelThread, ThreadChanged
from subscriptions.realtime.events.watched import WatchedMessage
from subscriptions.realtime.mailboxes import Position


def _message(change: MessageChange, event: MessageEvent, rev: int) -> ChannelMessage:
    return ChannelMessage(event.message, change, rev=rev)


def _pins(event: PinsChanged, rev: int) -> ChannelPins:
    # The number tells entries of a workspace's log apart. This event is in no such log.
    return ChannelPins(event.message, 0, rev=rev)


def _reactions(event: ReactionsChanged, rev: int) -> ChannelReactions:
    return ChannelReactions(event.message, rev=rev)


def _watched(event: WatchedMessage, rev: int) -> ChannelMessage:
    return ChannelMessage(event.message, event.change, rev=rev)


def _thread(event: ThreadChanged, rev: int) -> ChannelThread:
    return ChannelThread(event.parent, rev=rev)


_CONVERSIONS: Mapping[type[Event], Callable[[Any, int], ChannelEvent]] = {
    MessageCreated: partial(_message, MessageChange.CREATED),
    MessageUpdated: partial(_message, MessageChange.UPDATED),
    MessageRecalled: partial(_message, MessageChange.RECALLED),
    PinsChanged: _pins,
    ReactionsChanged: _reactions,
    WatchedMessage: _watched,
    ThreadChanged: _thread,
}
"""For each kind the function that makes the event for `channelEvents`, of the event and its tick."""

_REMEMBERED_EVENTS = 256


class UserClockEvents:
    """Converts events, each once for all users whose clocks gave it the same tick. That is usual."""

    def __init__(self) -> None:
        """Begin without events."""
        self._converted: OrderedDict[tuple[int, int], tuple[Event, ChannelEvent]] = OrderedDict()

    def convert(self, event: Event, position: Position) -> ChannelEvent | None:
        """Return the event as it is shown in a conversation; None for events that are not shown there."""
        if isinstance(event, ChannelEvent):
            return event
        convert = _CONVERSIONS.get(type(event))
        if convert is None:
            return None
        key = (id(event), position.tick)
        known = self._converted.get(key)
        if known is not None:
            return known[1]
        converted = convert(event, position.tick)
        # It holds the event, so the id is not used again meanwhile.
        self._converted[key] = (event, converted)
        if len(self._converted) > _REMEMBERED_EVENTS:
            self._converted.popitem(last=False)
        return converted

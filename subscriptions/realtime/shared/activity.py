"""Activity of channels: at most one event a second and channel on each process, the last one always."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from store.base.ids import ConversationId
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.shared import ChannelActivity, ChannelMessage
from subscriptions.realtime.mailboxes import Mailbox, MailboxEvent, Position

SECONDS_BETWEEN = 1.0


class ActivityFeed:
    """Makes ChannelActivity of the messages of one workspace, for all subscribers of this process.

    The first message after a quiet second is passed on at once. Those that follow wait for the end of that second, and
    only the newest of them is passed on then.
    """

    def __init__(self, mailbox: Mailbox, deliver: Callable[[ChannelActivity], None]) -> None:
        """Begin. `deliver` hands an event to all subscribers of the workspace. `close` detaches no mailbox."""
        self.mailbox = mailbox
        self.subscribers = 0
        self._deliver = deliver
        self._sent: dict[ConversationId, int] = {}
        """The seq of the last event of each channel, for a second."""
        self._waiting: dict[ConversationId, ChannelActivity] = {}
        self._timers: dict[ConversationId, asyncio.TimerHandle] = {}
        mailbox.on_ready(self._drain)
        mailbox.receive_with(self._receive)

    def _drain(self) -> None:
        # Subscribers who lost events get them by a reset of their own.
        while (item := self.mailbox.take()) is not None:
            if isinstance(item, MailboxEvent):
                self._receive(*item)

    def _receive(self, _position: Position, event: Event) -> bool:
        """Take an event of the workspace, each one once and in the order of its clock."""
        if isinstance(event, ChannelMessage) and event.is_activity:
            activity = activity_of(event)
            if activity.channel not in self._sent:
                self._send(activity)
            elif activity.seq > self._newest_seq(activity.channel):
                self._waiting[activity.channel] = activity
        return True

    def _newest_seq(self, channel: ConversationId) -> int:
        waiting = self._waiting.get(channel)
        return waiting.seq if waiting is not None else self._sent[channel]

    def _send(self, activity: ChannelActivity) -> None:
        loop, channel = asyncio.get_running_loop(), activity.channel
        self._sent[channel] = activity.seq
        self._timers[channel] = loop.call_later(SECONDS_BETWEEN, self._end_second, channel)
        # The mailboxes of other subscribers may not have the message's own event yet.
        loop.call_soon(self._deliver, activity)

    def _end_second(self, channel: ConversationId) -> None:
        del self._timers[channel]
        activity = self._waiting.pop(channel, None)
        if activity is not None:
            self._send(activity)
        else:
            del self._sent[channel]

    def close(self) -> None:
        """Drop the events that wait."""
        for timer in self._timers.values():
            timer.cancel()


def activity_of(event: ChannelMessage) -> ChannelActivity:
    """Return the activity that a new message means."""
    message = event.message
    return ChannelActivity(message.conversation, message.seq, message.n, message.created_at_ms, rev=event.rev)

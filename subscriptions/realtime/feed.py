"""Feeds: the events of one clock on one process, in the order of the clock."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from subscriptions.realtime.events.base import Event
from subscriptions.realtime.mailboxes import Lagged, Mailbox, Position

Owner = TypeVar("Owner", bound=str)


class Feed(Generic[Owner]):
    """The position of a clock's subscriptions, their mailboxes, and the events that wait for an earlier one."""

    __slots__ = (
        "attaching",
        "early",
        "lock",
        "mailboxes",
        "may_miss_events",
        "owner",
        "position",
        "repair",
    )

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.position: Position | None = None
        self.mailboxes: set[Mailbox] = set()
        self.early: dict[int, tuple[int, Event | None]] = {}
        """Events that arrived before an earlier event: tick and event by the tick before."""
        self.lock = asyncio.Lock()
        self.attaching = 0
        self.may_miss_events = False
        """True if events may be missing although the chain shows no gap."""
        self.repair: asyncio.Task[None] | None = None

    def deliver(self, position: Position, event: Event | None) -> None:
        """Deliver an event to all mailboxes that want it. Without an event, only the position moves."""
        self.position = position
        if event is not None:
            concerned, subject = event.concerned_users, event.subject
            # A subscriber may detach its mailbox during this.
            for mailbox in tuple(self.mailboxes):
                if (concerned is None or mailbox.user in concerned) and (
                    subject is None or mailbox.subjects is None or subject in mailbox.subjects
                ):
                    mailbox.deliver(position, event)

    def lag(self, position: Position) -> None:
        """Put Lagged into all mailboxes and continue from a position."""
        self.position = position
        self.early.clear()
        for mailbox in tuple(self.mailboxes):
            mailbox.put(Lagged(position, self.owner))

    def deliver_early(self) -> None:
        """Deliver the early events that are next in the chain."""
        assert self.position is not None
        while self.early:
            tick = self.position.tick
            ready = [previous for previous in self.early if previous <= tick]
            if not ready:
                return
            later, event = self.early.pop(min(ready))
            if later > tick:
                self.deliver(Position(self.position.epoch, later), event)

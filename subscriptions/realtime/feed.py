"""Feeds: the events of one user on one process, in the order of the user's clock."""

from __future__ import annotations

import asyncio

from store.base.ids import UserId
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.mailboxes import Lagged, Mailbox, MailboxEvent, Position


class Feed:
    """The position of a user's subscriptions, their mailboxes, and the events that wait for an earlier one."""

    __slots__ = ("attaching", "early", "lock", "mailboxes", "mute_ends", "position", "repair", "suspect", "user")

    def __init__(self, user: UserId) -> None:
        self.user = user
        self.position: Position | None = None
        self.mailboxes: set[Mailbox] = set()
        self.early: dict[int, tuple[int, Event | None]] = {}
        """Events that came before their turn: tick and event by the tick before."""
        self.lock = asyncio.Lock()
        self.attaching = 0
        self.mute_ends: int | None = None
        self.suspect = False
        """Events may be missing that the chain does not show."""
        self.repair: asyncio.Task[None] | None = None

    def deliver(self, position: Position, event: Event | None) -> None:
        """Put an event into all mailboxes. Without an event, only the position moves."""
        self.position = position
        if event is not None:
            item = MailboxEvent(position, event)
            # A subscriber may detach its mailbox during this.
            for mailbox in tuple(self.mailboxes):
                mailbox.put(item)

    def lag(self, position: Position) -> None:
        """Put Lagged into all mailboxes and go on from a position."""
        self.position = position
        self.early.clear()
        for mailbox in tuple(self.mailboxes):
            mailbox.put(Lagged(position))

    def deliver_early(self) -> None:
        """Deliver the events that came early and are next."""
        assert self.position is not None
        while self.early:
            tick = self.position.tick
            ready = [previous for previous in self.early if previous <= tick]
            if not ready:
                return
            later, event = self.early.pop(min(ready))
            if later > tick:
                self.deliver(Position(self.position.epoch, later), event)

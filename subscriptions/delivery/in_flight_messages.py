"""A message on its way through the stages of `subscriptions/delivery/message_delivery.py`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from store.base.ids import UserId
from store.messages.message import CommittedMessage, Message, ReservedMessage
from store.sessions.apply_results import ApplyResult
from subscriptions.realtime.events.messages import MessageCreated


@dataclass(frozen=True, slots=True)
class Sent:
    """A durable message, and what it did to its sender's session (not in use: that state was not in the cache)."""

    message: Message
    sender: ApplyResult


@dataclass(slots=True, eq=False)
class InFlightMessage:
    """A message on its way."""

    reserved: ReservedMessage
    done: asyncio.Future[Sent]
    recovered: bool
    committed: CommittedMessage | None = None
    event: MessageCreated | None = None
    rest: list[UserId] = field(default_factory=list)


def shown_order(parcelled: InFlightMessage) -> tuple[int, int]:
    """By time, and by place among those of one time: the order in which durable messages are shown."""
    assert parcelled.committed is not None
    return parcelled.committed.at_ms, parcelled.reserved.message.seq

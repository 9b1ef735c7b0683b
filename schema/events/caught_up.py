"""The GraphQL type of the event at the end of the missed events."""

from __future__ import annotations

from typing import Self

import strawberry

from resolvers.live.live_stream import CaughtUp
from schema.base.scalars import Cursor
from schema.events.source import CURSOR


@strawberry.type(name="CaughtUp")
class CaughtUpType:
    cursor: Cursor
    reset: bool

    @classmethod
    def from_event(cls, event: CaughtUp) -> Self:
        """Return the GraphQL object of an event."""
        return cls(cursor=CURSOR, reset=event.reset)

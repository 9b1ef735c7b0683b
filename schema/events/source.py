"""The value of a subscription's field: a live stream, and the conversion of its events to GraphQL."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

from resolvers.base.cursors import SyncCursors
from resolvers.live.live_events import LiveEvents
from schema.base.context import Context
from schema.base.scalars import Cursor

CURSOR = Cursor(secrets.token_hex(16))
"""Placeholder of the subscriber's cursor in a shared response. It is replaced before a response is sent."""


class Source(AsyncIterator[Any]):
    """The value of a subscription's field: a stream of events, and how to convert an event to GraphQL."""

    __slots__ = ("convert", "cursors", "stream")

    def __init__(self, context: Context, stream: LiveEvents, convert: Callable[[Any], object]) -> None:
        self.cursors = SyncCursors(context.app.store.deployment.name, context.viewer)
        """Encodes positions as cursors of this subscriber."""
        self.stream = stream
        self.convert = convert
        """Returns an event as the value of the field, with CURSOR for the cursor. The same for all subscribers."""

    async def __anext__(self) -> NoReturn:
        """Never called: graphql-core requires an iterator, but the engine takes events from the stream."""
        raise NotImplementedError

"""The value of a subscription's field: a live stream, and the conversion of its events to GraphQL."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

from resolvers.live.live_stream import LiveStream
from resolvers.sessions.session_lists import sync_cursor
from schema.base.context import Context
from schema.base.scalars import Cursor
from subscriptions.realtime.mailboxes import Position

CURSOR = Cursor(secrets.token_hex(16))
"""Placeholder of the subscriber's cursor in a shared response. It is replaced before a response is sent."""


class Source(AsyncIterator[Any]):
    """The value of a subscription's field: a stream of events, and how to convert an event to GraphQL."""

    __slots__ = ("_app", "_user", "convert", "stream")

    def __init__(self, context: Context, stream: LiveStream, convert: Callable[[Any], object]) -> None:
        self._app = context.app
        self._user = context.viewer
        self.stream = stream
        self.convert = convert
        """Returns an event as the value of the field, with CURSOR for the cursor. The same for all subscribers."""

    def cursor(self, position: Position) -> str:
        """Return the cursor of this subscriber at a position."""
        return sync_cursor(self._app, self._user, position)

    async def __anext__(self) -> NoReturn:
        """Never called: graphql-core requires an iterator, but the engine takes events from the stream."""
        raise NotImplementedError

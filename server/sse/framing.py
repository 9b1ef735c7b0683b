"""Format of server-sent events, as in the PROTOCOL.md of npm `graphql-sse`."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from server.http.request import EVENT_STREAM
from server.http.response import HEADERS

COMMENT = b":\n\n"
"""An empty comment. Makes proxies forward the headers at once, and keeps them from closing an idle stream."""

STREAM_HEADERS = {
    **HEADERS,
    "content-type": f"{EVENT_STREAM}; charset=utf-8",
    # Tells nginx and compatible proxies not to buffer events.
    "x-accel-buffering": "no",
}


@dataclass(frozen=True, slots=True)
class Framing:
    """Format of one operation's events, with or without an operation id."""

    head: bytes
    tail: bytes
    complete: bytes

    @classmethod
    def of(cls, operation_id: str | None) -> Framing:
        """Return the format for an operation. None means that the stream has a single operation."""
        if operation_id is None:
            return cls(b"event: next\ndata: ", b"\n\n", b"event: complete\ndata:\n\n")
        id = orjson.dumps(operation_id)
        return cls(
            b'event: next\ndata: {"id":%b,"payload":' % id, b"}\n\n", b'event: complete\ndata: {"id":%b}\n\n' % id
        )

    def next(self, response: bytes) -> bytes:
        """Format one response, which is JSON on one line."""
        return b"%b%b%b" % (self.head, response, self.tail)

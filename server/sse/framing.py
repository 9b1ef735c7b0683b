"""Server-sent events as npm `graphql-sse` has them (its PROTOCOL.md): what stands in a text/event-stream."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from server.http.request import EVENT_STREAM
from server.http.response import HEADERS

COMMENT = b":\n\n"
"""Says nothing. It makes proxies pass on the headers at once, and keeps them from taking the stream for dead."""

STREAM_HEADERS = {
    **HEADERS,
    "content-type": f"{EVENT_STREAM}; charset=utf-8",
    # Asks nginx, and those who took that over, not to hold events back until a buffer is full.
    "x-accel-buffering": "no",
}


@dataclass(frozen=True, slots=True)
class Framing:
    """One operation's events: those of a stream that is its alone, or with its id among others."""

    head: bytes
    tail: bytes
    complete: bytes

    @classmethod
    def of(cls, operation_id: str | None) -> Framing:
        """None: the stream is the operation's alone."""
        if operation_id is None:
            return cls(b"event: next\ndata: ", b"\n\n", b"event: complete\ndata:\n\n")
        id = orjson.dumps(operation_id)
        return cls(
            b'event: next\ndata: {"id":%b,"payload":' % id, b"}\n\n", b'event: complete\ndata: {"id":%b}\n\n' % id
        )

    def next(self, response: bytes) -> bytes:
        """One response, which is JSON on one line."""
        return b"%b%b%b" % (self.head, response, self.tail)

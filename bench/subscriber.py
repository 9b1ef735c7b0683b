"""A cheap subscriber: frames are counted and timed by a stamp in their text, and not parsed."""

from __future__ import annotations

import asyncio
import time
import uuid
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

import orjson

STAMP = b"sent at "
"""The mark before the time of sending in a message's text: nanoseconds of the monotonic clock, shared by all
processes.
"""

STAMP_DIGITS = 19
"""Digits of the time, padded with zeros, so that all messages have the same length."""

_CAUGHT_UP = (b'CaughtUp"', b'"CATCH_UP"')
_ACK = b'"connection_ack"'
PING = b'"ping"'

PATIENCE_SECONDS = 60.0
"""Time limit of every wait."""


def stamp() -> str:
    """Return the text of a message that is sent now."""
    return f"{STAMP.decode()}{time.monotonic_ns():0{STAMP_DIGITS}}"


@dataclass
class Deliveries:
    """Frames received by all subscribers of a process since the last report."""

    count: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"))
    first: dict[int, float] = field(default_factory=dict)
    last: dict[int, float] = field(default_factory=dict)
    """By message: the waiting time of the first and the last subscriber, in seconds."""
    sample: bytes = b""
    by_message: Counter[int] = field(default_factory=Counter)
    other: int = 0
    """Frames without a stamp."""
    other_sample: bytes = b""
    ended: int = 0
    errors: int = 0
    """Other frames that end an operation, and those with an error."""

    def take(self, payload: bytes) -> None:
        at = payload.find(STAMP)
        if at < 0:
            self.other += 1
            is_refused = b'"type":"error"' in payload
            self.ended += is_refused or b'"type":"complete"' in payload
            self.errors += is_refused or b'"errors"' in payload
            self.other_sample = payload
            return
        start = at + len(STAMP)
        sent = int(payload[start : start + STAMP_DIGITS])
        waited = (time.monotonic_ns() - sent) / 1e9
        self.count += 1
        self.seconds.append(waited)
        if sent not in self.first:
            self.first[sent] = waited
            self.sample = payload
        self.by_message[sent] += 1
        self.last[sent] = waited

    async def until(self, count: int, other: int = 0) -> None:
        """Wait for numbers of deliveries and of other frames. Raises RuntimeError after PATIENCE_SECONDS."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while self.count < count or self.other < other:  # noqa: ASYNC110
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise RuntimeError(
                f"{self.count} of {count} deliveries came, {self.other} other frames ({self.other_sample[:300]!r})"
            ) from None


@dataclass(frozen=True, slots=True)
class Opening:
    """The first frames of a subscriber.

    init: the text of the first frame; without it, a plain WebSocket, ready once it is open. subscriptions: GraphQL.
    """

    host: str
    path: str
    init: str | None
    subscriptions: Sequence[str]

    def request(self) -> bytes:
        protocol = "" if self.init is None else "Sec-WebSocket-Protocol: graphql-transport-ws\r\n"
        return (
            f"GET {self.path} HTTP/1.1\r\nHost: {self.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: Y2hlYXAgc3Vic2NyaWJlcg==\r\nSec-WebSocket-Version: 13\r\n{protocol}\r\n"
        ).encode()


def client_frame(payload: bytes, opcode: int = 0x1) -> bytes:
    """Return a frame as clients send it, masked with zeros."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload


def subscribe_frames(subscriptions: Sequence[str]) -> bytes:
    """Return subscribe frames with ids like those of the public clients."""
    frames = [{"id": str(uuid.uuid4()), "type": "subscribe", "payload": {"query": query}} for query in subscriptions]
    return b"".join(client_frame(orjson.dumps(frame)) for frame in frames)


def server_frames(data: bytes, at: int = 0) -> tuple[list[tuple[int, bytes]], bytes]:
    """Return the complete frames in data from a position on, with their opcodes, and the remaining position."""
    frames = []
    size = len(data)
    while size - at >= 2:
        length, start = data[at + 1], at + 2
        if length == 126:
            length, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
        elif length == 127:
            length, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
        if start + length > size:
            break
        frames.append((data[at] & 0x0F, data[start : start + length]))
        at = start + length
    return frames, data[at:]


LONGEST_PING = 64
PONG = client_frame(b'{"type":"pong"}')


class Subscriber(asyncio.Protocol):
    """One connection. `ready` is done once it is acknowledged and all its subscriptions have caught up."""

    def __init__(self, opening: Opening, heard: Deliveries) -> None:
        self.heard = heard
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed: tuple[int, str] | None = None
        self._opening = opening
        self._waiting_for = 0
        self._buffer = b""
        self._open = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's class is not a subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._opening.request())

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = self.closed or (1006, "")
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(f"closed before it was ready: {self.closed}"))
            # The caller, who opens many, only needs the first failure.
            self.ready.exception()

    def subscribe(self, subscriptions: Sequence[str]) -> None:
        """Add subscriptions. `ready` is done once they have caught up."""
        self.ready = asyncio.get_running_loop().create_future()
        self._start(subscriptions)

    def _start(self, subscriptions: Sequence[str]) -> None:
        assert self._transport is not None
        self._waiting_for = len(subscriptions)
        self._transport.write(subscribe_frames(subscriptions))
        self._check_ready()

    def send(self, frame: bytes) -> None:
        """Send a frame. Answers count as other frames."""
        assert self._transport is not None
        self._transport.write(frame)

    @property
    def local_port(self) -> int:
        """The port of this end of the connection."""
        assert self._transport is not None
        return int(self._transport.get_extra_info("sockname")[1])

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        at = 0
        if not self._open:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._buffer = data
                return
            at = end + 4
            self._begin(data[:at])
        frames, self._buffer = server_frames(data, at)
        for opcode, payload in frames:
            self._on_frame(opcode, payload)

    def _begin(self, head: bytes) -> None:
        assert self._transport is not None
        if b" 101 " not in head:
            self.closed = (1006, head.partition(b"\r\n")[0].decode(errors="replace"))
            self._transport.abort()
            return
        self._open = True
        if self._opening.init is None:
            self.ready.set_result(None)
        else:
            self._transport.write(client_frame(self._opening.init.encode()))

    def _on_frame(self, opcode: int, payload: bytes) -> None:
        assert self._transport is not None
        if opcode == 0x8:
            self.closed = (int.from_bytes(payload[:2], "big") or 1005, payload[2:].decode(errors="replace"))
            self._transport.write(client_frame(b"", 0x8))
        elif opcode == 0x9:
            self._transport.write(client_frame(payload, 0xA))
        elif len(payload) < LONGEST_PING and PING in payload:
            self._transport.write(PONG)
        elif self.ready.done():
            self.heard.take(payload)
        elif _ACK in payload:
            self._start(self._opening.subscriptions)
        elif any(word in payload for word in _CAUGHT_UP):
            self._waiting_for -= 1
            self._check_ready()

    def _check_ready(self) -> None:
        if self._waiting_for <= 0 and not self.ready.done():
            self.ready.set_result(None)


class Connection(Protocol):
    """A connection that may have been closed, with the code and the reason."""

    closed: tuple[int, str] | None


def count_endings(subscribers: Iterable[Connection]) -> Counter[str]:
    """Return how the closed connections ended."""
    return Counter(str(subscriber.closed) for subscriber in subscribers if subscriber.closed)

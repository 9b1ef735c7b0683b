"""One connection to MongoDB with at most one command in flight, written and read directly at its transport.

PyMongo opens the connection (address, TLS, authentication). After that its own layers are bypassed: they start three
tasks and three timers for each command, which costs four times as much as encoding it and reading the reply (ADR 39).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, cast

import bson
from pymongo.asynchronous.pool import AsyncConnection
from pymongo.errors import AutoReconnect, NetworkTimeout, NotPrimaryError, OperationFailure

_HEADER = struct.Struct("<iiiiIb")
"""Length, request id, id that is responded to, opcode; flags and kind of the first section."""

_LENGTH = struct.Struct("<i")
_OP_MSG = 2013
_NOT_PRIMARY = frozenset({91, 189, 10058, 10107, 11600, 11602, 13435, 13436})
"""Codes of replies by which a server says that it is not the primary, or is about to stop."""

_request_ids = count(1)


class PendingCommand:
    """An encoded command and the future of its reply, which has all rows if the command opens a cursor."""

    __slots__ = ("_on_end", "first_reply", "message", "queued_at", "reply", "request_id")

    def __init__(
        self,
        message: bytes,
        request_id: int,
        loop: asyncio.AbstractEventLoop,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Create a command. on_end: called once, when the command has ended, also if its caller was cancelled."""
        self._on_end = on_end
        self.message = message
        self.request_id = request_id
        self.queued_at = loop.time()
        self.first_reply: dict[str, Any] | None = None
        self.reply: asyncio.Future[dict[str, Any]] = loop.create_future()

    def end(self) -> None:
        """Report the end of the command."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def fail(self, error: Exception) -> None:
        """Raise an error to the caller."""
        self.end()
        if not self.reply.done():
            self.reply.set_exception(error)
            # The caller may have been cancelled: an exception that is never retrieved would be logged.
            self.reply.exception()

    def add_reply(self, reply: dict[str, Any]) -> bool:
        """Take a reply. Returns False if the cursor has more rows: then this is the command that asks for them."""
        cursor = reply.get("cursor")
        if self.first_reply is not None and cursor is not None:
            self.first_reply["cursor"]["firstBatch"] += cursor["nextBatch"]
        if cursor is not None and cursor["id"]:
            self.first_reply = self.first_reply or reply
            database, collection = cursor["ns"].split(".", 1)
            if self.reply.done():
                body = {"killCursors": collection, "cursors": [cursor["id"]]}
            else:
                body = {"getMore": cursor["id"], "collection": collection}
            self.message, self.request_id = encode_command(database, body)
            return False
        self.end()
        if not self.reply.done():
            self.reply.set_result(self.first_reply or reply)
        return True


def encode_command(
    database: str, body: Mapping[str, Any], field: str = "", statements: Sequence[Mapping[str, Any]] = ()
) -> tuple[bytes, int]:
    """Return a command in the wire protocol (OP_MSG), and its request id.

    `statements` become the list `field` of the command. Unlike the body they may exceed 16 MiB in all. Raises
    BSONError, TypeError, ValueError for values that cannot be stored.
    """
    document = bson.encode({**body, "$db": database})
    section = b""
    if statements:
        name, documents = field.encode(), b"".join(map(bson.encode, statements))
        section = b"\1" + _LENGTH.pack(len(name) + len(documents) + 5) + name + b"\0" + documents
    request_id = next(_request_ids) & 0x7FFFFFFF
    length = _HEADER.size + len(document) + len(section)
    return _HEADER.pack(length, request_id, 0, _OP_MSG, 0, 0) + document + section, request_id


class DirectConnection(asyncio.Protocol):
    """One connection. If it is lost, only the caller of the command in flight fails."""

    def __init__(
        self,
        connection: AsyncConnection,
        timeout_seconds: float,
        on_idle: Callable[[DirectConnection], None],
        on_lost: Callable[[DirectConnection, Exception, bool], None],
    ) -> None:
        """Take over an open connection.

        Args:
            connection: Opened and authenticated by PyMongo.
            timeout_seconds: The connection ends if a reply is missing for this time.
            on_idle: Called when a reply has arrived.
            on_lost: Called once, when the connection has ended, or must not be used because of the error. The last
                argument is True if a command was in flight.
        """
        self.connection = connection
        self._timeout_seconds = timeout_seconds
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._pending: PendingCommand | None = None
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False
        # PyMongo has no public way to its transport.
        interface = cast(Any, connection.conn)
        self._transport: asyncio.Transport
        self._transport, self._former_protocol = interface.conn
        # PyMongo's protocol reads into buffers of its own: reading has to start again with this one.
        self._transport.pause_reading()
        self._transport.set_protocol(self)
        self._transport.resume_reading()

    @property
    def is_usable(self) -> bool:
        """True if a command may be sent."""
        return self._pending is None and not self._has_ended and not self._transport.is_closing()

    def send(self, pending: PendingCommand) -> None:
        """Send a command. Requires `is_usable`."""
        self._pending = pending
        self._sent_at = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._sent_at + self._timeout_seconds, self._check_timeout)
        self._transport.write(pending.message)

    def data_received(self, data: bytes) -> None:
        """Collect a reply and hand it to the caller."""
        received = self._received
        received += data
        if len(received) < _LENGTH.size or len(received) < (length := _LENGTH.unpack_from(received)[0]):
            return
        pending = self._pending
        if pending is None or len(received) != length:
            self.end(AutoReconnect("MongoDB sent a reply to no request"))
            return
        _, _, request_id, opcode, _, _ = _HEADER.unpack_from(received)
        if request_id != pending.request_id or opcode != _OP_MSG:
            self.end(AutoReconnect("MongoDB sent a reply to another request"))
            return
        self._received = bytearray()
        try:
            reply: dict[str, Any] = bson.decode(memoryview(received)[_HEADER.size :])
        except Exception as error:
            # Raised here, it would end the connection without an outcome for the caller.
            pending.fail(error)
            self._become_idle()
            return
        if reply.get("ok") == 1:
            if pending.add_reply(reply):
                self._become_idle()
            else:
                # A cursor belongs to the server, behind a load balancer to the connection.
                self.send(pending)
            return
        code, text = reply.get("code"), reply.get("errmsg", "")
        if code in _NOT_PRIMARY:
            self.end(NotPrimaryError(text, reply))
        else:
            pending.fail(OperationFailure(text, code, reply))
            self._become_idle()

    def _become_idle(self) -> None:
        self._pending = None
        self._on_idle(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the caller of the command in flight."""
        self._former_protocol.connection_lost(exc)
        self.end(AutoReconnect("the connection was lost"))

    def _check_timeout(self) -> None:
        # One timer while anything is in flight, instead of one for each command.
        self._timer = None
        if self._pending is None:
            return
        deadline = self._sent_at + self._timeout_seconds
        if self._loop.time() < deadline:
            self._timer = self._loop.call_at(deadline, self._check_timeout)
        else:
            self.end(NetworkTimeout("no reply in time"))

    def end(self, error: Exception) -> None:
        """End the connection and fail the caller of the command in flight."""
        if self._has_ended:
            return
        self._has_ended = True
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.fail(error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport.abort()
        self._on_lost(self, error, pending is not None)

"""uvicorn's HTTP protocol with limits, and two additions: aborting a connection, and sending a response in one write.

Use it as `uvicorn.Config(http=AbortingHTTPProtocol)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from server.http.client_limits import CLIENT_LIMITS_STATE, USER_KEY, ClientLimits
from server.http.request_log import REQUEST_ID_HEADER, REQUEST_ID_KEY, STATUS_KEY
from server.http.slow_reader_watch import SlowReaderWatch, discard_unaccepted_bytes
from subscriptions.realtime.unsent_answers import HeldBytes
from subscriptions.transport.engine import encode, make_error

ABORT_EXTENSION = "confab.abort"
"""Key in the ASGI scope's extensions: a function that drops the connection at once. Not present on other servers."""

DIRECT_RESPONSE_EXTENSION = "confab.answer"
"""Key in the ASGI scope's extensions: a function that sends a whole response without ASGI messages.

Its arguments are the status, the header lines (including content-length) and the body. It returns False, and sends
nothing, if it would have to wait for the client. Not present on other servers.
"""

BODY_TIME_EXTENSION = "confab.body_time"
"""Key in the ASGI scope's extensions: a function that sets the time limit of this request's body, in seconds.

The minimum rate of the client stays the same. Not present on other servers.
"""

SendResponse = Callable[[int, bytes, bytes], bool]

HEAD_BYTES = 65_536
"""Maximum size of a request apart from its body: request line, headers and chunk framing.

Each byte of the body allows eight more, because the body may come in small chunks. The parser itself has no limit.
"""

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
"""Response to a connection for which there is no file descriptor."""

_LATE_BODY = encode({"errors": [make_error("The body did not arrive in time.", "INVALID_INPUT")]})
_LATE_BODY_HEAD = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json; charset=utf-8\r\ncache-control: no-store\r\n"
    b"x-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: %d\r\n" % len(_LATE_BODY)
)

log = structlog.get_logger(__name__)


class AbortingHTTPProtocol(HttpToolsProtocol):
    """Offers the extensions above, and limits what clients may do.

    Without ABORT_EXTENSION a response can only be ended by waiting for its reader. If a connection is lost, the request
    being answered is notified. uvicorn notifies only the newest request, so a stream before a pipelined request would
    continue without a reader.

    Every state of a connection has a time limit (`ClientLimits`): before the first request, head, body, reading the
    answer, idle, and closing. A client that sends a body or reads an answer below the minimum rate is disconnected too.
    """

    default_limits = ClientLimits()
    """Limits if the application sets none."""

    _current_cycle: RequestResponseCycle | None = None
    _in_head = False
    _in_body = False
    _is_upgraded = False
    _began_request = False
    _received = 0
    _body = 0
    _body_began = 0.0
    _body_seconds = 0.0
    _body_at_check = 0
    _receive_timer: asyncio.TimerHandle | None = None
    _first_request_timer: asyncio.TimerHandle | None = None
    _close_timer: asyncio.TimerHandle | None = None
    _reader_watch: SlowReaderWatch | None = None
    _held: HeldBytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first request. Refuses the connection if no descriptor is free for it."""
        super().connection_made(transport)
        self.limits: ClientLimits = self.app_state.get(CLIENT_LIMITS_STATE, self.default_limits)
        socket = transport.get_extra_info("socket")
        # uvicorn counts its open connections, WebSockets too.
        others = len(self.connections) - 1
        if socket is not None and not self.limits.descriptors.admit(self, socket.fileno(), others):
            transport.write(_REFUSED)
            self._close()
            return
        self._first_request_timer = self.loop.call_later(self.limits.head_seconds, self._close_late, "head")

    # Receiving

    def data_received(self, data: bytes) -> None:
        """Parse data, and enforce the limits of the head and of the body."""
        self._began_request = False
        super().data_received(data)
        if self._began_request:
            # The data before the new request belonged to earlier requests.
            self._received = self._body = 0
        else:
            self._received += len(data)
            if self._received - self._body > HEAD_BYTES + 8 * self._body and not self.transport.is_closing():
                self.transport.write(_TOO_LONG)
                self._close()
        if self._in_head or self._in_body:
            self._start_receive_timer()
        elif self.timeout_keep_alive_task is None and self._first_request_timer is None:
            self._limit_idle_time()

    def _start_receive_timer(self) -> None:
        if self._receive_timer is None and not self.transport.is_closing():
            self.limits.descriptors.note_receiving(self)
            if self._in_head:
                self._receive_timer = self.loop.call_later(self.limits.head_seconds, self._drop_late_head)
            else:
                self._body_began, self._body_at_check = self.loop.time(), self._body
                self._start_body_window()

    def _limit_idle_time(self) -> None:
        """Start uvicorn's idle timer again, if data arrived that belongs to no request."""
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and not self._is_upgraded and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _start_body_window(self) -> None:
        left = self._body_began + self._body_seconds - self.loop.time()
        self._receive_timer = self.loop.call_later(max(0.0, min(self.limits.window_seconds, left)), self._check_body)

    def _check_body(self) -> None:
        self._receive_timer = None
        arrived, self._body_at_check = self._body - self._body_at_check, self._body
        if self.flow.read_paused:
            # This server does not read at the moment, so the client is not late.
            self._body_began = self.loop.time()
        elif self.loop.time() - self._body_began >= self._body_seconds or arrived < self.limits.min_bytes_per_window:
            self._refuse_late_body()
            return
        self._start_body_window()

    def _drop_late_head(self) -> None:
        self.limits.dropped["head"] += 1
        self.drop()

    def _refuse_late_body(self) -> None:
        """Answer 408 if nothing has been answered, and close the connection."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle is self._current_cycle and not cycle.response_started and not cycle.disconnected:
                request_id = cycle.scope.get(REQUEST_ID_KEY, "")
                id_line = f"{REQUEST_ID_HEADER}: {request_id}\r\n\r\n".encode("latin-1")
                self.transport.write(b"".join((_LATE_BODY_HEAD, id_line, _LATE_BODY)))
                cast(dict[str, Any], cycle.scope)[STATUS_KEY] = 408
            cycle.disconnected = True
            cycle.message_event.set()
        self._close_late("body")

    def on_message_begin(self) -> None:
        """Offer the extensions to a new request."""
        super().on_message_begin()
        self._in_head = self._began_request = True
        # ASGI types extensions as a dict of dicts. These extensions are functions.
        scope = cast(dict[str, Any], self.scope)
        scope["extensions"] = {ABORT_EXTENSION: self.drop, BODY_TIME_EXTENSION: self._limit_body_time}
        self._body_seconds = self.limits.body_seconds

    def _limit_body_time(self, seconds: float) -> None:
        """Set the time limit of the body that is being received."""
        self._body_seconds = seconds
        if self._in_body and self._receive_timer is not None:
            self._receive_timer.cancel()
            self._start_body_window()

    def on_headers_complete(self) -> None:
        """End the time limit of the head."""
        self._end_head()
        super().on_headers_complete()

    def _end_head(self) -> None:
        self._in_head, self._in_body = False, True
        if self._first_request_timer is not None:
            self._first_request_timer.cancel()
            self._first_request_timer = None
        self._cancel_receive_timer()

    def on_body(self, body: bytes) -> None:
        """Count the bytes of the body."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the time limit of the body."""
        self._in_body = False
        self._cancel_receive_timer()
        if self.cycle is not None and self.cycle.response_complete:
            self.limits.descriptors.note_idle(self)
        else:
            self.limits.descriptors.note_busy(self)
        super().on_message_complete()

    def _cancel_receive_timer(self) -> None:
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol, which has its own limits."""
        self._is_upgraded = True
        self._in_head = self._in_body = False
        self._cancel_receive_timer()
        self.limits.descriptors.note_busy(self)
        super().handle_websocket_upgrade()

    # Answering

    def pause_writing(self) -> None:
        """Watch how fast the client reads."""
        super().pause_writing()
        if self._reader_watch is None:
            self._reader_watch = SlowReaderWatch(self.transport, self.limits, self._count_and_drop_slow_reader)
        self._reader_watch.begin()
        if self._held is None:
            cycle = self._current_cycle
            user = cast(dict[str, Any], cycle.scope).get(USER_KEY) if cycle is not None else None
            self._held = self.limits.unsent.hold(user, self.transport.get_write_buffer_size(), self._drop_slow_reader)

    def resume_writing(self) -> None:
        """Note that the client has accepted all bytes."""
        if self._reader_watch is not None:
            self._reader_watch.end()
        self._release_answer()
        super().resume_writing()

    def _release_answer(self) -> None:
        held, self._held = self._held, None
        self.limits.unsent.release(held)

    def _count_and_drop_slow_reader(self) -> None:
        self.limits.dropped["answer"] += 1
        self._drop_slow_reader()

    def _drop_slow_reader(self) -> None:
        log.info("slow_reader_dropped", bytes=self.transport.get_write_buffer_size())
        discard_unaccepted_bytes(self.transport)

    def on_response_complete(self) -> None:
        """Note that the connection is idle, or limit the time in which it closes."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._limit_closing_time()
        elif not self.pipeline:
            self.limits.descriptors.note_idle(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current_cycle = cycle
        cycle.scope["extensions"][DIRECT_RESPONSE_EXTENSION] = partial(self._send_response, cycle)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def _send_response(self, cycle: RequestResponseCycle, status: int, headers: bytes, body: bytes) -> bool:
        """Do the work of the cycle's two ASGI messages with one write to the socket instead of two."""
        if self.flow.write_paused or cycle.response_started:
            return False
        cycle.response_started = cycle.response_complete = True
        if cycle.disconnected:
            return True
        parts = [STATUS_LINE[status]]
        for name, value in cycle.default_headers:
            parts += (name, b": ", value, b"\r\n")
        parts += (headers, b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", body)
        self.transport.write(b"".join(parts))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    # Closing

    def timeout_keep_alive_handler(self) -> None:
        """Close the idle connection."""
        if not self.transport.is_closing():
            self._close()

    def _close_late(self, what: str) -> None:
        self.limits.dropped[what] += 1
        self._close()

    def _close(self) -> None:
        """Close the connection after the client has accepted the last bytes, within a time limit."""
        self.transport.close()
        self._limit_closing_time()

    def _limit_closing_time(self) -> None:
        if self._close_timer is None:
            self._close_timer = self.loop.call_later(self.limits.close_seconds, self._end_closing)

    def _end_closing(self) -> None:
        self._close_timer = None
        if self.flow.write_paused:
            # The SlowReaderWatch limits the time of a long answer.
            self._limit_closing_time()
        else:
            discard_unaccepted_bytes(self.transport)

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request."""
        super().send_400_response(msg)
        self._limit_closing_time()

    def eof_received(self) -> None:
        """Limit the time in which the connection closes: the client sends nothing more."""
        self._limit_closing_time()

    def drop(self) -> None:
        """Drop the connection at once."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request being answered."""
        # Timers would keep this object in memory.
        for timer in (self._receive_timer, self._first_request_timer, self._close_timer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        if self._reader_watch is not None:
            self._reader_watch.end()
        self._release_answer()
        self.limits.descriptors.note_busy(self)
        super().connection_lost(exc)
        if self._current_cycle is not None and not self._current_cycle.response_complete:
            self._current_cycle.disconnected = True
            self._current_cycle.message_event.set()

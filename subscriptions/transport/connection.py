"""One WebSocket that speaks graphql-transport-ws: a state machine with a method for each kind of frame.

    opened --connection_init--> authenticating --connection_ack--> acknowledged

A frame that is not allowed raises `CloseRequired`, which ends the connection with a code from `close_codes`. Timers, a
stalled write and the server's shutdown end it with `close`, from any task. The first of them decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, assert_never

import structlog
from starlette.websockets import WebSocket

from store.base.errors import StoreError
from subscriptions.presence.connected_devices import DeviceConnection
from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.transport import close_codes, frames
from subscriptions.transport.client_operation import (
    ClientOperation,
    check_not_ending,
    check_operation,
    internal_error,
)
from subscriptions.transport.close_codes import Close, CloseRequired
from subscriptions.transport.engine import ConnectionContext, Json, OperationHandle, RequestRefused
from subscriptions.transport.frame_writer import FrameWriter, PeerGone, socket_of
from subscriptions.transport.host import Authenticated, ConnectionRefusedByAuth, Host
from subscriptions.transport.keep_alive import KeepAlive
from subscriptions.transport.timer_wheel import WheelTimer

log = structlog.get_logger(__name__)

_EXPIRY_RECHECK_SECONDS = 3600.0
"""A distant expiry is compared with the clock again after this time, because clocks can be adjusted."""

_ABNORMAL_CLOSURE = 1006
"""The code of RFC 6455 for a connection that ended without a close frame."""


class Connection:
    """A connected client. `run` lasts as long as the socket.

    The other public methods may be called from any task of the same event loop. They do nothing after the end.
    """

    def __init__(self, websocket: WebSocket, host: Host) -> None:
        self.id = host.new_id()
        self._websocket = websocket
        self._host = host
        self._limits = host.limits
        self._loop = asyncio.get_running_loop()
        self._queue_budget = QueueBudget(host.limits.max_queued_events)
        self._writer = FrameWriter(
            websocket,
            self._queue_budget,
            host.limits,
            self._on_stall,
            host.joined_writes,
            host.unsent,
        )
        self._is_running = False
        self._shutdown_close: Close | None = None
        self._close_frame: Close | None = None
        self._peer_close_code = _ABNORMAL_CLOSURE
        self._user: str | None = None
        self._acted_by: str | None = None
        self._device: DeviceConnection | None = None
        self._started_at = self._loop.time()
        self._interrupt = asyncio.timeout(None)
        self._deadline: WheelTimer | None = None
        """The time limit of the acknowledgement, and then of the token."""
        self._expires_at: float | None = None
        self._keep_alive = KeepAlive(
            host.timers,
            self._writer,
            host.limits.ping_interval_seconds,
            host.limits.pong_timeout_seconds,
            self._on_silence,
        )
        self._last_renewal_number = self._applied_renewal_number = 0
        self._authentication: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._all_read = asyncio.Event()
        """Set when no frame of the peer waits to be handled. Used only before the acknowledgement."""
        self._context: ConnectionContext | None = None
        self._operations: dict[str, ClientOperation] = {}
        self._abandoned: set[ClientOperation] = set()

    @property
    def caller(self) -> object | None:
        """The caller of operations that start from now on; None without a token, and before the authentication."""
        return self._context.caller if self._context is not None else None

    @property
    def device(self) -> DeviceConnection | None:
        """The connection as one of its user's device; None without a token, and before the acknowledgement."""
        return self._device

    async def run(self, refusal: Close | None = None) -> Close | None:
        """Serve the socket until it ends, and return how this server closed it. Only its mutations may run longer.

        With a `refusal`, the socket is closed directly after it is accepted: a socket has no close code before.
        """
        try:
            async with self._interrupt:
                self._is_running = True
                await self._serve(refusal)
        except CloseRequired as required:
            self._close_frame = self._close_frame or required.close
        except (TimeoutError, PeerGone):
            pass
        except asyncio.CancelledError:
            # The server has stopped waiting.
            self._close_frame = self._close_frame or self._shutdown_close or close_codes.SERVICE_RESTART
            raise
        except Exception:
            log.exception("websocket_failed", connection_id=self.id)
            self._close_frame = self._close_frame or close_codes.INTERNAL_ERROR
        finally:
            self._is_running = False
            self._log_end()
            await self._clean_up()
        return self._close_frame

    def close(self, close: Close) -> None:
        """End the connection at the next turn of the event loop. Only the first call has an effect."""
        if self._is_running and self._close_frame is None:
            self._close_frame = close
            self._interrupt.reschedule(self._loop.time())

    async def authenticate_token(self, token: str) -> object:
        """Return the caller of a token. Changes nothing. Raises the authenticator's exceptions."""
        return await self._host.authenticate_token(token)

    def next_renewal_number(self) -> int:
        """Return a number greater than those of all earlier renewals."""
        self._last_renewal_number += 1
        return self._last_renewal_number

    def renew(self, expires_at: float | None, caller: object | None, number: int | None = None) -> bool:
        """Give the connection a new token. Running operations continue.

        Args:
            expires_at: Time at which the connection ends, in seconds since the Unix epoch; None: never.
            caller: The caller of operations that start from now on.
            number: From `next_renewal_number`. A renewal has no effect after one with a greater number.

        Returns:
            False if nothing was changed because `expires_at` has passed or the connection has ended.
        """
        if not self._is_running or self._close_frame is not None or self._context is None:
            return False
        if expires_at is not None and expires_at <= self._host.clock():
            return False
        if number is not None:
            if number < self._applied_renewal_number:
                return True
            self._applied_renewal_number = number
        self._context = replace(self._context, caller=caller)
        self._close_at(expires_at)
        return True

    async def close_gracefully(self, close: Close) -> None:
        """Start no new operations, wait up to `drain_grace_seconds` for running mutations, and end the connection."""
        self._shutdown_close = close
        mutations = [op.task for op in self._operations.values() if op.is_mutation and op.task is not None]
        if mutations:
            await asyncio.wait(mutations, timeout=self._limits.drain_grace_seconds)
        self.close(close)

    def _end_gracefully(self, close: Close) -> None:
        self._ending = self._ending or asyncio.create_task(self.close_gracefully(close))

    # Frames

    async def _serve(self, refusal: Close | None) -> None:
        if frames.SUBPROTOCOL not in self._websocket.scope.get("subprotocols", []):
            await self._writer.accept(None)
            raise CloseRequired(close_codes.SUBPROTOCOL_NOT_ACCEPTABLE)
        await self._writer.accept(frames.SUBPROTOCOL)
        if refusal is not None:
            raise CloseRequired(refusal)
        self._deadline = self._host.timers.call_after(self._limits.init_timeout_seconds, self._on_init_timeout)
        socket = socket_of(self._websocket)
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._peer_close_code = message.get("code", _ABNORMAL_CLOSURE)
                return
            try:
                await self._on_frame(frames.parse_frame(self._text_of(message)))
            except frames.InvalidFrame as invalid:
                raise CloseRequired(close_codes.INVALID_MESSAGE.because(invalid.reason)) from None
            # Let other tasks run: the server returns all buffered messages without a pause.
            await asyncio.sleep(0)
            if self._context is None and not socket.has_unread_messages:
                self._all_read.set()

    def _text_of(self, message: Mapping[str, Any]) -> str:
        text = message.get("text")
        if not isinstance(text, str):
            raise frames.InvalidFrame("Message is expected to be text")
        return text

    async def _on_frame(self, frame: frames.ClientFrame) -> None:
        match frame:
            case frames.ConnectionInit():
                self._on_connection_init(frame)
            case frames.Ping():
                await self._on_ping(frame)
            case frames.Pong():
                pass
            case frames.Subscribe():
                await self._on_subscribe(frame)
            case frames.Complete():
                self._on_complete(frame)
            case _:
                assert_never(frame)

    def _on_connection_init(self, frame: frames.ConnectionInit) -> None:
        if self._authentication is not None:
            raise CloseRequired(close_codes.TOO_MANY_INITS)
        # A separate task, so that frames before the acknowledgement are read and recognised as such.
        self._authentication = asyncio.create_task(self._authenticate(frame.payload))

    async def _on_ping(self, frame: frames.Ping) -> None:
        await self._writer.write(frames.pong_frame(frame.payload))

    async def _on_subscribe(self, frame: frames.Subscribe) -> None:
        context = self._context
        if context is None:
            raise CloseRequired(close_codes.UNAUTHORIZED)
        if frame.id in self._operations:
            raise CloseRequired(close_codes.SUBSCRIBER_EXISTS.because(f"Subscriber for {frame.id} already exists"))
        try:
            prepared = await self._prepare(frame, context.caller)
        except RequestRefused as refused:
            await self._writer.write(frames.error_frame(frame.id, refused.errors))
            return
        operation = ClientOperation(
            frame.id, prepared, frame.request, context, self._host, self._writer, self._remove_operation
        )
        self._operations[frame.id] = operation
        if operation.is_mutation and self._device is not None:
            self._device.note_use(prepared.root)
        if operation.is_mutation and operation.task is not None:
            self._host.mutations.add(operation.task)
            operation.task.add_done_callback(self._host.mutations.discard)

    def _on_complete(self, frame: frames.Complete) -> None:
        operation = self._operations.pop(frame.id, None)
        if operation is not None:
            self._abandon(operation)

    # Authentication

    async def _authenticate(self, payload: Json | None) -> None:
        outcome: Authenticated | Close
        try:
            outcome = await self._host.authenticate(payload)
        except ConnectionRefusedByAuth as refused:
            outcome = refused.close
        except StoreError as failure:
            log.warning("store_failed", connection_id=self.id, reason=str(failure))
            outcome = close_codes.TRY_AGAIN_LATER
        except Exception:
            log.exception("websocket_authentication_failed", connection_id=self.id)
            outcome = close_codes.TRY_AGAIN_LATER
        # The peer sent all frames that have arrived at this point before the answer, so they are handled before it.
        # After two turns the event loop has read the sockets once.
        for _ in range(2):
            await asyncio.sleep(0)
        socket = socket_of(self._websocket)
        if socket.has_unread_messages:
            self._all_read.clear()
            await self._all_read.wait()
        if isinstance(outcome, Close):
            self.close(outcome)
        else:
            await self._open(outcome)

    async def _open(self, authenticated: Authenticated) -> None:
        """Acknowledge the connection of an authenticated client."""
        socket = socket_of(self._websocket)
        self._user, self._acted_by = authenticated.user, authenticated.acted_by
        self._writer.user = authenticated.user
        self._close_at(authenticated.expires_at)
        if self._close_frame is None and authenticated.user is not None:
            refusal = self._host.connection_limits.assign(self, authenticated.user)
            if refusal is not None:
                self.close(refusal)
        if self._close_frame is not None:
            return
        socket.set_max_message_bytes(self._limits.max_message_bytes)
        socket.discard_messages(frames.PONG)
        self._context = ConnectionContext(
            authenticated.caller, self.id, connection=self, queue_budget=self._queue_budget
        )
        if authenticated.connect_device is not None:
            self._device = authenticated.connect_device(self._end_gracefully)
        self._keep_alive.start()
        with suppress(PeerGone):
            await self._writer.write(frames.ACK_FRAME)

    def _close_at(self, expires_at: float | None) -> None:
        self._cancel_deadline()
        self._expires_at = expires_at
        if expires_at is None:
            return
        remaining = expires_at - self._host.clock()
        if remaining <= 0:
            self.close(close_codes.TOKEN_EXPIRED)
        else:
            wait = min(remaining, _EXPIRY_RECHECK_SECONDS)
            self._deadline = self._host.timers.call_after(wait, self._check_expiry)

    def _check_expiry(self) -> None:
        self._close_at(self._expires_at)

    # Operations

    async def _prepare(self, frame: frames.Subscribe, caller: object | None) -> OperationHandle:
        """Check the connection's limits, and prepare the operation. Raises RequestRefused and no other exception."""
        running = len(self._operations) + len(self._abandoned)
        check_operation(frame.id, running, self._limits.max_subscriptions)
        try:
            prepared = await self._host.engine.prepare(frame.request, caller)
        except RequestRefused:
            raise
        except Exception:
            raise RequestRefused([internal_error(self._host, self.id)]) from None
        check_not_ending(self._shutdown_close)
        return prepared

    def _abandon(self, operation: ClientOperation) -> None:
        self._abandoned.add(operation)
        operation.abandon()

    def _remove_operation(self, operation: ClientOperation) -> None:
        self._abandoned.discard(operation)
        if self._operations.get(operation.id) is operation:
            del self._operations[operation.id]

    # Timers and the end

    def _on_stall(self) -> None:
        self.close(close_codes.TOO_SLOW)

    def _on_silence(self) -> None:
        self.close(close_codes.KEEP_ALIVE_TIMEOUT)

    def _on_init_timeout(self) -> None:
        self.close(close_codes.INIT_TIMEOUT)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._host.timers.cancel(self._deadline)
            self._deadline = None

    def _log_end(self) -> None:
        """Write the connection's log entry: its duration, which side ended it, and the reason."""
        close = self._close_frame
        log.info(
            "websocket",
            connection_id=self.id,
            user=self._user,
            **({"acted_by": self._acted_by} if self._acted_by is not None else {}),
            ended_by="client" if close is None else "server",
            code=self._peer_close_code if close is None else close.code,
            reason=None if close is None else close.reason,
            duration_ms=round((self._loop.time() - self._started_at) * 1000),
        )

    async def _clean_up(self) -> None:
        if self._device is not None:
            is_silent = self._close_frame is close_codes.KEEP_ALIVE_TIMEOUT
            self._device.end(self._keep_alive.longest_silence_ms if is_silent else 0)
        self._cancel_deadline()
        self._keep_alive.stop()
        tasks: set[asyncio.Task[None]] = set()
        if self._authentication is not None:
            self._authentication.cancel()
            tasks.add(self._authentication)
        operations, self._operations = self._operations, {}
        for operation in operations.values():
            self._abandon(operation)
        tasks |= {op.task for op in self._abandoned if not op.is_mutation and op.task is not None}
        await self._writer.close(self._close_frame, timeout_seconds=self._limits.close_timeout_seconds)
        if self._close_frame is close_codes.KEEP_ALIVE_TIMEOUT:
            # A dead peer does not answer the close frame either. Other peers get more time to do so.
            self._loop.call_later(self._limits.close_timeout_seconds, self._writer.abort)
        if tasks:
            await asyncio.wait(tasks)

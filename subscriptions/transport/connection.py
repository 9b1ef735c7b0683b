"""One WebSocket that speaks graphql-transport-ws: a state machine, a method per kind of frame.

    opened --connection_init--> authenticating --connection_ack--> acknowledged

A frame out of place raises `Closing`, which ends the connection with a code from `subscriptions.close_codes`.
Timers, a stalled write and the server's shutdown end it by `close`, from any task. Whichever comes first decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, assert_never

import structlog
from starlette.websockets import WebSocket

from store.base.errors import StoreError
from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.transport import close_codes, frames
from subscriptions.transport.client_operation import ClientOperation, internal_error
from subscriptions.transport.close_codes import Close
from subscriptions.transport.engine import ConnectionContext, Json, Prepared, RequestRefused, error
from subscriptions.transport.frame_writer import FrameWriter, PeerGone, socket_of
from subscriptions.transport.host import ConnectionRefusedByAuth, Host
from subscriptions.transport.keep_alive import KeepAlive

log = structlog.get_logger(__name__)

_A_MOMENT_MS = 1_000
"""When to try again what only the client's own doing makes possible."""

_MAX_ID_LENGTH = 1024
"""Characters of an operation's id, which is sent again with each of its events."""

_EXPIRY_RECHECK = 3600.0
"""Seconds after which a far expiry is compared with the clock again: clocks are set now and then."""

_LOST = 1006
"""What RFC 6455 has for a connection that ended without a close frame."""


class Closing(Exception):
    """The peer broke the protocol: end the connection like this."""

    def __init__(self, close: Close) -> None:
        super().__init__(close)
        self.close = close


class Connection:
    """A connected client. `run` lasts as long as the socket. The other public methods may be called from any task
    of the same loop, and do nothing once the connection has ended."""

    def __init__(self, websocket: WebSocket, host: Host) -> None:
        self.id = host.new_id()
        self._websocket = websocket
        self._host = host
        self._limits = host.limits
        self._loop = asyncio.get_running_loop()
        self._room = QueueBudget(host.limits.queue)
        self._writer = FrameWriter(
            websocket, self._room, host.limits.send_timeout, host.limits.behind_timeout, self._on_stall
        )
        self._running = False
        self._farewell: Close | None = None
        self._closing: Close | None = None
        self._left_with = _LOST
        self._user: str | None = None
        self._began = self._loop.time()
        self._interrupt = asyncio.timeout(None)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._keep_alive = KeepAlive(
            self._writer,
            host.limits.ping_interval,
            host.limits.pong_timeout,
            lambda: self.close(close_codes.KEEP_ALIVE_TIMEOUT),
        )
        self._renewals = self._renewed = 0
        self._authentication: asyncio.Task[None] | None = None
        self._context: ConnectionContext | None = None
        self._operations: dict[str, ClientOperation] = {}
        self._abandoned: set[ClientOperation] = set()

    # --- what others may ask for

    @property
    def caller(self) -> object | None:
        """Who starts operations; None: nobody, or not known yet."""
        return self._context.caller if self._context is not None else None

    async def run(self, refusal: Close | None = None) -> None:
        """Accept the socket, converse, and leave nothing behind but mutations, which go on to their end.

        With a `refusal` the socket is closed like this as soon as it is accepted: before, there are no close codes.
        """
        try:
            async with self._interrupt:
                self._running = True
                await self._converse(refusal)
        except Closing as closing:
            self._closing = self._closing or closing.close
        except (TimeoutError, PeerGone):
            pass
        except asyncio.CancelledError:
            # The server waits no longer.
            self._closing = self._closing or self._farewell or close_codes.SERVICE_RESTART
            raise
        except Exception:
            log.exception("websocket_defect", connection_id=self.id)
            self._closing = self._closing or close_codes.INTERNAL_ERROR
        finally:
            self._running = False
            self._log_end()
            await self._leave()

    def close(self, close: Close) -> None:
        """End the connection like this, at the next turn of the loop. The first call decides."""
        if self._running and self._closing is None:
            self._closing = close
            self._interrupt.reschedule(self._loop.time())

    async def judge(self, token: str) -> object:
        """Whom a token speaks for. Changes nothing; raises whatever the authenticator does."""
        return await self._host.judge(token)

    def asked_to_renew(self) -> int:
        """A number past that of every renewal asked for before."""
        self._renewals += 1
        return self._renewals

    def renew(self, expires_at: float | None, caller: object | None, asked: int | None = None) -> bool:
        """A new token: `caller` is who starts operations from now on, `expires_at` when the connection ends
        (seconds since the epoch; None: never). Operations at work go on.

        False, and nothing is changed, where that time has passed or the connection has ended. `asked`: nothing is changed where one was
        renewed with that was asked for later."""
        if not self._running or self._closing is not None or self._context is None:
            return False
        if expires_at is not None and expires_at <= self._host.clock():
            return False
        if asked is not None:
            if asked < self._renewed:
                return True
            self._renewed = asked
        self._context = replace(self._context, caller=caller)
        self._end_at(expires_at)
        return True

    async def see_off(self, farewell: Close) -> None:
        """Take no new operations, give those mutations that are at work `drain_grace` seconds, and end like this."""
        self._farewell = farewell
        mutations = [op.task for op in self._operations.values() if op.is_mutation and op.task is not None]
        if mutations:
            await asyncio.wait(mutations, timeout=self._limits.drain_grace)
        self.close(farewell)

    # --- the conversation

    async def _converse(self, refusal: Close | None) -> None:
        if frames.SUBPROTOCOL not in self._websocket.scope.get("subprotocols", []):
            await self._writer.accept(None)
            raise Closing(close_codes.SUBPROTOCOL_NOT_ACCEPTABLE)
        await self._writer.accept(frames.SUBPROTOCOL)
        if refusal is not None:
            raise Closing(refusal)
        self._after(self._limits.init_timeout, "init", lambda: self.close(close_codes.INIT_TIMEOUT))
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._left_with = message.get("code", _LOST)
                return
            self._keep_alive.heard()
            try:
                await self._on_frame(frames.parse_frame(self._text_of(message)))
            except frames.InvalidFrame as invalid:
                raise Closing(close_codes.INVALID_MESSAGE.because(invalid.reason)) from None
            # The server hands over all that it has buffered without a pause: give others their turn.
            await asyncio.sleep(0)

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
            raise Closing(close_codes.TOO_MANY_INITS)
        # Beside the reading, so that what comes before the acknowledgement is known as such.
        self._authentication = asyncio.create_task(self._authenticate(frame.payload))

    async def _on_ping(self, frame: frames.Ping) -> None:
        await self._writer.write(frames.pong_frame(frame.payload))

    async def _on_subscribe(self, frame: frames.Subscribe) -> None:
        context = self._context
        if context is None:
            raise Closing(close_codes.UNAUTHORIZED)
        if frame.id in self._operations:
            raise Closing(close_codes.SUBSCRIBER_EXISTS.because(f"Subscriber for {frame.id} already exists"))
        try:
            prepared = self._admit(frame)
        except RequestRefused as refused:
            await self._writer.write(frames.error_frame(frame.id, refused.errors))
            return
        operation = ClientOperation(frame.id, prepared, frame.request, context, self._host, self._writer, self._forget)
        self._operations[frame.id] = operation
        if operation.is_mutation and operation.task is not None:
            self._host.mutations.add(operation.task)
            operation.task.add_done_callback(self._host.mutations.discard)

    def _on_complete(self, frame: frames.Complete) -> None:
        operation = self._operations.pop(frame.id, None)
        if operation is not None:
            self._abandon(operation)

    # --- authentication and its end

    async def _authenticate(self, payload: Json | None) -> None:
        try:
            authenticated = await self._host.authenticate(payload)
        except ConnectionRefusedByAuth as refused:
            self.close(refused.close)
            return
        except StoreError as away:
            log.warning("store_failed", connection_id=self.id, reason=str(away))
            self.close(close_codes.TRY_AGAIN_LATER)
            return
        except Exception:
            log.exception("websocket_authentication_failed", connection_id=self.id)
            self.close(close_codes.TRY_AGAIN_LATER)
            return
        self._user = authenticated.user
        self._cancel_timer("init")
        self._end_at(authenticated.expires_at)
        if self._closing is None and authenticated.user is not None:
            excess = self._host.census.assign(self, authenticated.user)
            if excess is not None:
                self.close(excess)
        if self._closing is not None:
            return
        socket_of(self._websocket).limit_messages(self._limits.max_message_bytes)
        self._context = ConnectionContext(authenticated.caller, self.id, connection=self, queue_budget=self._room)
        self._keep_alive.start()
        await self._acknowledge()

    async def _acknowledge(self) -> None:
        try:
            await self._writer.write(frames.ACK_FRAME)
        except PeerGone:
            return

    def _end_at(self, expires_at: float | None) -> None:
        self._cancel_timer("expiry")
        if expires_at is None:
            return
        remaining = expires_at - self._host.clock()
        if remaining <= 0:
            self.close(close_codes.TOKEN_EXPIRED)
        else:
            self._after(min(remaining, _EXPIRY_RECHECK), "expiry", lambda: self._end_at(expires_at))

    # --- operations

    def _admit(self, frame: frames.Subscribe) -> Prepared:
        """The operation made ready. Raises RequestRefused, whatever the reason."""
        if self._farewell is not None:
            raise RequestRefused([error("The server restarts.", "UNAVAILABLE", retryable=True)])
        if len(self._operations) + len(self._abandoned) >= self._limits.max_subscriptions:
            message = f"A connection may have {self._limits.max_subscriptions} operations at work."
            raise RequestRefused([error(message, "RATE_LIMITED", retryable=True, retryAfterMs=_A_MOMENT_MS)])
        if len(frame.id) > _MAX_ID_LENGTH:
            message = f"An operation's id has at most {_MAX_ID_LENGTH} characters."
            raise RequestRefused([error(message, "INVALID_INPUT")])
        try:
            return self._host.engine.prepare(frame.request)
        except RequestRefused:
            raise
        except Exception:
            raise RequestRefused([internal_error(self._host, self.id)]) from None

    def _abandon(self, operation: ClientOperation) -> None:
        self._abandoned.add(operation)
        operation.abandon()

    def _forget(self, operation: ClientOperation) -> None:
        self._abandoned.discard(operation)
        if self._operations.get(operation.id) is operation:
            del self._operations[operation.id]

    # --- timers, the end

    def _on_stall(self) -> None:
        self.close(close_codes.TOO_SLOW)

    def _after(self, seconds: float, name: str, call: Callable[[], None]) -> None:
        self._timers[name] = self._loop.call_later(seconds, call)

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _log_end(self) -> None:
        """The one line a connection leaves in the log, as a request does: who ended it, and why."""
        closing = self._closing
        log.info(
            "websocket",
            connection_id=self.id,
            user=self._user,
            ended_by="client" if closing is None else "server",
            code=self._left_with if closing is None else closing.code,
            reason=None if closing is None else closing.reason,
            duration_ms=round((self._loop.time() - self._began) * 1000),
        )

    async def _leave(self) -> None:
        for name in list(self._timers):
            self._cancel_timer(name)
        self._keep_alive.stop()
        tasks: set[asyncio.Task[None]] = set()
        if self._authentication is not None:
            self._authentication.cancel()
            tasks.add(self._authentication)
        operations, self._operations = self._operations, {}
        for operation in operations.values():
            self._abandon(operation)
        tasks |= {op.task for op in self._abandoned if not op.is_mutation and op.task is not None}
        await self._writer.close(self._closing, within=self._limits.close_timeout)
        if self._closing is close_codes.KEEP_ALIVE_TIMEOUT:
            # It won't answer the close frame either, which others are given time for.
            self._loop.call_later(self._limits.close_timeout, self._writer.drop)
        if tasks:
            await asyncio.wait(tasks)

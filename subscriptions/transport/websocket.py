"""GraphQL over WebSocket: `WebSocketTransport` serves all sockets of a process.

The protocol is graphql-transport-ws, as in npm `graphql-ws`. `connection.py` handles one socket; `close_codes.py` lists
the close codes.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from subscriptions.realtime.unsent_answers import UnsentAnswers
from subscriptions.transport.close_codes import SERVICE_RESTART, Close
from subscriptions.transport.connection import Connection
from subscriptions.transport.connection_limits import ConnectionLimits
from subscriptions.transport.engine import GraphQLEngine
from subscriptions.transport.frames import SUBPROTOCOL
from subscriptions.transport.host import (
    Authenticate,
    Authenticated,
    AuthenticateToken,
    ConnectionRefusedByAuth,
    Host,
    TransportLimits,
    refuse_all_tokens,
)
from subscriptions.transport.timer_wheel import RESOLUTION_SECONDS, TimerWheel

_BUCKETS_PER_PING = 50
"""Buckets of the timer wheel in one interval of pings, at least."""

_MIN_RETRY_SPREAD_MS = 1000
"""Shortest time over which the clients of a stopped server are asked to reconnect, however few they are."""

__all__ = [
    "SUBPROTOCOL",
    "Authenticate",
    "Authenticated",
    "Connection",
    "ConnectionRefusedByAuth",
    "TransportLimits",
    "WebSocketTransport",
]


def _new_id() -> str:
    return uuid.uuid4().hex


class WebSocketTransport:
    """All GraphQL WebSockets of a process."""

    def __init__(
        self,
        engine: GraphQLEngine,
        authenticate: Authenticate,
        limits: TransportLimits,
        *,
        authenticate_token: AuthenticateToken = refuse_all_tokens,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = _new_id,
        rng: random.Random | None = None,
        unsent: UnsentAnswers | None = None,
    ) -> None:
        """Create the transport.

        Args:
            engine: Executes the operations.
            authenticate: Authenticates the payload of connection_init.
            limits: Limits of connections.
            authenticate_token: Authenticates the new token of a connection.
            clock: Returns seconds since the Unix epoch.
            new_id: Returns ids for connections and failures in the log.
            rng: Spreads the closing of connections at shutdown.
            unsent: Bounds the bytes that wait for peers.
        """
        self._limits = limits
        self._mutations: set[asyncio.Task[None]] = set()
        self._connection_limits = ConnectionLimits(limits.max_connections, limits.max_connections_per_user)
        self._host = Host(
            engine,
            authenticate,
            limits,
            clock,
            new_id,
            self._connection_limits,
            self._mutations,
            authenticate_token,
            TimerWheel(min(RESOLUTION_SECONDS, limits.ping_interval_seconds / _BUCKETS_PER_PING)),
            unsent=unsent or UnsentAnswers(),
        )
        self._rng = rng if rng is not None else random.Random()
        self._connections: dict[Connection, asyncio.Future[None]] = {}
        self._is_draining = False
        self._drained_count = 0
        self.closes: Counter[int] = Counter()
        """Sockets that this server closed, by close code."""

    @property
    def connection_count(self) -> int:
        """Sockets that are being served."""
        return len(self._connections)

    async def serve(self, websocket: WebSocket) -> None:
        """Serve a socket that is not accepted yet, until it ends. Only its mutations may run longer."""
        connection = Connection(websocket, self._host)
        ended = self._connections[connection] = asyncio.get_running_loop().create_future()
        try:
            refusal = self._restart_close() if self._is_draining else self._connection_limits.admit(connection)
            close = await connection.run(refusal)
            if close is not None:
                self.closes[close.code] += 1
        finally:
            self._connection_limits.remove(connection)
            del self._connections[connection]
            ended.set_result(None)

    def asgi(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Serve a socket as an ASGI application."""
        return self.serve(WebSocket(scope, receive, send))

    def close_where(self, is_invalid: Callable[[object], bool], close: Close) -> None:
        """Close the connections of all callers for which `is_invalid` returns True."""
        for connection in self._connections:
            caller = connection.caller
            if caller is not None and is_invalid(caller):
                connection.close(close)

    async def drain(self) -> None:
        """Close all connections with 1012 in batches, so that clients do not all reconnect at once.

        The close reason tells each client how long to wait. New sockets are closed at once. Call it once.

        Returns after at most `drain_seconds` and `drain_grace_seconds`, when the connections whose peers read are
        closed.
        """
        limits = self._limits
        connections = list(self._connections.items())
        self._is_draining = True
        self._drained_count = len(connections)
        self._rng.shuffle(connections)
        batches = max(1, int(limits.drain_seconds / limits.drain_pause_seconds))
        size = max(limits.drain_batch, math.ceil(len(connections) / batches))
        closings: list[asyncio.Task[None]] = []
        for start in range(0, len(connections), size):
            if start:
                await asyncio.sleep(limits.drain_pause_seconds * self._rng.uniform(0.5, 1.5))
            closings += [
                asyncio.create_task(self._close_gracefully(connection, ended))
                for connection, ended in connections[start : start + size]
            ]
        if closings:
            await asyncio.wait(closings)

    async def wait_for_mutations(self) -> None:
        """Wait until no mutation runs, also of connections that have ended. Cancelling it does not cancel mutations."""
        if self._mutations:
            await asyncio.wait(self._mutations)

    async def _close_gracefully(self, connection: Connection, ended: asyncio.Future[None]) -> None:
        await connection.close_gracefully(self._restart_close())
        await asyncio.wait((ended,))

    def _restart_close(self) -> Close:
        # One millisecond for each client: a server can take a thousand reconnections per second.
        wait_ms = self._rng.randrange(_MIN_RETRY_SPREAD_MS + self._drained_count)
        return SERVICE_RESTART.because(f"{SERVICE_RESTART.reason}; retry in {wait_ms} ms")

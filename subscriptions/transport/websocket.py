"""GraphQL over WebSocket by the graphql-transport-ws protocol: `TransportWS` serves every socket of a process.

The protocol is that of npm `graphql-ws`; the parts are in `subscriptions.transport`, the close codes in
`subscriptions.close_codes`.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from subscriptions.transport.close_codes import SERVICE_RESTART, Close
from subscriptions.transport.connection import Connection
from subscriptions.transport.connection_limits import ConnectionLimits
from subscriptions.transport.engine import GraphQLEngine
from subscriptions.transport.frames import SUBPROTOCOL
from subscriptions.transport.host import (
    Authenticate,
    Authenticated,
    ConnectionRefusedByAuth,
    Host,
    Judge,
    TransportLimits,
    judge_none,
)

_LEAST_RETRY_MS = 1000
"""Over which clients are spread who come back from a server that few were connected to."""

__all__ = [
    "SUBPROTOCOL",
    "Authenticate",
    "Authenticated",
    "Connection",
    "ConnectionRefusedByAuth",
    "TransportLimits",
    "TransportWS",
]


def _new_id() -> str:
    return uuid.uuid4().hex


class TransportWS:
    """All GraphQL WebSockets of a process."""

    def __init__(
        self,
        engine: GraphQLEngine,
        authenticate: Authenticate,
        limits: TransportLimits,
        *,
        judge: Judge = judge_none,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = _new_id,
        rng: random.Random | None = None,
    ) -> None:
        """`judge` judges tokens that connections are renewed with, `clock` answers seconds since the epoch, `new_id` names connections and failures in the log, `rng`
        spreads the end of connections when the server stops."""
        self._limits = limits
        self._mutations: set[asyncio.Task[None]] = set()
        self._census = ConnectionLimits(limits.max_connections, limits.max_connections_per_user)
        self._host = Host(engine, authenticate, limits, clock, new_id, self._census, self._mutations, judge)
        self._rng = rng if rng is not None else random.Random()
        self._connections: dict[Connection, asyncio.Future[None]] = {}
        self._draining = False
        self._leaving = 0

    @property
    def connection_count(self) -> int:
        """Sockets being served now."""
        return len(self._connections)

    async def serve(self, websocket: WebSocket) -> None:
        """Serve a socket not yet accepted, to its end. Of its operations only mutations are at work then."""
        connection = Connection(websocket, self._host)
        ended = self._connections[connection] = asyncio.get_running_loop().create_future()
        try:
            await connection.run(self._farewell() if self._draining else self._census.admit(connection))
        finally:
            self._census.leave(connection)
            del self._connections[connection]
            ended.set_result(None)

    def asgi(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """`serve` as an ASGI application."""
        return self.serve(WebSocket(scope, receive, send))

    def close_where(self, is_over: Callable[[object], bool], close: Close) -> None:
        """End, like this, the connections of those callers for whom `is_over` answers True."""
        for connection in self._connections:
            caller = connection.caller
            if caller is not None and is_over(caller):
                connection.close(close)

    async def drain(self) -> None:
        """End all connections with 1012, a jittered batch after the other, so that clients don't all come back at
        once; each is told how long it may wait with that. Returns when they have gone, after `drain_seconds` and
        `drain_grace` at the most, where their peers read.

        Sockets that are opened from now on are closed at once. To be called once.
        """
        limits = self._limits
        connections = list(self._connections.items())
        self._draining = True
        self._leaving = len(connections)
        self._rng.shuffle(connections)
        batches = max(1, int(limits.drain_seconds / limits.drain_pause))
        size = max(limits.drain_batch, math.ceil(len(connections) / batches))
        farewells: list[asyncio.Task[None]] = []
        for start in range(0, len(connections), size):
            if start:
                await asyncio.sleep(limits.drain_pause * self._rng.uniform(0.5, 1.5))
            farewells += [
                asyncio.create_task(self._see_off(connection, ended))
                for connection, ended in connections[start : start + size]
            ]
        if farewells:
            await asyncio.wait(farewells)

    async def settle(self) -> None:
        """Return when no mutation is at work, those included whose connection has gone. They go on where this is
        cancelled."""
        if self._mutations:
            await asyncio.wait(self._mutations)

    async def _see_off(self, connection: Connection, ended: asyncio.Future[None]) -> None:
        await connection.see_off(self._farewell())
        await asyncio.wait((ended,))

    def _farewell(self) -> Close:
        # A millisecond each: a thousand clients a second are welcome back.
        wait = self._rng.randrange(_LEAST_RETRY_MS + self._leaving)
        return SERVICE_RESTART.because(f"{SERVICE_RESTART.reason}; retry in {wait} ms")

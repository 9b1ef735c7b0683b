"""What a connection needs of the process around it: limits, authentication, the engine, time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from subscriptions.transport.close_codes import FORBIDDEN, Close
from subscriptions.transport.connection_limits import ConnectionLimits
from subscriptions.transport.engine import GraphQLEngine, Json

UNACKNOWLEDGED_MESSAGE_BYTES = 65_536
"""What the server should take as one message before the connection is acknowledged."""


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bounds on what connections may take, each and together. Times in seconds."""

    max_connections: int = 20_000
    """Sockets open in this process."""
    max_connections_per_user: int = 100
    """Those of one user among them."""
    init_timeout: float = 10.0
    """From the opening of the socket to the acknowledgement, authentication included."""
    ping_interval: float = 25.0
    """Between two pings of ours."""
    pong_timeout: float = 15.0
    """For any frame to follow a ping, at most an interval. After that the peer is taken for dead."""
    max_subscriptions: int = 100
    """Operations of any kind at work at the same time, those being wound up included."""
    max_message_bytes: int = 1_048_576
    """One message from the client, in UTF-8, once it is acknowledged; the server's own limit holds before."""
    queue: int = 1_000
    """Events that wait for a peer that is behind, over all its subscriptions. One more, and it is told to catch up instead."""
    send_timeout: float = 10.0
    """For the peer to take anything at all."""
    behind_timeout: float = 30.0
    """For a peer that was told to catch up to have done so."""
    close_timeout: float = 2.0
    """For the peer to make room for the close frame, before the connection is dropped without it."""
    drain_seconds: float = 5.0
    """Over which connections are told to go when the server stops, where they are many."""
    drain_batch: int = 50
    """Connections told to go at once; more only where `drain_seconds` have no room for as many batches."""
    drain_pause: float = 0.1
    """Between two batches, give or take a half."""
    drain_grace: float = 5.0
    """For mutations at work to end once their connection was told to go."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Who sent a connection_init. `caller` None: nobody, which is no failure: the engine decides what nobody
    may do. `expires_at` in seconds since the epoch; None: never. `user`: whose limit the connection counts towards."""

    caller: object | None
    expires_at: float | None = None
    user: str | None = None


class ConnectionRefusedByAuth(Exception):
    """The connection_init is refused, and the socket closed: with `FORBIDDEN.because("Token expired")`, say."""

    def __init__(self, close: Close = FORBIDDEN) -> None:
        super().__init__(close)
        self.close = close


Authenticate = Callable[[Json | None], Awaitable[Authenticated]]
"""Judges the payload of a connection_init. Raises ConnectionRefusedByAuth; anything else it raises closes with
1013, so that clients come back."""


Judge = Callable[[str], Awaitable[object]]
"""Whom a token speaks for: the caller of a connection that goes on with it. Raises whatever is to be told where it is refused."""


async def judge_none(token: str) -> object:
    """For connections that can't be renewed."""
    raise LookupError("nobody judges tokens here")


@dataclass(frozen=True, slots=True)
class Host:
    """The surroundings all connections of a process share."""

    engine: GraphQLEngine
    authenticate: Authenticate
    limits: TransportLimits
    clock: Callable[[], float]
    """Seconds since the epoch."""
    new_id: Callable[[], str]
    census: ConnectionLimits
    mutations: set[asyncio.Task[None]]
    """Mutations at work, those whose connection has gone included."""
    judge: Judge = judge_none

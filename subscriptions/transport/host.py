"""What a connection needs of the process around it: limits, authentication, the engine, time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from subscriptions.close_codes import FORBIDDEN, Close
from subscriptions.engine import GraphQLEngine, Json


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Bounds on what one connection may take. Times in seconds."""

    init_timeout: float = 10.0
    """From the opening of the socket to the acknowledgement, authentication included."""
    ping_interval: float = 25.0
    """Between two pings of ours."""
    pong_timeout: float = 15.0
    """For any frame to follow a ping, at most an interval. After that the peer is taken for dead."""
    max_subscriptions: int = 100
    """Operations of any kind at work at the same time, those being wound up included."""
    max_message_bytes: int = 65_536
    """One frame from the client, in UTF-8."""
    queue: int = 1_000
    """Events that wait for a peer that is behind, over all its subscriptions. One more, and it is told to catch up instead."""
    send_timeout: float = 10.0
    """For the peer to take anything at all."""
    behind_timeout: float = 30.0
    """For a peer that was told to catch up to have done so."""
    close_timeout: float = 2.0
    """For the peer to make room for the close frame, before the connection is dropped without it."""
    drain_batch: int = 100
    """Connections told to go at once when the server stops."""
    drain_pause: float = 0.2
    """Between two batches, give or take a half."""
    drain_grace: float = 10.0
    """For mutations at work to end when the server stops."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Who sent a connection_init. `caller` None: nobody, which is no failure: the engine decides what nobody
    may do. `expires_at` in seconds since the epoch; None: never."""

    caller: object | None
    expires_at: float | None = None


class ConnectionRefusedByAuth(Exception):
    """The connection_init is refused, and the socket closed: with `FORBIDDEN.because("Token expired")`, say."""

    def __init__(self, close: Close = FORBIDDEN) -> None:
        super().__init__(close)
        self.close = close


Authenticate = Callable[[Json | None], Awaitable[Authenticated]]
"""Judges the payload of a connection_init. Raises ConnectionRefusedByAuth; anything else it raises closes with
1013, so that clients come back."""


@dataclass(frozen=True, slots=True)
class Host:
    """The surroundings all connections of a process share."""

    engine: GraphQLEngine
    authenticate: Authenticate
    limits: TransportLimits
    clock: Callable[[], float]
    """Seconds since the epoch."""
    new_id: Callable[[], str]
    mutations: set[asyncio.Task[None]]
    """Mutations at work, those whose connection has gone included."""

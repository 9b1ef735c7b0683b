"""The parts of the process that a connection uses: limits, authentication, the engine, and the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from subscriptions.presence.connected_devices import DeviceConnection
from subscriptions.realtime.unsent_answers import UnsentAnswers
from subscriptions.transport.close_codes import FORBIDDEN, Close
from subscriptions.transport.connection_limits import ConnectionLimits
from subscriptions.transport.engine import GraphQLEngine, Json
from subscriptions.transport.joined_writes import JoinedWrites
from subscriptions.transport.timer_wheel import TimerWheel

UNACKNOWLEDGED_MESSAGE_BYTES = 65_536
"""Largest message that the server should accept before the connection is acknowledged."""


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Limits of each connection, and of all connections of a process."""

    max_connections: int = 20_000
    """Open sockets of this process."""
    max_connections_per_user: int = 100
    """Open sockets of one user in this process."""
    init_timeout_seconds: float = 10.0
    """Time from the opening of the socket to the acknowledgement, authentication included."""
    ping_interval_seconds: float = 25.0
    """Time between two pings of the server."""
    pong_timeout_seconds: float = 15.0
    """Time limit for any frame after a ping; at most the ping interval. After that the peer counts as dead."""
    max_subscriptions: int = 100
    """Operations of any kind that run at once on a connection, including those that are ending."""
    max_message_bytes: int = 1_048_576
    """One message of an acknowledged client, in UTF-8. The server's own limit applies before."""
    max_queued_events: int = 1_000
    """Events that wait for a slow peer, over all its subscriptions. If there are more, the client has to sync."""
    send_timeout_seconds: float = 10.0
    """Time in which the peer has to accept bytes, at the minimum rate."""
    min_bytes_per_second: int = 0
    """Minimum rate at which the peer has to accept bytes that wait for it. 0: one byte is enough."""
    sync_timeout_seconds: float = 30.0
    """Time limit for a client that has to sync to do so."""
    close_timeout_seconds: float = 2.0
    """Time limit for the peer to accept the close frame, before the connection is dropped without it."""
    drain_seconds: float = 5.0
    """Time over which many connections are closed at shutdown."""
    drain_batch: int = 50
    """Minimum number of connections closed at once."""
    drain_pause_seconds: float = 0.1
    """Mean pause between two batches."""
    drain_grace_seconds: float = 5.0
    """Time limit for running mutations of a connection that is closed at shutdown."""


ConnectDevice = Callable[[Callable[[Close], None]], DeviceConnection]
"""Makes an acknowledged connection one of a user's device. It gets the call that ends the connection."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The sender of a connection_init.

    Attributes:
        caller: None without a token. That is no failure: the engine decides what is allowed without one.
        expires_at: Seconds since the Unix epoch; None: never.
        user: The connection counts towards the limit of this user.
        acted_by: The user who acts for `user`, for the log; None: the user themselves.
        connect_device: Called when the connection is acknowledged; None: it is of no device.
    """

    caller: object | None
    expires_at: float | None = None
    user: str | None = None
    acted_by: str | None = None
    connect_device: ConnectDevice | None = None


class ConnectionRefusedByAuth(Exception):
    """Raised to refuse a connection_init. Closes the socket, for example with `FORBIDDEN.because("Token expired")`."""

    def __init__(self, close: Close = FORBIDDEN) -> None:
        super().__init__(close)
        self.close = close


Authenticate = Callable[[Json | None], Awaitable[Authenticated]]
"""Authenticates the payload of a connection_init. Raises ConnectionRefusedByAuth. Any other exception closes with 1013,
so that clients try again."""


AuthenticateToken = Callable[[str], Awaitable[object]]
"""Returns the caller of a connection's new token. Raises the error for the client."""


async def refuse_all_tokens(token: str) -> object:
    """Refuse every token: for connections that cannot get a new one."""
    raise LookupError("this transport cannot authenticate tokens")


@dataclass(frozen=True, slots=True)
class Host:
    """The parts of the process that all connections share."""

    engine: GraphQLEngine
    authenticate: Authenticate
    limits: TransportLimits
    clock: Callable[[], float]
    """Returns seconds since the Unix epoch."""
    new_id: Callable[[], str]
    connection_limits: ConnectionLimits
    mutations: set[asyncio.Task[None]]
    """Running mutations, including those whose connection has ended."""
    authenticate_token: AuthenticateToken = refuse_all_tokens
    timers: TimerWheel = field(default_factory=TimerWheel)
    """The timers of all connections."""
    joined_writes: JoinedWrites = field(default_factory=JoinedWrites)
    unsent: UnsentAnswers = field(default_factory=UnsentAnswers)
    """Bytes that wait for the peers of all connections."""

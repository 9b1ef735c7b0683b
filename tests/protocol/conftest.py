"""A real server on a free loopback port, a real WebSocket client, and an engine that does as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
import uvicorn
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from subscriptions.engine import ConnectionContext, GraphQLRequest, Json, OperationKind, RequestRefused
from subscriptions.transport.uvicorn_protocol import AbortingWebSocketProtocol
from subscriptions.transport_ws import Authenticated, TransportLimits, TransportWS

PATIENCE = 5.0
"""Seconds after which a test takes what it waits for as not happening."""

Execute = Callable[[GraphQLRequest, ConnectionContext], Awaitable[Json]]
Stream = Callable[[GraphQLRequest, ConnectionContext], AsyncIterator[Json]]


@dataclass(frozen=True)
class ScriptedOperation:
    kind: OperationKind
    query: str


@dataclass
class ScriptedEngine:
    """Knows the documents it was given; the first word of each is its kind."""

    executions: dict[str, Execute] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)

    def __post_init__(self) -> None:
        async def hello(request: GraphQLRequest, context: ConnectionContext) -> Json:
            return {"data": {"hello": "world"}}

        self.executions["query hello"] = hello

    def prepare(self, request: GraphQLRequest) -> ScriptedOperation:
        if request.query == "query broken":
            raise ZeroDivisionError("in prepare")
        if request.query not in self.executions and request.query not in self.streams:
            raise RequestRefused([{"message": f"No operation {request.query}."}])
        if request.operation_name == "Unknown":
            raise RequestRefused([{"message": 'Unknown operation named "Unknown".'}])
        kind = request.query.split()[0]
        assert kind in ("query", "mutation", "subscription")
        return ScriptedOperation(kind, request.query)

    async def execute(self, prepared: ScriptedOperation, request: GraphQLRequest, context: ConnectionContext) -> Json:
        return await self.executions[prepared.query](request, context)

    async def subscribe(
        self, prepared: ScriptedOperation, request: GraphQLRequest, context: ConnectionContext
    ) -> AsyncIterator[Json]:
        return self.streams[prepared.query](request, context)


class Peer:
    """A client that says what the script says, and nothing else."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    @property
    def subprotocol(self) -> str | None:
        return self.socket.subprotocol

    async def send(self, frame: Json | str | bytes) -> None:
        await self.socket.send(orjson.dumps(frame).decode() if isinstance(frame, dict) else frame)

    async def receive(self) -> Json:
        async with asyncio.timeout(PATIENCE):
            message = orjson.loads(await self.socket.recv())
        assert isinstance(message, dict)
        return message

    async def nothing_comes(self, seconds: float = 0.15) -> bool:
        """Whether the server stays silent for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self.socket.recv()
        except TimeoutError:
            return True
        return False

    async def init(self, payload: Json | None = None) -> None:
        await self.send({"type": "connection_init", "payload": payload})
        assert await self.receive() == {"type": "connection_ack"}

    async def subscribe(self, id: str, query: str, **payload: Any) -> None:
        await self.send({"id": id, "type": "subscribe", "payload": {"query": query, **payload}})

    async def complete(self, id: str) -> None:
        await self.send({"id": id, "type": "complete"})

    async def is_alive(self) -> bool:
        """Whether the server answers a ping, with nothing sent before the answer."""
        await self.send({"type": "ping"})
        return await self.receive() == {"type": "pong"}

    async def closed(self) -> tuple[int, str]:
        """How the server closes the connection. No other frame may come before."""
        async with asyncio.timeout(PATIENCE):
            try:
                frame = await self.socket.recv()
            except ConnectionClosed as end:
                return (end.rcvd.code, end.rcvd.reason) if end.rcvd is not None else (1006, "")
        raise AssertionError(f"a frame instead of a close: {frame!r}")


class QuietServer(uvicorn.Server):
    """uvicorn within the test's own loop: signals stay the test runner's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def until(condition: Callable[[], object]) -> None:
    """Return once `condition` holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """`await eventually(condition)` returns once that holds, and fails if it never does."""
    return until


@dataclass
class Running:
    """A TransportWS behind uvicorn."""

    transport: TransportWS
    url: str
    clients: contextlib.AsyncExitStack

    async def connect(self, subprotocols: list[str] | None = None, *, init: bool = True, **options: Any) -> Peer:
        """A new socket, with the connection initialised unless told otherwise."""
        client = connect(
            self.url,
            subprotocols=(["graphql-transport-ws"] if subprotocols is None else subprotocols) or None,
            ping_interval=None,
            compression=None,
            max_size=None,
            close_timeout=1,
            **options,
        )
        peer = Peer(await self.clients.enter_async_context(client))
        if init:
            await peer.init()
        return peer

    async def idle(self) -> None:
        """Return when the server has no connection left."""
        await until(lambda: not self.transport.connection_count)


async def anonymous(payload: Json | None) -> Authenticated:
    return Authenticated(caller=None)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


Routes = dict[str, TransportWS]


@pytest.fixture(scope="session")
async def uvicorn_port_and_routes() -> AsyncIterator[tuple[int, Routes]]:
    """One uvicorn for the whole run, and which transport serves which path of it."""
    routes: Routes = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await routes[scope["path"]].serve(WebSocket(scope, receive, send))

    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio does so only for sockets that it opened itself; without it every second small frame waits for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(
        app,
        ws=AbortingWebSocketProtocol,
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        ws_max_size=1_048_576,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=2,
    )
    server = QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await until(lambda: server.started)
    yield listener.getsockname()[1], routes
    server.should_exit = True
    await serving


@pytest.fixture
async def start(
    engine: ScriptedEngine, uvicorn_port_and_routes: tuple[int, Routes]
) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Start servers: `await start(TransportLimits(...), authenticate=..., clock=...)`.

    Afterwards clients are closed, and every server must be rid of its connections by itself.
    """
    port, routes = uvicorn_port_and_routes
    started: list[Running] = []
    async with contextlib.AsyncExitStack() as clients:

        async def start_one(
            limits: TransportLimits | None = None, *, authenticate: Any = anonymous, **options: Any
        ) -> Running:
            transport = TransportWS(engine, authenticate, limits or TransportLimits(), **options)
            path = f"/{len(routes)}"
            routes[path] = transport
            running = Running(transport, f"ws://127.0.0.1:{port}{path}", clients)
            started.append(running)
            return running

        yield start_one
    for running in started:
        await running.idle()


@pytest.fixture
async def server(start: Callable[..., Awaitable[Running]]) -> Running:
    """A server with limits no test reaches by accident, and nobody to authenticate."""
    return await start()

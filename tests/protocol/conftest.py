"""A real server on a free loopback port, a real WebSocket client, and a scripted engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from starlette.websockets import WebSocket

from subscriptions.transport.engine import (
    ConnectionContext,
    GraphQLRequest,
    Json,
    OperationKind,
    RequestRefused,
    ResponseSink,
    StreamEnded,
    encode,
)
from subscriptions.transport.host import UNACKNOWLEDGED_MESSAGE_BYTES
from subscriptions.transport.uvicorn_protocol import DirectWebSocketProtocol
from subscriptions.transport.websocket import Authenticated, TransportLimits, WebSocketTransport
from tests.protocol.peer import Peer, open_socket
from tests.protocol.serving import serving, until

Execute = Callable[[GraphQLRequest, ConnectionContext], Awaitable[Json]]
Stream = Callable[[GraphQLRequest, ConnectionContext], AsyncIterator[Json]]


@dataclass(frozen=True)
class ScriptedOperation:
    kind: OperationKind
    query: str


@dataclass
class ScriptedEngine:
    """An engine that knows the given documents; the first word of each is its kind."""

    executions: dict[str, Execute] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)

    def __post_init__(self) -> None:
        async def hello(request: GraphQLRequest, context: ConnectionContext) -> Json:
            return {"data": {"hello": "world"}}

        self.executions["query hello"] = hello

    def check_caller(self, caller: object | None) -> None:
        pass

    async def prepare(self, request: GraphQLRequest, caller: object | None) -> ScriptedOperation:
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
    ) -> ScriptedStream:
        return ScriptedStream(self.streams[prepared.query](request, context))


class ScriptedStream:
    """An async generator as an event stream: each event is requested after the one before was taken."""

    def __init__(self, events: AsyncIterator[Json]) -> None:
        self._events: Any = events
        self._request: asyncio.Task[None] | None = None
        self._answer: bytes | Exception | None = None
        self._closed = False
        self._ready: Callable[[], None] = lambda: None

    def on_ready(self, call: Callable[[], None]) -> None:
        self._ready = call

    def write_to(self, sink: ResponseSink) -> None:
        """Do nothing: all responses are taken."""

    def take(self) -> bytes | None:
        answer, self._answer = self._answer, None
        if isinstance(answer, Exception):
            raise answer
        if answer is None and self._request is None:
            self._request = asyncio.create_task(self._ask())
        return answer

    async def _ask(self) -> None:
        try:
            self._answer = encode(await anext(self._events))
        except StopAsyncIteration:
            self._answer = StreamEnded()
        except Exception as error:
            self._answer = error
        except asyncio.CancelledError:
            await self._events.aclose()
            raise
        self._request = None
        self._ready()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._request is not None:
                self._request.cancel()
            else:
                self._request = asyncio.create_task(self._events.aclose())


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Wait until a condition holds; fail if it never does."""
    return until


@dataclass
class Running:
    """A WebSocketTransport behind uvicorn."""

    transport: WebSocketTransport
    url: str
    clients: contextlib.AsyncExitStack

    async def connect(self, subprotocols: list[str] | None = None, *, init: bool = True, **options: Any) -> Peer:
        """Open a socket, and initialise the connection unless `init` is False."""
        socket = open_socket(self.url, subprotocols, **options)
        peer = Peer(await self.clients.enter_async_context(socket))
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


Routes = dict[str, WebSocketTransport]


@pytest.fixture(scope="session")
async def uvicorn_port_and_routes() -> AsyncIterator[tuple[int, Routes]]:
    """One uvicorn for the whole run, and which transport serves which path of it."""
    routes: Routes = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await routes[scope["path"]].serve(WebSocket(scope, receive, send))

    config = uvicorn.Config(
        app,
        ws=DirectWebSocketProtocol,
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        ws_max_size=UNACKNOWLEDGED_MESSAGE_BYTES,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=2,
    )
    async with serving(config) as served:
        yield served.port, routes


@pytest.fixture
async def start(
    engine: ScriptedEngine, uvicorn_port_and_routes: tuple[int, Routes]
) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Yield a function that starts servers with given limits, authentication and clock.

    Afterwards clients are closed, and every server must be rid of its connections by itself.
    """
    port, routes = uvicorn_port_and_routes
    started: list[Running] = []
    async with contextlib.AsyncExitStack() as clients:

        async def start_one(
            limits: TransportLimits | None = None, *, authenticate: Any = anonymous, **options: Any
        ) -> Running:
            transport = WebSocketTransport(engine, authenticate, limits or TransportLimits(), **options)
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

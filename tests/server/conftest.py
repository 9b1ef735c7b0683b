"""Fixtures: a manual clock, and the HTTP endpoint in front of a scripted engine."""

from __future__ import annotations

import asyncio
import functools
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from resolvers.base.errors import Unauthenticated
from resolvers.users.callers import Caller
from server.auth.authenticator import Authenticator
from server.graphql_endpoint import GraphQLEndpoint
from server.http.request_log import RequestLogMiddleware
from server.overload.admission_control import AdmissionControl
from server.overload.load_shedding import LoadShedding
from server.overload.operation_queue import OperationQueue
from server.overload.shielded_mutations import ShieldedMutations
from server.settings import Settings, load_settings
from server.sse.requests import StreamRequests
from server.sse.single_connection import SingleConnections
from server.sse.stream import StreamLimits
from server.sse.stream_registry import SSEStreamRegistry
from subscriptions.transport.engine import (
    ConnectionContext,
    GraphQLRequest,
    Json,
    OperationKind,
    RequestRefused,
    ResponseSink,
)
from tests.server.served_app import ServeApp, serving_app
from tests.server.tokens import NOW, SECRET


class Clock:
    """A clock in seconds since the epoch that moves only when a test sets it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings_with(mongo_url: str, redis_url: str, emptied_database: str, redis_prefix: str) -> Callable[..., Settings]:
    """Settings with an emptied database and a key prefix for one test."""
    return functools.partial(
        load_settings,
        mongo_url=mongo_url,
        redis_url=redis_url,
        mongo_database=emptied_database,
        redis_prefix=redis_prefix,
    )


@pytest.fixture
def serve_app(settings_with: Callable[..., Settings]) -> ServeApp:
    """Return the application with other settings."""
    return lambda **changed: serving_app(settings_with(jwt_secret=SECRET, **changed))


@pytest.fixture
def refusal() -> Callable[[Authenticator, str], Awaitable[str]]:
    """Returns why a token is refused. Fails if it is accepted."""

    async def reason(authenticator: Authenticator, token: str) -> str:
        with pytest.raises(Unauthenticated) as caught:
            await authenticator.authenticate(token)
        return caught.value.message

    return reason


@dataclass(frozen=True)
class Operation:
    kind: OperationKind
    root: str = "ok"


class ScriptedStream:
    """An EventStream that a test fills."""

    def __init__(self) -> None:
        self.closed = False
        self.left: deque[bytes | Exception] = deque()
        self._call: Callable[[], None] = lambda: None

    def put(self, *outcomes: bytes | Exception) -> None:
        self.left += outcomes
        self._call()

    def take(self) -> bytes | None:
        if not self.left:
            return None
        outcome = self.left.popleft()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def on_ready(self, call: Callable[[], None]) -> None:
        self._call = call

    def write_to(self, sink: ResponseSink) -> None:
        """Do nothing: all responses are taken."""

    def close(self) -> None:
        self.closed = True


@dataclass
class ScriptedEngine:
    """An engine with the same result for every operation. The first word of a document is its kind."""

    result: Callable[[], Json] = lambda: {"data": {"ok": True}}
    refusal: list[Json] | None = None
    prepared: list[GraphQLRequest] = field(default_factory=list)
    executed: list[tuple[GraphQLRequest, ConnectionContext]] = field(default_factory=list)
    finished: int = 0
    streams: list[ScriptedStream] = field(default_factory=list)
    not_subscribed: list[Json] | None = None
    gate: asyncio.Event | None = None

    def check_caller(self, caller: object | None) -> None:
        pass

    async def prepare(self, request: GraphQLRequest, caller: object | None) -> Operation:
        self.prepared.append(request)
        if self.refusal is not None:
            raise RequestRefused(self.refusal)
        word = request.query.split()[0]
        return Operation(word if word in ("mutation", "subscription") else "query")  # type: ignore[arg-type]

    async def execute(self, prepared: Any, request: GraphQLRequest, context: ConnectionContext) -> Json:
        self.executed.append((request, context))
        if self.gate is not None:
            await self.gate.wait()
        self.finished += 1
        return self.result()

    async def subscribe(self, prepared: Any, request: GraphQLRequest, context: ConnectionContext) -> ScriptedStream:
        if self.not_subscribed is not None:
            raise RequestRefused(self.not_subscribed)
        self.streams.append(ScriptedStream())
        return self.streams[-1]


@dataclass
class Side:
    """The endpoint with its engine and a client."""

    engine: ScriptedEngine
    endpoint: GraphQLEndpoint
    app: Starlette
    client: httpx.AsyncClient
    signed_in: list[Caller]
    max_body_bytes: int
    streams: SSEStreamRegistry
    sign_in_error: Exception | None = None

    async def post(
        self, body: Any = None, *, accept: str | None = "application/graphql-response+json", **headers: str
    ) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body or {"query": "{ok}"}).encode()
        sent = {
            "content-type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return await self.client.post("/graphql", content=content, headers={**sent, "accept": accept or ""})

    @staticmethod
    def code(response: httpx.Response) -> str:
        """Return the code of the only error. Checks the form of the error, and that there is no data."""
        body = response.json()
        assert set(body) == {"errors"}
        (error,) = body["errors"]
        assert error["message"]
        assert isinstance(error["extensions"]["retryable"], bool)
        return str(error["extensions"]["code"])


@pytest.fixture
async def side(clock: Clock, request: pytest.FixtureRequest) -> AsyncIterator[Side]:
    """The endpoint with a scripted engine. An indirect parameter sets the limits of event streams."""
    signed_in: list[Caller] = []

    async def sign_in(caller: Caller) -> None:
        if made.sign_in_error is not None:
            raise made.sign_in_error
        signed_in.append(caller)

    engine = ScriptedEngine()
    max_body_bytes = 1_048_576
    authenticator = Authenticator(Settings(jwt_secret=SECRET), clock)
    limits: StreamLimits = getattr(request, "param", StreamLimits(end_delay_seconds=0))
    mutations, streams = ShieldedMutations(), SSEStreamRegistry(limits, clock=clock)
    unused: Any = None
    single = SingleConnections(engine, streams, mutations, unused, "here", unused, unused)
    shedding = LoadShedding(100, 100)
    guarded = AdmissionControl(engine, shedding, OperationQueue(shedding, 100, 100), mutations, 20)
    endpoint = GraphQLEndpoint(
        guarded,
        authenticator.authenticate,
        sign_in,
        StreamRequests(engine, streams, single, mutations, max_body_bytes=max_body_bytes),
        mutations,
        max_body_bytes=max_body_bytes,
    )
    app = Starlette(routes=[Route("/graphql", endpoint)], middleware=[Middleware(RequestLogMiddleware)])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://confab") as client:
        made = Side(engine, endpoint, app, client, signed_in, max_body_bytes, streams)
        yield made

"""The ASGI application: everything put together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from resolvers.base.app import Confab
from resolvers.base.rate_limits import check_rate
from server.auth.auth_guard import AuthGuard
from server.auth.authenticator import Authenticator
from server.auth.websocket import socket_authenticate
from server.demo.sign_in import hands_out_tokens, sign_in_routes
from server.graphql_endpoint import GraphQLHTTP
from server.http.origins import OriginGuard
from server.http.overload_responses import LoadSheddingMiddleware
from server.http.persisted_operations import PersistedOperationsEngine, load_persisted_operations
from server.http.request import TOKEN_HEADER
from server.http.request_log import REQUEST_ID_HEADER, RequestLogMiddleware
from server.http.response import DIRECT_KEY
from server.http.static_pages import demo_routes, playground
from server.observability.health import health_routes
from server.observability.logs import configure_logging
from server.overload.admission_control import AdmissionControl
from server.overload.load_shedding import LEAST_OPERATIONS, LOAD_SHEDDING_STATE, LoadShedding
from server.overload.operation_meter import OperationMeter
from server.overload.shielded_mutations import ShieldedMutations
from server.process.fd_limits import max_sockets
from server.process.gc_tuning import tune_garbage_collection
from server.process.graceful_shutdown import SHUTDOWN_STATE, GracefulShutdown
from server.services import Services, open_services
from server.settings import Settings, load_settings
from server.sse.setup import open_event_streams
from subscriptions.transport.engine import GraphQLEngine
from subscriptions.transport.websocket import TransportLimits, TransportWS

GRAPHQL_PATH = "/graphql"

LINGER = 5.0
"""Seconds that mutations of clients that have gone may take when the server has stopped."""


def create_app(settings: Settings | None = None) -> Starlette:
    """The application. Without settings it reads them itself and sets up logging and the process, as a worker does.

    It starts also while MongoDB or Redis cannot be reached. Raises SettingsError.
    """
    if settings is None:
        settings = load_settings()
        configure_logging(settings)
        tune_garbage_collection()
    authenticator = Authenticator(settings)
    registered = load_persisted_operations(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, object]]:
        async with AsyncExitStack() as stack:
            services = await stack.enter_async_context(open_services(settings))
            admission = AuthGuard(authenticator, services.revocations)
            stopping = GracefulShutdown()
            shedding = LoadShedding(settings.max_operations, LEAST_OPERATIONS)
            if registered is not None:
                services = replace(services, engine=PersistedOperationsEngine(services.engine, registered))
            app.router.routes = await _routes(application, settings, services, admission, stopping, shedding, stack)
            shedding.open()
            stack.callback(shedding.close)
            refusing = asyncio.create_task(_end_once(services.refused))
            stack.callback(refusing.cancel)
            yield {SHUTDOWN_STATE: stopping, LOAD_SHEDDING_STATE: shedding}

    application = _Application(
        lifespan=lifespan, middleware=_middleware(settings), shares_origins=bool(settings.cors_origins)
    )
    return application


class _Application(Starlette):
    """What is for the GraphQL endpoint goes straight there: looking for its route, and for what all of them have in common,
    costs as much as answering a small query, and memory for as long as a WebSocket lasts."""

    def __init__(self, *, shares_origins: bool, **options: Any) -> None:
        """shares_origins: requests that name their origin have headers of their own in the answer."""
        super().__init__(**options)
        self._shares_origins = shares_origins
        self._straight: dict[str, ASGIApp] = {}

    def go_straight(self, http: ASGIApp, websocket: ASGIApp, shedding: LoadShedding) -> None:
        """From now on."""
        self._straight = {
            "http": LoadSheddingMiddleware(RequestLogMiddleware(http), shedding),
            "websocket": RequestLogMiddleware(websocket),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        straight = self._straight.get(scope["type"]) if scope.get("path") == GRAPHQL_PATH else None
        if straight is None or (self._shares_origins and any(name == b"origin" for name, _ in scope["headers"])):
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        scope[DIRECT_KEY] = True
        await straight(scope, receive, send)


async def _routes(
    application: _Application,
    settings: Settings,
    services: Services,
    admission: AuthGuard,
    stopping: GracefulShutdown,
    shedding: LoadShedding,
    stack: AsyncExitStack,
) -> list[BaseRoute]:
    graphiql = playground() if settings.graphiql else None
    mutations = ShieldedMutations()
    app = services.app
    shedding.behind = lambda: app.delivery.depths[2] + app.bus.under_way + app.receipts.under_way
    meter = OperationMeter()
    most_sockets, most_streams = max_sockets(settings.ws_max_connections, settings.sse_max_streams)
    engine: GraphQLEngine = AdmissionControl(
        services.engine, shedding, mutations, settings.operation_timeout_seconds, meter
    )
    if settings.otel_endpoint is not None:
        engine = _traced(engine, app, settings, stack)
    streams, events = await stack.enter_async_context(
        open_event_streams(settings, services, engine, mutations, most_streams, check=admission.check)
    )
    http = GraphQLHTTP(
        engine,
        admission.authenticate,
        services.sign_in,
        events,
        mutations,
        max_body_bytes=settings.max_body_bytes,
        page=graphiql.page if graphiql is not None else None,
    )
    socket = TransportWS(
        engine,
        socket_authenticate(
            admission.authenticate,
            services.sign_in,
            shedding,
            lambda caller: check_rate(services.app.store.rate_limits.connections, caller.user_id),
        ),
        TransportLimits(
            init_timeout=settings.ws_init_timeout_seconds,
            ping_interval=settings.ws_ping_interval_seconds,
            max_connections=most_sockets,
            max_connections_per_user=settings.ws_max_connections_per_user,
            max_subscriptions=settings.ws_max_subscriptions,
            queue=settings.ws_max_queued_events,
            max_message_bytes=settings.max_body_bytes,
            drain_seconds=settings.ws_drain_seconds,
        ),
        judge=admission.authenticate,
    )
    stopping.drain_by(socket.drain)
    stopping.drain_by(streams.drain)
    if settings.metrics_port is not None:
        # Not loaded where nobody wants it.
        from server.observability.metrics import Metrics, MetricSources
        from server.observability.metrics_server import serving_metrics

        metrics = Metrics(
            MetricSources(
                app,
                meter,
                shedding,
                lambda: socket.connection_count,
                lambda: streams.count,
                lambda: services.migrator.rows,
            )
        )
        where = (settings.metrics_host, settings.metrics_port, settings.metrics_port_count)
        await stack.enter_async_context(serving_metrics(metrics, *where))
    admission.watch(socket.close_where)
    admission.watch(lambda is_over, _close: streams.end_where(is_over))
    await admission.open()
    stack.push_async_callback(admission.close)

    async def settle() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await asyncio.gather(socket.settle(), http.drain())

    async def check() -> Mapping[str, str | None]:
        return {"server": "stopping"} if stopping.has_begun else await services.check()

    stack.push_async_callback(settle)
    # A public secret signs tokens in development: no page may come near them under a name of its own.
    hosts = (*settings.allowed_hosts, settings.host) if settings.allowed_hosts or settings.development else None
    guarded_http = OriginGuard(http, settings.cors_origins, hosts)
    guarded_socket = OriginGuard(socket.asgi, settings.cors_origins, hosts)
    application.go_straight(guarded_http, guarded_socket, shedding)
    return [
        Route(GRAPHQL_PATH, LoadSheddingMiddleware(guarded_http, shedding)),
        WebSocketRoute(GRAPHQL_PATH, guarded_socket),
        *(graphiql.routes() if graphiql is not None else ()),
        *(demo_routes() if settings.demo else ()),
        *(_guarded(sign_in_routes(settings), hosts) if hands_out_tokens(settings) else ()),
        *health_routes(check),
    ]


def _guarded(routes: list[Route], hosts: tuple[str, ...] | None) -> list[Route]:
    """For the server's own pages alone, whichever others may call the API."""
    return [Route(route.path, OriginGuard(route.app, (), hosts), methods=list(route.methods or ())) for route in routes]


async def _end_once(refused: asyncio.Event) -> None:
    await refused.wait()
    # As whoever stops servers does: clients are seen off.
    signal.raise_signal(signal.SIGTERM)


def _traced(engine: GraphQLEngine, app: Confab, settings: Settings, stack: AsyncExitStack) -> GraphQLEngine:
    # Not installed where nobody wants it.
    from server.observability.tracing import TracedEngine, trace_parts, tracing

    provider = tracing(settings)
    assert provider is not None
    stack.push_async_callback(asyncio.to_thread, provider.shutdown)
    tracer = provider.get_tracer("confab")
    trace_parts(app, tracer)
    return TracedEngine(engine, tracer)


def _middleware(settings: Settings) -> list[Middleware]:
    middleware = [Middleware(RequestLogMiddleware)]
    if settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["GET", "POST", "PUT", "DELETE"],
                allow_headers=["authorization", "content-type", REQUEST_ID_HEADER, TOKEN_HEADER],
                expose_headers=[REQUEST_ID_HEADER, "retry-after"],
            )
        )
    return middleware

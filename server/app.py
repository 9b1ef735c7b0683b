"""Builds the ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from resolvers.base.app import Confab
from resolvers.base.rate_limits import check_rate
from server.auth.acting import ACT_AS_HEADER
from server.auth.auth_guard import AuthGuard
from server.auth.authenticator import Authenticator
from server.auth.websocket import websocket_authenticator
from server.demo.sign_in import issues_tokens, sign_in_routes
from server.files.cross_origin import ApiCors
from server.files.routes import file_endpoints
from server.files.streaming import Downloads
from server.graphql_endpoint import GraphQLEndpoint
from server.http.client_limits import CLIENT_LIMITS_STATE, ClientLimits
from server.http.descriptor_guard import DescriptorGuard
from server.http.origins import OriginGuard
from server.http.overload_responses import LoadSheddingMiddleware
from server.http.persisted_operations import PersistedOperationsEngine, load_persisted_operations
from server.http.rate_limit_headers import RATE_LIMIT_HEADERS, RateLimitHeaders
from server.http.request import TOKEN_HEADER
from server.http.request_log import REQUEST_ID_HEADER, RequestLogMiddleware
from server.http.response import DIRECT_KEY
from server.http.routing import match_whole_path
from server.http.static_pages import demo_routes, playground
from server.observability.health import READINESS_STATE, health_routes
from server.observability.logs import configure_logging
from server.opening import log_when_open
from server.overload.admission_control import AdmissionControl
from server.overload.load_shedding import LOAD_SHEDDING_STATE, MIN_OPERATIONS, LoadShedding
from server.overload.operation_meter import OperationMeter
from server.overload.operation_queue import OperationQueue
from server.overload.queued_operations import QueuedOperations
from server.overload.shielded_mutations import ShieldedMutations
from server.overload.unread_answers import UnreadAnswersEngine
from server.process.fd_limits import max_sockets
from server.process.graceful_shutdown import SHUTDOWN_STATE, GracefulShutdown
from server.process.interpreter_tuning import tune_interpreter
from server.services import Services, open_services
from server.settings import Settings, find_foreign_token_warning, load_settings
from server.settings.public_url import file_origins
from server.sse.setup import open_event_streams
from server.voice.livekit_webhook import livekit_webhook_route
from server.webhooks.endpoint import PostLimits, WebhookEndpoint, webhook_route
from subscriptions.realtime.unsent_answers import UnsentAnswers
from subscriptions.transport.engine import GraphQLEngine
from subscriptions.transport.websocket import TransportLimits, WebSocketTransport

_log = structlog.get_logger(__name__)

GRAPHQL_PATH = "/graphql"

MUTATION_GRACE_SECONDS = 5.0
"""Time limit at shutdown for mutations whose clients have disconnected."""


def create_app(settings: Settings | None = None) -> Starlette:
    """Return the application.

    Without settings, as in a worker process, it reads them, and configures logging and garbage collection. It also
    starts while MongoDB or Redis is unreachable. Raises SettingsError.
    """
    if settings is None:
        settings = load_settings()
        configure_logging(settings)
        tune_interpreter()
    warning = find_foreign_token_warning(settings)
    if warning is not None:
        _log.warning("foreign_tokens_accepted", reason=warning)
    authenticator = Authenticator(settings)
    persisted = load_persisted_operations(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, object]]:
        async with AsyncExitStack() as stack:
            services = await stack.enter_async_context(open_services(settings))
            auth_guard = AuthGuard(authenticator, services.revocations, services.app.bans)
            shutdown = GracefulShutdown()
            load_shedding = LoadShedding(settings.max_operations, MIN_OPERATIONS)
            unsent = UnsentAnswers(settings.max_unsent_bytes_per_user, settings.max_unsent_bytes)
            client_limits = _client_limits(settings, unsent)
            if persisted is not None:
                services = replace(services, engine=PersistedOperationsEngine(services.engine, persisted))
            app.router.routes = await _build_routes(
                application, settings, services, auth_guard, shutdown, load_shedding, client_limits, stack
            )
            load_shedding.open()
            stack.callback(load_shedding.close)
            for waiting in (
                _stop_when(services.must_stop),
                log_when_open(services.app.store, services.opened),
            ):
                stack.callback(asyncio.create_task(waiting).cancel)
            yield {
                SHUTDOWN_STATE: shutdown,
                LOAD_SHEDDING_STATE: load_shedding,
                CLIENT_LIMITS_STATE: client_limits,
                READINESS_STATE: services.check,
            }

    application = _Application(
        lifespan=lifespan, middleware=_middleware(settings), uses_cors=bool(settings.cors_origins)
    )
    return application


class _Application(Starlette):
    """Passes requests for /graphql directly to the endpoint.

    Starlette's routing and middleware cost as much as answering a small query, and memory for the life of a WebSocket.
    """

    def __init__(self, *, uses_cors: bool, **options: Any) -> None:
        """Create the application. With `uses_cors`, requests with an Origin header pass the CORS middleware."""
        super().__init__(**options)
        self._uses_cors = uses_cors
        self._direct: dict[str, ASGIApp] = {}

    def route_directly(self, http: ASGIApp, websocket: ASGIApp, load_shedding: LoadShedding) -> None:
        """Set the endpoints for requests to /graphql."""
        self._direct = {
            "http": LoadSheddingMiddleware(RequestLogMiddleware(http), load_shedding),
            "websocket": RequestLogMiddleware(websocket),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._direct.get(scope["type"]) if scope.get("path") == GRAPHQL_PATH else None
        if endpoint is None or (self._uses_cors and any(name == b"origin" for name, _ in scope["headers"])):
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        scope[DIRECT_KEY] = True
        await endpoint(scope, receive, send)


async def _build_routes(
    application: _Application,
    settings: Settings,
    services: Services,
    auth_guard: AuthGuard,
    shutdown: GracefulShutdown,
    load_shedding: LoadShedding,
    client_limits: ClientLimits,
    stack: AsyncExitStack,
) -> list[BaseRoute]:
    graphiql = playground(file_origins(settings)) if settings.graphiql else None
    mutations = ShieldedMutations()
    app, unsent = services.app, client_limits.unsent
    load_shedding.backlog = lambda: app.delivery.queue_depths[2] + app.bus.pending_sends + app.receipts.pending_receipts
    meter = OperationMeter()
    max_websockets, max_streams = max_sockets(settings.ws_max_connections, settings.sse_max_streams)
    queue = OperationQueue(load_shedding, settings.max_running_per_user, settings.max_waiting_per_user)
    engine: GraphQLEngine = AdmissionControl(
        services.engine, load_shedding, queue, mutations, settings.operation_timeout_seconds, meter
    )
    engine = UnreadAnswersEngine(engine, unsent, meter)
    if settings.otel_endpoint is not None:
        engine = _traced(engine, app, settings, stack)
    queued_operations = QueuedOperations(settings.sse_max_waiting_operations_per_user, settings.sse_max_waiting_bytes)
    streams, stream_requests = await stack.enter_async_context(
        open_event_streams(
            settings, services, engine, mutations, max_streams, unsent, queued_operations, check=auth_guard.check
        )
    )
    http = GraphQLEndpoint(
        engine,
        auth_guard.authenticate,
        services.sign_in,
        stream_requests,
        mutations,
        max_body_bytes=settings.max_body_bytes,
        unsent=unsent,
        page=graphiql.page if graphiql is not None else None,
        rate_limit=RateLimitHeaders(services.app.work),
        check=auth_guard.check,
    )
    socket = WebSocketTransport(
        engine,
        websocket_authenticator(
            auth_guard.authenticate,
            services.sign_in,
            load_shedding,
            lambda caller: check_rate(services.app.store.rate_limits.connections, caller.user_id),
            engine.check_caller,
            app.devices.connect,
            auth_guard.check,
        ),
        TransportLimits(
            init_timeout_seconds=settings.ws_init_timeout_seconds,
            ping_interval_seconds=settings.ws_ping_interval_seconds,
            max_connections=max_websockets,
            max_connections_per_user=settings.ws_max_connections_per_user,
            max_subscriptions=settings.ws_max_subscriptions,
            max_queued_events=settings.ws_max_queued_events,
            max_message_bytes=settings.max_body_bytes,
            drain_seconds=settings.ws_drain_seconds,
            min_bytes_per_second=settings.min_client_bytes_per_second,
        ),
        unsent=unsent,
        authenticate_token=auth_guard.authenticate,
    )
    shutdown.add_drain(app.devices.begin_shutdown)
    shutdown.add_drain(socket.drain)
    shutdown.add_drain(streams.drain)
    limits = PostLimits(settings.max_body_bytes, settings.operation_timeout_seconds)
    webhooks = WebhookEndpoint(app, queue, mutations, meter, limits)
    files = file_endpoints(app, services.pictures, Downloads(settings.max_downloads), load_shedding, stack)
    if settings.metrics_port is not None:
        # Imported only if metrics are on.
        from server.files.metrics import FileMetrics
        from server.observability.limit_metrics import LimitSources
        from server.observability.metrics import Metrics, MetricSources
        from server.observability.metrics_server import serve_metrics

        metrics = Metrics(
            MetricSources(
                app,
                meter,
                load_shedding,
                lambda: socket.connection_count,
                lambda: streams.count,
                lambda: services.migrator.rows,
                LimitSources(
                    app,
                    queue,
                    services.event_slots,
                    queued_operations,
                    unsent,
                    client_limits.count_dropped,
                    socket.closes,
                    lambda: auth_guard.refused,
                ),
                FileMetrics(app, files, services.housekeeper.files, services.fetched_links),
                services.housekeeper.indexing,
                services.push_worker,
                services.webhooks,
            )
        )
        address = (settings.metrics_host, settings.metrics_port, settings.metrics_port_count)
        token = settings.metrics_token.get_secret_value() if settings.metrics_token is not None else None
        await stack.enter_async_context(serve_metrics(metrics, *address, token))
    auth_guard.close_with(socket.close_where)
    auth_guard.close_with(lambda is_invalid, _close: streams.end_where(is_invalid))
    auth_guard.wait_with(queue.wait_for)
    await auth_guard.start()
    stack.push_async_callback(auth_guard.stop)

    async def settle() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MUTATION_GRACE_SECONDS):
                await asyncio.gather(socket.wait_for_mutations(), http.drain())

    async def check() -> Mapping[str, str | None]:
        return {"server": "stopping"} if shutdown.has_begun else await services.check()

    stack.push_async_callback(settle)
    # Tokens of `confab dev` are signed with a public secret. Host names of foreign pages must not reach them.
    hosts = (*settings.allowed_hosts, settings.host) if settings.allowed_hosts or settings.development else None
    guarded_http = OriginGuard(http, settings.cors_origins, hosts)
    guarded_socket = OriginGuard(socket.asgi, settings.cors_origins, hosts)
    application.route_directly(guarded_http, guarded_socket, load_shedding)
    livekit = services.livekit
    routes = [
        Route(GRAPHQL_PATH, LoadSheddingMiddleware(guarded_http, load_shedding)),
        WebSocketRoute(GRAPHQL_PATH, guarded_socket),
        *files.routes,
        webhook_route(webhooks, load_shedding),
        *(graphiql.routes() if graphiql is not None else ()),
        *(demo_routes(file_origins(settings)) if settings.demo else ()),
        *(_own_pages_only(sign_in_routes(settings), hosts) if issues_tokens(settings) else ()),
        *([livekit_webhook_route(livekit.tokens, livekit.note_room)] if livekit is not None else ()),
        *health_routes(check),
    ]
    for route in routes:
        match_whole_path(route)
    return routes


def _client_limits(settings: Settings, unsent: UnsentAnswers) -> ClientLimits:
    return ClientLimits(
        head_seconds=settings.head_timeout_seconds,
        body_seconds=settings.body_timeout_seconds,
        answer_seconds=settings.answer_timeout_seconds,
        min_bytes_per_second=settings.min_client_bytes_per_second,
        unsent=unsent,
        descriptors=DescriptorGuard.of_process(),
    )


def _own_pages_only(routes: list[Route], hosts: tuple[str, ...] | None) -> list[Route]:
    """Restrict routes to pages of this server, also if other pages may call the API."""
    return [Route(route.path, OriginGuard(route.app, (), hosts), methods=list(route.methods or ())) for route in routes]


async def _stop_when(event: asyncio.Event) -> None:
    await event.wait()
    # Shuts down gracefully, as for an orchestrator.
    signal.raise_signal(signal.SIGTERM)


def _traced(engine: GraphQLEngine, app: Confab, settings: Settings, stack: AsyncExitStack) -> GraphQLEngine:
    # OpenTelemetry may not be installed.
    from server.observability.tracing import TracedEngine, create_tracer_provider, trace_stores

    provider = create_tracer_provider(settings)
    assert provider is not None
    stack.push_async_callback(asyncio.to_thread, provider.shutdown)
    tracer = provider.get_tracer("confab")
    trace_stores(app, tracer)
    return TracedEngine(engine, tracer)


def _middleware(settings: Settings) -> list[Middleware]:
    middleware = [Middleware(RequestLogMiddleware)]
    if settings.cors_origins:
        middleware.append(
            Middleware(
                ApiCors,
                allow_origins=settings.cors_origins,
                allow_methods=["GET", "POST", "PUT", "DELETE"],
                allow_headers=["authorization", "content-type", ACT_AS_HEADER, REQUEST_ID_HEADER, TOKEN_HEADER],
                expose_headers=[REQUEST_ID_HEADER, "retry-after", *RATE_LIMIT_HEADERS],
            )
        )
    return middleware

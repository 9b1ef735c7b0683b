"""Traces with OpenTelemetry: spans of operations, commits, round trips to Redis and commands to MongoDB.

Spans contain names and sizes. They never contain message text, variables, tokens, or ids of users and conversations.
If tracing is off, this module is not imported and costs nothing: traced methods are wrapped at startup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from resolvers.base.app import Confab
from server.overload.operation_meter import OK, code_of, code_of_errors
from server.settings import Settings
from subscriptions.transport.engine import (
    ConnectionContext,
    GraphQLEngine,
    GraphQLRequest,
    Json,
    LiveResponses,
    OperationHandle,
    RequestRefused,
)

_MAX_SCRIPT_NAMES = 5


class TracedEngine:
    """A GraphQLEngine in front of another one. Creates a span for each operation."""

    def __init__(self, engine: GraphQLEngine, tracer: Tracer) -> None:
        self._engine = engine
        self._tracer = tracer

    def check_caller(self, caller: object | None) -> None:
        """See GraphQLEngine."""
        self._engine.check_caller(caller)

    async def prepare(self, request: GraphQLRequest, caller: object | None) -> OperationHandle:
        """See GraphQLEngine."""
        return await self._engine.prepare(request, caller)

    async def execute(self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """See GraphQLEngine."""
        with self._span(prepared) as end:
            response = await self._engine.execute(prepared, request, context)
            end(code_of(response))
            return response

    async def subscribe(
        self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext
    ) -> LiveResponses:
        """See GraphQLEngine."""
        with self._span(prepared) as end:
            stream = await self._engine.subscribe(prepared, request, context)
            end(OK)
            return stream

    @contextmanager
    def _span(self, prepared: OperationHandle) -> Iterator[Callable[[str], None]]:
        attributes = {"graphql.operation.type": prepared.kind, "confab.field": prepared.root}
        name = f"{prepared.kind} {prepared.root}"
        # Only the error code is recorded: the text of an exception may contain user content.
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.SERVER, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:

            def end(code: str) -> None:
                span.set_attribute("confab.code", code)
                if code in ("INTERNAL", "UNAVAILABLE"):
                    span.set_status(Status(StatusCode.ERROR))

            try:
                yield end
            except RequestRefused as refusal:
                end(code_of_errors(refusal.errors))
                raise
            except asyncio.CancelledError:
                end("LEFT")
                raise
            except Exception:
                end("INTERNAL")
                raise


def create_tracer_provider(settings: Settings) -> TracerProvider | None:
    """Return a provider that sends spans to the collector of the settings, or None. Shut it down at the end."""
    if settings.otel_endpoint is None:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = OTLPSpanExporter(endpoint=f"{settings.otel_endpoint.rstrip('/')}/v1/traces")
    return provider_for(exporter, settings.otel_sample_ratio)


def provider_for(exporter: SpanExporter, sample_ratio: float) -> TracerProvider:
    """Return a provider that exports a ratio of all traces in a background thread."""
    resource = Resource.create({"service.name": "confab"})
    provider = TracerProvider(resource=resource, sampler=ParentBased(TraceIdRatioBased(sample_ratio)))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def trace_stores(app: Confab, tracer: Tracer) -> None:
    """Create spans for commits, round trips to Redis and commands to MongoDB from now on."""
    store = app.store
    _wrap(store.commits, "commit", tracer, "commit", lambda batch, *_: {"confab.messages": len(batch)})
    _wrap(store.cache, "attempt", tracer, "redis", _describe_calls, kind=SpanKind.CLIENT)
    for method in (
        "find",
        "aggregate",
        "insert_many",
        "insert_one",
        "bulk_write",
        "update_one",
        "find_one_and_update",
    ):
        _wrap(store.mongo, method, tracer, f"mongodb {method}", _describe_collection, kind=SpanKind.CLIENT)
    _wrap(store.mongo, "write", tracer, "mongodb write", _describe_writes, kind=SpanKind.CLIENT)


def _describe_calls(calls: Any, *_: Any) -> dict[str, Any]:
    names = list(dict.fromkeys(call.name for call in calls))[:_MAX_SCRIPT_NAMES]
    return {"db.system": "redis", "confab.calls": len(calls), "confab.scripts": names}


def _describe_collection(collection: str, *_: Any) -> dict[str, Any]:
    return {"db.system": "mongodb", "db.collection.name": collection}


def _describe_writes(writes: Any, *_: Any) -> dict[str, Any]:
    names = ",".join(dict.fromkeys(write.collection for write in writes))
    return {"db.system": "mongodb", "db.collection.name": names}


def _wrap(
    owner: Any,
    method: str,
    tracer: Tracer,
    name: str,
    describe: Callable[..., dict[str, Any]],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
) -> None:
    """Replace a method of one object by a version with a span."""
    original: Callable[..., Awaitable[Any]] = getattr(owner, method)

    async def traced(*args: Any, **kwargs: Any) -> Any:
        with tracer.start_as_current_span(
            name, kind=kind, attributes=describe(*args), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                return await original(*args, **kwargs)
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    setattr(owner, method, traced)

"""Traces: their spans, and data that must not be in them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bench.api_client import InsideAsker
from server.observability.tracing import TracedEngine, create_tracer_provider, trace_stores
from server.services import open_services
from server.settings import Settings, SettingsError, load_settings
from subscriptions.transport.engine import RequestRefused

SECRET_TEXT = "nobody but bob may read this"
SEND = """mutation Sending($to: ID!, $text: String!) {
    sendMessage(input: {toUserId: $to, content: $text, idempotencyKey: $text}) { message { seq } } }"""


async def test_trace_reaches_the_databases_without_private_data(settings: Settings) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    async with open_services(settings) as services:
        assert "attempt" not in vars(services.app.store.cache)
        bob = InsideAsker(services, "bob-the-builder")
        await bob.ask("{ me { id } }")
        trace_stores(services.app, tracer)
        alice = InsideAsker(services, "alice-in-chains")
        alice._engine = TracedEngine(services.engine, tracer)
        await alice.ask(SEND, to="bob-the-builder", text=SECRET_TEXT)
        with pytest.raises(RuntimeError):
            await alice.ask(SEND, to="nobody-" + "x" * 70, text=SECRET_TEXT)
        with pytest.raises(RequestRefused):
            await alice.ask('{ user(id: "bob-the-builder") { nonsense } }')
    spans = exporter.get_finished_spans()
    roots = [span for span in spans if span.parent is None and span.name == "mutation sendMessage"]
    assert [span.attributes["confab.code"] for span in roots if span.attributes] == ["OK", "NOT_FOUND"]
    sent = names_below(roots[0], spans)
    assert "redis" in sent
    # A group commit belongs to several operations.
    assert {"commit", "mongodb write"} <= {span.name for span in spans}
    told = json.dumps([json.loads(span.to_json()) for span in spans])
    for private in (SECRET_TEXT, "builder", "chains", "Sending", "p_alice"):
        assert private not in told
    provider.shutdown()


def names_below(root: ReadableSpan, spans: tuple[ReadableSpan, ...]) -> set[str]:
    assert root.context is not None
    return {span.name for span in spans if span.parent is not None and span.parent.span_id == root.context.span_id}


def test_tracing_is_off_without_a_collector(settings_with: Callable[..., Settings]) -> None:
    assert create_tracer_provider(settings_with()) is None
    provider = create_tracer_provider(settings_with(otel_endpoint="http://127.0.0.1:1", otel_sample_ratio=0))
    assert provider is not None
    provider.shutdown()


def test_collector_without_opentelemetry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"confab\[otel\]"):
        load_settings(otel_endpoint="http://127.0.0.1:4318")

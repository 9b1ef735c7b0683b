"""Metrics of limits: an operator sees what waits, what is refused, and why."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schema.execution.engine import Engine
from server.embedded import ports
from server.http.client_limits import CLIENT_LIMITS_STATE
from server.overload import operation_queue
from store.deployment.worker_numbers import VALID_MS
from tests.protocol.serving import until
from tests.server.served_app import SEND, ServeApp
from tests.server.test_metrics import Samples, measured, scrape

ME = "{ me { id } }"


def expect_that_nothing_waits(samples: Samples) -> None:
    found = {(name, *(value for _, value in labels)): value for (name, labels), value in samples.items()}
    for name, *labels in (
        ("confab_waiting", "operations", "events", "catch_ups", "stream_operations"),
        ("confab_executions", "events", "catch_ups"),
        ("confab_waiting_bytes", "unread_answers", "stream_operations"),
        ("confab_connections_dropped_total", "head", "body", "answer", "unread_answers", "descriptors"),
        ("confab_limited_total", "work_budget", "operations", "events", "catch_ups", "stream_operations"),
        ("confab_limited_total", "unread_answers"),
    ):
        assert [found[name, label] for label in labels] == [0] * len(labels)
    assert found["confab_users_under_way",] == found["confab_tokens_refused_total",] == 0
    assert 0 < found["confab_worker_lease_remaining_seconds",] <= VALID_MS / 1000


async def test_waiting_and_refused_operations_are_shown(serve_app: ServeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun, execute = asyncio.Event(), list[str](), Engine.execute

    async def held(self: Engine, prepared: Any, *about: Any) -> Any:
        if prepared.kind == "mutation":
            begun.append(prepared.root)
            await gate.wait()
        return await execute(self, prepared, *about)

    monkeypatch.setattr(Engine, "execute", held)
    monkeypatch.setattr(operation_queue, "FREE_OPERATIONS", 1)
    async with measured(serve_app, max_running_per_user=1, max_waiting_per_user=1) as (app, grown):
        await app.data(ME, "bob")
        sends = [asyncio.create_task(app.ask(SEND, "alice")) for _ in range(3)]
        await until(lambda: any(send.done() for send in sends))
        assert await grown("confab_waiting", of="operations") == 1
        assert await grown("confab_users_under_way") == 1
        assert await grown("confab_limited_total", limit="operations") == 1
        assert await grown("confab_operations_total", field="sendMessage", kind="mutation", code="RATE_LIMITED") == 1
        assert begun == ["sendMessage"]
        gate.set()
        for send in sends:
            await send
        assert await grown("confab_waiting", of="operations") == 0


async def test_refusals_are_counted_by_limit(serve_app: ServeApp) -> None:
    port = ports.pick_free()
    async with serve_app(metrics_port=port, work_per_second=1, work_budget=250) as app:
        expect_that_nothing_waits(await scrape(port))
        app.served.server.lifespan.state[CLIENT_LIMITS_STATE].dropped["body"] += 1
        answers = [await app.ask(ME, "bob") for _ in range(3)]
        assert ["RATE_LIMITED" in answer.text for answer in answers] == [False, False, True]
        refused = await app.http.post("/graphql", json={"query": ME}, headers={"authorization": "Bearer x"})
        assert "UNAUTHENTICATED" in refused.text
        socket = await app.signed_in("alice")
        await socket.send("no frame")
        assert (await socket.closed())[0] == 4400
        samples = await scrape(port)
        for name, labels in (
            ("confab_limited_total", {"limit": "work_budget"}),
            ("confab_tokens_refused_total", {}),
            ("confab_connections_dropped_total", {"reason": "body"}),
            ("confab_websocket_closes_total", {"code": "4400"}),
        ):
            assert samples[name, frozenset(labels.items())] == 1

"""Overload: what the process refuses, how, and what continues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from schema.execution.engine import Engine
from server.overload.load_shedding import (
    IDLE_TICK_SECONDS,
    LOAD_SHEDDING_STATE,
    LONG_SECONDS,
    LONGEST_STEP_SECONDS,
    MAX_BACKLOG,
    TICK_SECONDS,
    WINDOW_SECONDS,
    LoadShedding,
)
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, Json
from tests.protocol.serving import PATIENCE, until
from tests.server.served_app import LIVE, SEND, App, ServeApp, without_deadlines
from tests.server.tokens import bearer

HISTORY = '{ messages(conversationId: "p_alice_bob") { edges { node { seq } } } }'
FULL = {"code": "UNAVAILABLE", "retryable": True}


class Time:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_late(self, shedding: LoadShedding, late: float, seconds: float) -> None:
        """Pass some seconds in which every tick is late."""
        until = self.now + seconds
        while self.now < until:
            self.now += TICK_SECONDS + late
            shedding.measure(self.now)


def test_late_loop_reduces_the_limit_down_to_the_minimum() -> None:
    clock = Time()
    shedding = LoadShedding(100, 20, clock)
    taken = sum(shedding.enter() for _ in range(150))
    assert taken == shedding.running == 100
    clock.pass_late(shedding, 0.06, 0.2)
    assert 20 < shedding.limit < 100
    assert not shedding.enter()
    clock.pass_late(shedding, 0.06, 10)
    assert shedding.limit == 20
    while shedding.running:
        shedding.leave()
    clock.pass_late(shedding, 0.0, 10)
    assert shedding.limit == 100


def test_slow_operations_reduce_the_limit_only_if_many_run() -> None:
    clock = Time()
    shedding = LoadShedding(100, 20, clock)
    for _ in range(20):
        assert shedding.enter()
    clock.pass_late(shedding, 0.0, 5)
    assert shedding.limit == 100
    for _ in range(80):
        assert shedding.enter()
    clock.pass_late(shedding, 0.0, LONG_SECONDS + 0.2)
    assert shedding.limit < 100
    clock.pass_late(shedding, 0.0, 5)
    assert shedding.limit == 20
    while shedding.running:
        shedding.leave()
    clock.pass_late(shedding, 0.0, 10)
    assert shedding.limit == 100


def test_burst_on_an_idle_process_does_not_reduce_the_limit() -> None:
    clock = Time()
    shedding = LoadShedding(100, 20, clock)
    clock.pass_late(shedding, 0.0, 5)
    for _ in range(80):
        assert shedding.enter()
    clock.pass_late(shedding, 0.0, 0.3)
    for _ in range(80):
        shedding.leave()
        assert shedding.enter()
    clock.pass_late(shedding, 0.0, 0.3)
    assert shedding.limit == 100


def test_one_long_step_is_not_an_overload() -> None:
    clock = Time()
    shedding = LoadShedding(100, 20, clock)
    for _ in range(5):
        clock.pass_late(shedding, 0.5, TICK_SECONDS)
        clock.pass_late(shedding, 0.0, WINDOW_SECONDS)
    assert shedding.limit == 100
    assert not shedding.refuse_connection()


def test_very_late_loop_and_long_steps_refuse_connections() -> None:
    clock = Time()
    shedding = LoadShedding(100, 20, clock)
    clock.pass_late(shedding, 0.1, 1)
    assert not shedding.refuse_connection()
    clock.pass_late(shedding, 0.3, 1)
    assert shedding.refuse_connection()
    clock.pass_late(shedding, 0.0, 1)
    assert not shedding.refuse_connection()
    clock.now += LONGEST_STEP_SECONDS + TICK_SECONDS + 0.01
    assert shedding.refuse_connection()
    assert shedding.refused.connections == 2


def test_large_backlog_refuses_new_operations() -> None:
    clock, left = Time(), 0
    shedding = LoadShedding(100, 20, clock)
    shedding.backlog = lambda: left
    left = MAX_BACKLOG + 1
    clock.pass_late(shedding, 0.0, TICK_SECONDS)
    assert shedding.is_full and not shedding.enter()
    left = 0
    clock.pass_late(shedding, 0.0, TICK_SECONDS)
    assert shedding.enter()


async def test_a_process_without_work_measures_rarely_until_an_operation_or_a_connection() -> None:
    shedding, measured = LoadShedding(100, 20), list[float]()
    shedding.on_tick = measured.append
    shedding.open()
    try:
        for end_rest in (shedding.enter, shedding.refuse_connection):
            await until(lambda: shedding._is_idle)
            before, began = len(measured), time.monotonic()
            await asyncio.sleep(0.2)
            # One may have been due already. The sleep takes longer if this process pauses.
            assert len(measured) - before <= 1 + (time.monotonic() - began) / IDLE_TICK_SECONDS
            end_rest()
            before = len(measured)
            await until(lambda before=before: len(measured) - before > 3)
            if shedding.running:
                assert not shedding._is_idle
                shedding.leave()
    finally:
        shedding.close()


class Gate:
    """Blocks mutations after they have begun."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.opened = asyncio.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    held, execute = Gate(), Engine.execute

    async def waiting(self: Engine, prepared: Any, request: GraphQLRequest, context: ConnectionContext) -> Json:
        if prepared.kind == "mutation":
            held.begun.set()
            await held.opened.wait()
        return await execute(self, prepared, request, context)

    monkeypatch.setattr(Engine, "execute", waiting)
    return held


async def seqs(app: App) -> list[int]:
    history = (await app.data(HISTORY, "alice"))["messages"]
    return [edge["node"]["seq"] for edge in history["edges"]]


def shedding_of(app: App) -> LoadShedding:
    shedding = app.served.server.lifespan.state[LOAD_SHEDDING_STATE]
    assert isinstance(shedding, LoadShedding)
    return shedding


@pytest.mark.parametrize("origin", [{}, {"origin": "https://chat.example.org"}])
async def test_full_process_answers_503_with_retry_after(
    serve_app: ServeApp, gate: Gate, origin: dict[str, str]
) -> None:
    async with serve_app(max_operations=1, cors_origins=("https://chat.example.org",)) as app:
        await app.data("{ me { id } }", "bob")
        first = asyncio.create_task(app.data(SEND, "alice"))
        await asyncio.wait_for(gate.begun.wait(), PATIENCE)
        head = await app.http.head("/graphql", headers=origin)
        assert (head.status_code, head.content) == (503, b"")
        for accept in ("application/json", "application/graphql-response+json", "text/event-stream"):
            headers = {"authorization": bearer(sub="alice"), "accept": accept, "x-request-id": "mine"} | origin
            refused = await app.http.post("/graphql", json={"query": SEND}, headers=headers)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.json()["errors"][0]["extensions"] == FULL
            assert refused.headers["x-request-id"] == "mine"
            assert refused.headers.get("access-control-allow-origin") == origin.get("origin")
        assert (await app.http.get("/healthz")).status_code == 200
        assert (await app.http.get("/readyz")).status_code == 200
        assert shedding_of(app).refused.operations == 4
        gate.opened.set()
        await first
        assert await seqs(app) == [1]


@pytest.mark.parametrize("accept", ["application/json", "application/graphql-response+json", "text/event-stream"])
async def test_request_received_before_the_overload_is_refused_alike(
    serve_app: ServeApp, gate: Gate, accept: str
) -> None:
    async with serve_app(max_operations=1) as app:
        await app.data("{ me { id } }", "bob")
        is_full = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b'{"query": '
            await is_full.wait()
            yield b'"{ me { id } }"}'

        headers = {"authorization": bearer(sub="bob"), "accept": accept, "content-type": "application/json"}
        early = asyncio.create_task(app.http.post("/graphql", content=body(), headers=headers))
        await until(lambda: len(app.served.server.server_state.tasks) == 1)
        first = asyncio.create_task(app.data(SEND, "alice"))
        await asyncio.wait_for(gate.begun.wait(), PATIENCE)
        is_full.set()
        refused = await early
        assert (refused.status_code, refused.headers.get("retry-after")) == (503, "1")
        assert refused.json()["errors"][0]["extensions"] == FULL
        gate.opened.set()
        await first


async def test_connection_is_usable_after_a_refused_long_body(serve_app: ServeApp, gate: Gate) -> None:
    async with serve_app(max_operations=1) as app:
        await app.data("{ me { id } }", "bob")
        first = asyncio.create_task(app.data(SEND, "alice"))
        await asyncio.wait_for(gate.begun.wait(), PATIENCE)
        one = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=app.http.base_url, limits=one, timeout=PATIENCE) as client:
            for _ in range(3):
                assert (await client.post("/graphql", content=b"x" * 500_000)).status_code == 503
            gate.opened.set()
            await first
            authorization = {"authorization": bearer(sub="alice")}
            answer = await client.post("/graphql", json={"query": "{ me { id } }"}, headers=authorization)
            assert answer.json() == {"data": {"me": {"id": "alice"}}}


async def test_connection_stays_open_after_a_refused_request(serve_app: ServeApp, gate: Gate) -> None:
    async with serve_app(max_operations=1, head_timeout_seconds=0.5, body_timeout_seconds=0.5) as app:
        await app.data("{ me { id } }", "bob")
        first = asyncio.create_task(app.data(SEND, "alice"))
        await asyncio.wait_for(gate.begun.wait(), PATIENCE)
        reader, writer = await asyncio.open_connection("127.0.0.1", app.served.port)
        writer.write(b"POST /graphql HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\n{}")
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).decode()
        assert " 503 " in head
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.7)
        writer.close()
        gate.opened.set()
        await first


async def test_full_process_refuses_operations_but_keeps_websockets(serve_app: ServeApp, gate: Gate) -> None:
    async with serve_app(max_operations=1) as app:
        await app.data("{ me { id } }", "bob")
        alice = await app.signed_in("alice")
        await alice.subscribe("first", SEND)
        await asyncio.wait_for(gate.begun.wait(), PATIENCE)
        for id, query in (("second", SEND), ("third", LIVE), ("fourth", "{ me { id } }")):
            await alice.subscribe(id, query)
            refused = await alice.receive()
            assert (refused["id"], refused["type"], refused["payload"][0]["extensions"]) == (id, "error", FULL)
        assert await alice.is_alive()
        newcomer = await app.socket()
        await newcomer.send({"type": "connection_init", "payload": {"Authorization": bearer(sub="bob")}})
        assert await newcomer.closed() == (1013, "Try again later: overloaded")
        gate.opened.set()
        assert (await alice.receive())["id"] == "first"
        assert (await alice.receive())["type"] == "complete"
        await alice.subscribe("fifth", LIVE)
        assert (await alice.receive())["type"] == "next"
        assert await seqs(app) == [1]


async def test_overloaded_process_refuses_handshakes_with_503(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        shedding_of(app).refuse_connection = lambda: True  # type: ignore[method-assign]
        headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        answer = await app.http.get("/graphql", headers=headers | {"sec-websocket-key": "Y2hlYXAgc3Vic2NyaWJlcg=="})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_mutation_after_its_deadline_is_unavailable_but_completes(
    serve_app: ServeApp, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_app(operation_timeout_seconds=0.05) as app:
        with without_deadlines(monkeypatch):
            await app.data("{ me { id } }", "bob")
        answer = (await app.ask(SEND, "alice")).json()
        assert answer["errors"][0]["extensions"] == FULL
        alice = await app.signed_in("alice")
        await alice.subscribe("late", SEND)
        assert (await alice.receive())["payload"]["errors"][0]["extensions"] == FULL
        shedding = shedding_of(app)
        assert shedding.running == 2
        gate.opened.set()
        await until(lambda: not shedding.running)
        with without_deadlines(monkeypatch):
            assert await seqs(app) == [1, 2]


async def test_query_after_its_deadline_is_cancelled(serve_app: ServeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def for_ever(*_: Any) -> Json:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return {}

    async with serve_app(operation_timeout_seconds=0.05) as app:
        monkeypatch.setattr(Engine, "execute", for_ever)
        answer = (await app.ask("{ me { id } }", "alice")).json()
        assert (answer["data"], answer["errors"][0]["extensions"]) == (None, FULL)
        assert ended == ["ended"]
        assert shedding_of(app).running == 0

"""Operations over the socket: their frames, their order, and their ends."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict

import pytest

from subscriptions.transport.client_operation import ClientOperation
from subscriptions.transport.connection_limits import ConnectionLimits
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest
from subscriptions.transport.host import Host
from subscriptions.transport.websocket import TransportLimits
from tests.protocol.serving import PATIENCE


def ticks(n):
    return {"data": {"tick": n}}


class OperationScript:
    """The steps of an operation on the server, and the gate at which it waits."""

    def __init__(self):
        self.steps = []
        self.reached = defaultdict(asyncio.Event)
        self.gate = asyncio.Event()

    def reach(self, step):
        self.steps.append(step)
        self.reached[step].set()

    async def until(self, step):
        async with asyncio.timeout(PATIENCE):
            await self.reached[step].wait()

    async def execute(self, request, context):
        self.reach("started")
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.reach("cancelled")
            raise
        self.reach("done")
        return {"data": {"answer": 42}}

    async def stream(self, request, context):
        self.reach("started")
        try:
            yield ticks(0)
            await self.gate.wait()
            yield ticks(1)
        finally:
            self.reach("closed")


@pytest.fixture
def script(engine):
    script = OperationScript()
    engine.executions["query wait"] = script.execute
    engine.executions["mutation wait"] = script.execute
    engine.streams["subscription wait"] = script.stream
    return script


@pytest.fixture
def count_to(engine):
    async def count(request, context):
        for n in range(request.variables["n"]):
            yield ticks(n)

    engine.streams["subscription count"] = count


@pytest.mark.parametrize("kind", ["query", "mutation"])
async def test_a_query_or_mutation_is_one_next_and_a_complete(server, engine, kind):
    async def echo(request, context):
        return {"data": {"variables": request.variables, "name": request.operation_name}}

    engine.executions[f"{kind} echo"] = echo
    peer = await server.connect()
    await peer.subscribe("q", f"{kind} echo", variables={"a": [1, None]}, operationName="Echo")
    data = {"variables": {"a": [1, None]}, "name": "Echo"}
    assert await peer.receive() == {"id": "q", "type": "next", "payload": {"data": data}}
    assert await peer.receive() == {"id": "q", "type": "complete"}
    assert await peer.is_alive()


async def test_a_response_with_errors_is_a_next_frame(server, engine):
    response = {"data": {"user": None}, "errors": [{"message": "No", "path": ["user"]}]}

    async def fail(request, context):
        return response

    engine.executions["query fail"] = fail
    peer = await server.connect()
    await peer.subscribe("q", "query fail")
    assert await peer.receive() == {"id": "q", "type": "next", "payload": response}
    assert (await peer.receive())["type"] == "complete"


async def test_a_subscription_is_its_events_in_order_and_a_complete(server, count_to):
    peer = await server.connect()
    await peer.subscribe("s", "subscription count", variables={"n": 200})
    for n in range(200):
        assert await peer.receive() == {"id": "s", "type": "next", "payload": ticks(n)}
    assert await peer.receive() == {"id": "s", "type": "complete"}


async def test_operations_run_concurrently(server, script):
    peer = await server.connect()
    await peer.subscribe("slow", "query wait")
    await peer.subscribe("stream", "subscription wait")
    await peer.subscribe("fast", "query hello")
    seen = [(frame["id"], frame["type"]) for frame in [await peer.receive() for _ in range(3)]]
    assert sorted(seen) == [("fast", "complete"), ("fast", "next"), ("stream", "next")]
    script.gate.set()
    seen = [(frame["id"], frame["type"]) for frame in [await peer.receive() for _ in range(4)]]
    assert [kind for id, kind in seen if id == "slow"] == ["next", "complete"]
    assert [kind for id, kind in seen if id == "stream"] == ["next", "complete"]


async def test_a_busy_stream_does_not_starve_others(server, engine):
    sent = 0
    sent_before_the_query = None

    async def replay(request, context):
        nonlocal sent
        for sent in range(1_000):
            yield ticks(sent)

    async def query(request, context):
        nonlocal sent_before_the_query
        sent_before_the_query = sent
        return {"data": {}}

    engine.streams["subscription replay"] = replay
    engine.executions["query between"] = query
    peer = await server.connect()
    await peer.subscribe("s", "subscription replay")
    await peer.subscribe("q", "query between")
    while (await peer.receive())["id"] != "q":
        pass
    assert sent_before_the_query < 200


async def test_operations_begin_before_later_frames_of_the_same_burst_are_read(server, engine):
    began = []

    async def query(request, context):
        began.append(len(prepared))
        return {"data": {}}

    prepared = []
    prepare = engine.prepare

    def counting(request, caller):
        prepared.append(request)
        return prepare(request, caller)

    engine.prepare = counting
    engine.executions["query burst"] = query
    peer = await server.connect()
    for n in range(50):
        await peer.subscribe(str(n), "query burst")
    for _ in range(100):
        await peer.receive()
    assert began[0] < 10


class Handmade:
    """An event source that is no generator: cancelling one of its steps does not close it."""

    def __init__(self, failing=False):
        self.failing = failing
        self.closed = asyncio.Event()

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.failing:
            raise ZeroDivisionError
        await asyncio.sleep(0.01)
        return ticks(0)

    async def aclose(self):
        self.closed.set()


@pytest.mark.parametrize("end", ["complete", "close", "failure"])
async def test_events_are_closed_however_their_subscription_ends(server, engine, end):
    events = Handmade(failing=end == "failure")
    engine.streams["subscription handmade"] = lambda request, context: events
    peer = await server.connect()
    await peer.subscribe("s", "subscription handmade")
    await peer.receive()
    if end == "complete":
        await peer.complete("s")
    elif end == "close":
        await peer.socket.close()
    async with asyncio.timeout(PATIENCE):
        await events.closed.wait()


async def test_an_id_in_use_is_closed_4409(server, script):
    peer = await server.connect()
    await peer.subscribe("twice", "query wait")
    await peer.subscribe("twice", "query hello")
    assert await peer.closed() == (4409, "Subscriber for twice already exists")


async def test_the_reason_of_4409_is_cut_to_the_size_of_a_close_frame(server, script):
    peer = await server.connect()
    long = "\N{EURO SIGN}" * 200
    await peer.subscribe(long, "query wait")
    await peer.subscribe(long, "query hello")
    code, reason = await peer.closed()
    assert code == 4409
    assert f"Subscriber for {long}".startswith(reason)
    assert len(reason.encode()) > 115


async def test_an_id_is_free_again_once_the_server_has_ended_the_operation(server, count_to):
    peer = await server.connect()
    for _ in range(50):
        await peer.subscribe("again", "subscription count", variables={"n": 1})
        assert [(await peer.receive())["type"] for _ in range(2)] == ["next", "complete"]
        await peer.subscribe("again", "nonsense")
        assert (await peer.receive())["type"] == "error"


async def test_an_id_is_free_again_once_the_client_has_completed_the_operation(server, script):
    peer = await server.connect()
    await peer.subscribe("again", "subscription wait")
    assert (await peer.receive())["payload"] == ticks(0)
    await peer.complete("again")
    await peer.subscribe("again", "query hello")
    assert [(await peer.receive())["type"] for _ in range(2)] == ["next", "complete"]


async def test_a_completed_subscription_is_closed_and_sends_nothing_more(server, script):
    peer = await server.connect()
    await peer.subscribe("s", "subscription wait")
    await peer.receive()
    await peer.complete("s")
    await script.until("closed")
    script.gate.set()
    assert await peer.nothing_comes()
    assert await peer.is_alive()


async def test_a_completed_query_is_cancelled_and_sends_nothing_more(server, script):
    peer = await server.connect()
    await peer.subscribe("q", "query wait")
    await script.until("started")
    await peer.complete("q")
    await script.until("cancelled")
    assert await peer.nothing_comes()


async def test_a_completed_mutation_runs_to_its_end_and_sends_nothing_more(server, script):
    peer = await server.connect()
    await peer.subscribe("m", "mutation wait")
    await script.until("started")
    await peer.complete("m")
    assert await peer.is_alive()
    script.gate.set()
    await script.until("done")
    assert await peer.nothing_comes()
    assert script.steps == ["started", "done"]


class Pages:
    """A writer that keeps what is still wanted when it is written."""

    def __init__(self):
        self.frames = []

    async def write(self, frame, is_wanted, *, then=None):
        if is_wanted():
            self.frames += [frame, then]


async def test_a_mutation_completed_before_it_began_is_still_carried_out(engine, script):
    script.gate.set()
    host = Host(engine, None, TransportLimits(), time.time, str, ConnectionLimits(1, 1), set())
    request = GraphQLRequest("mutation wait")
    pages = Pages()
    # Over a socket the operation has its first step before the next frame is read.
    prepared = await engine.prepare(request, None)
    operation = ClientOperation("m", prepared, request, ConnectionContext(None, "r"), host, pages, print)
    task = operation.task
    operation.abandon()
    await task
    assert script.steps == ["started", "done"]
    assert pages.frames == []


@pytest.mark.parametrize("code", [1000, 1001, None], ids=["normal", "going away", "dropped"])
async def test_on_close_queries_and_streams_end_and_mutations_go_on(server, engine, code):
    scripts = {kind: OperationScript() for kind in ("query", "mutation", "subscription")}
    engine.executions["query wait"] = scripts["query"].execute
    engine.executions["mutation wait"] = scripts["mutation"].execute
    engine.streams["subscription wait"] = scripts["subscription"].stream
    peer = await server.connect()
    for kind, script in scripts.items():
        await peer.subscribe(kind, f"{kind} wait")
        await script.until("started")
    if code is None:
        peer.socket.transport.abort()
    else:
        await peer.socket.close(code)
    await server.idle()
    assert scripts["query"].steps == ["started", "cancelled"]
    assert scripts["subscription"].steps == ["started", "closed"]
    assert scripts["mutation"].steps == ["started"]
    scripts["mutation"].gate.set()
    await scripts["mutation"].until("done")


async def test_past_the_limit_an_operation_is_rate_limited_and_the_connection_stays(start, script):
    server = await start(TransportLimits(max_subscriptions=2))
    peer = await server.connect()
    await peer.subscribe("1", "query wait")
    await peer.subscribe("2", "query wait")
    await peer.subscribe("3", "query hello")
    frame = await peer.receive()
    assert (frame["id"], frame["type"]) == ("3", "error")
    assert frame["payload"][0]["extensions"] == {"code": "RATE_LIMITED", "retryable": True, "retryAfterMs": 1000}
    await peer.complete("2")
    await script.until("cancelled")
    await peer.subscribe("3", "query hello")
    assert [(await peer.receive())["type"] for _ in range(2)] == ["next", "complete"]


async def test_mutations_that_the_client_abandoned_count_towards_the_limit(start, script):
    server = await start(TransportLimits(max_subscriptions=2))
    peer = await server.connect()
    for n in range(2):
        await peer.subscribe(str(n), "mutation wait")
        await peer.complete(str(n))
    await peer.subscribe("3", "query hello")
    assert (await peer.receive())["payload"][0]["extensions"]["code"] == "RATE_LIMITED"
    script.gate.set()
    await script.until("done")
    await peer.subscribe("3", "query hello")
    assert (await peer.receive())["type"] == "next"

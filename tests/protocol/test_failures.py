"""Operations that are refused, and operations that fail: the socket stays open."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from subscriptions.transport.close_codes import TOKEN_EXPIRED
from subscriptions.transport.engine import RequestRefused


def ticks(n):
    return {"data": {"tick": n}}


@pytest.mark.parametrize("payload", [{"query": "nonsense"}, {"query": "query hello", "operationName": "Unknown"}])
async def test_a_refused_operation_is_an_error_frame_and_the_socket_stays_open(server, payload):
    peer = await server.connect()
    await peer.subscribe("q", **payload)
    frame = await peer.receive()
    assert (frame["id"], frame["type"]) == ("q", "error")
    assert [set(error) for error in frame["payload"]] == [{"message"}]
    assert await peer.is_alive()


async def test_variables_refused_at_execution_are_an_error_frame(server, engine):
    errors = [{"message": "Variable $n", "extensions": {"code": "INVALID_INPUT"}}]

    async def refuse(request, context):
        raise RequestRefused(errors)

    async def refuse_stream(request, context):
        raise RequestRefused(errors)
        yield

    engine.executions["query refuse"] = refuse
    engine.streams["subscription refuse"] = refuse_stream
    peer = await server.connect()
    for query in ("query refuse", "subscription refuse"):
        await peer.subscribe("q", query)
        assert await peer.receive() == {"id": "q", "type": "error", "payload": errors}
    assert await peer.is_alive()


async def broken_execution(request, context):
    raise ZeroDivisionError("in execute")


async def broken_stream(request, context):
    yield ticks(0)
    raise ZeroDivisionError("in the stream")


async def unspeakable(request, context):
    return {"data": {"n": object()}}


@pytest.mark.parametrize(
    ("query", "nexts"),
    [
        ("query broken", 0),
        ("mutation broken", 0),
        ("subscription broken", 1),
        ("subscription not started", 0),
        ("query unspeakable", 0),
    ],
)
async def test_a_defect_is_an_internal_error_with_an_id_that_finds_it_in_the_log(server, engine, query, nexts):
    engine.executions["mutation broken"] = broken_execution
    engine.executions["query unspeakable"] = unspeakable
    engine.streams["subscription broken"] = broken_stream
    engine.streams["subscription not started"] = lambda request, context: 1 // 0
    peer = await server.connect()
    with capture_logs() as logs:
        await peer.subscribe("q", query)
        for _ in range(nexts):
            assert (await peer.receive())["type"] == "next"
        frame = await peer.receive()
    assert (frame["id"], frame["type"]) == ("q", "error")
    (error,) = frame["payload"]
    correlation_id = error["extensions"].pop("correlationId")
    assert error["extensions"] == {"code": "INTERNAL", "retryable": False}
    assert "division" not in error["message"]
    (entry,) = logs
    assert entry["event"] == "operation_failed"
    assert entry["correlation_id"] == correlation_id
    assert entry["exc_info"] is True
    assert await peer.is_alive()


async def test_a_closing_connection_is_not_renewed(start, engine):
    renewed = []

    async def execute(request, context):
        context.connection.close(TOKEN_EXPIRED)
        renewed.append(context.connection.renew(None, "somebody"))
        await asyncio.Future()

    engine.executions["query renew"] = execute
    server = await start()
    peer = await server.connect()
    await peer.subscribe("q", "query renew")
    assert (await peer.closed())[0] == 4403
    assert renewed == [False]

"""The frames that a client may send, and those that close the socket."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import orjson
import pytest

from subscriptions.transport.websocket import TransportLimits

SUBSCRIBE = '{"id":"1","type":"subscribe","payload":%s}'

INVALID = {
    "empty": "",
    "not JSON": "hello",
    "cut off": '{"type":"ping"',
    "array": "[]",
    "number": "1",
    "null": "null",
    "string": '"ping"',
    "no type": "{}",
    "empty type": '{"type":""}',
    "numeric type": '{"type":1}',
    "object as type": '{"type":{"type":"ping"}}',
    "unknown type": '{"type":"start","id":"1","payload":{"query":"query hello"}}',
    "the server's own next": '{"id":"1","type":"next","payload":{}}',
    "the server's own error": '{"id":"1","type":"error","payload":[{"message":""}]}',
    "the server's own ack": '{"type":"connection_ack"}',
    "ping, payload array": '{"type":"ping","payload":[]}',
    "ping, payload string": '{"type":"ping","payload":"x"}',
    "ping, payload false": '{"type":"ping","payload":false}',
    "pong, payload number": '{"type":"pong","payload":0}',
    "init, payload array": '{"type":"connection_init","payload":[]}',
    "init, payload string": '{"type":"connection_init","payload":"Bearer x"}',
    "subscribe, no id": '{"type":"subscribe","payload":{"query":"query hello"}}',
    "subscribe, id null": '{"id":null,"type":"subscribe","payload":{"query":"query hello"}}',
    "subscribe, id empty": '{"id":"","type":"subscribe","payload":{"query":"query hello"}}',
    "subscribe, id number": '{"id":1,"type":"subscribe","payload":{"query":"query hello"}}',
    "subscribe, id object": '{"id":{},"type":"subscribe","payload":{"query":"query hello"}}',
    "subscribe, no payload": '{"id":"1","type":"subscribe"}',
    "subscribe, payload null": SUBSCRIBE % "null",
    "subscribe, payload array": SUBSCRIBE % "[]",
    "subscribe, payload string": SUBSCRIBE % '"query hello"',
    "subscribe, no query": SUBSCRIBE % "{}",
    "subscribe, query null": SUBSCRIBE % '{"query":null}',
    "subscribe, query object": SUBSCRIBE % '{"query":{}}',
    "subscribe, variables array": SUBSCRIBE % '{"query":"query hello","variables":[]}',
    "subscribe, variables string": SUBSCRIBE % '{"query":"query hello","variables":"{}"}',
    "subscribe, operationName number": SUBSCRIBE % '{"query":"query hello","operationName":1}',
    "subscribe, extensions array": SUBSCRIBE % '{"query":"query hello","extensions":[]}',
    "complete, no id": '{"type":"complete"}',
    "complete, id empty": '{"id":"","type":"complete"}',
    "complete, id number": '{"id":1,"type":"complete"}',
    "complete, id array": '{"id":[],"type":"complete"}',
}


@pytest.mark.parametrize("frame", INVALID.values(), ids=INVALID.keys())
async def test_a_frame_outside_the_protocol_is_closed_4400(server, frame):
    peer = await server.connect()
    await peer.send(frame)
    code, reason = await peer.closed()
    assert code == 4400
    assert reason


@pytest.mark.parametrize("frame", ["[]", '{"type":"subscribe"}'], ids=["array", "bad subscribe"])
async def test_an_invalid_frame_before_the_init_is_closed_4400(server, frame):
    peer = await server.connect(init=False)
    await peer.send(frame)
    assert (await peer.closed())[0] == 4400


async def test_a_binary_frame_is_closed_4400(server):
    peer = await server.connect()
    await peer.send(b'{"type":"ping"}')
    assert (await peer.closed())[0] == 4400


@pytest.mark.parametrize("brackets", ["[]", ('{"a":', "}")], ids=["lists", "objects"])
async def test_json_nested_100_000_deep_is_closed_4400(start, brackets):
    server = await start()
    bystander = await server.connect()
    peer = await server.connect()
    opening, closing = brackets
    await peer.send('{"type":"ping","payload":{"a":' + opening * 100_000 + closing * 100_000 + "}}")
    assert (await peer.closed())[0] == 4400
    assert await bystander.is_alive()


async def test_a_ping_that_can_be_read_but_not_echoed_is_closed_4400(server):
    peer = await server.connect()
    await peer.send('{"type":"ping","payload":{"a":' + "[" * 900 + "]" * 900 + "}}")
    assert (await peer.closed())[0] == 4400


def ping_of(size, letter):
    frame = '{"type":"ping","payload":{"a":"%s"}}'
    free = size - len(frame % "")
    return frame % (letter * (free // len(letter.encode())))


@pytest.mark.parametrize("letter", ["a", "\N{EURO SIGN}", "\N{GRINNING FACE}"], ids=["1 byte", "3", "4"])
async def test_frames_are_measured_in_bytes_of_utf_8(start, letter):
    server = await start(TransportLimits(max_message_bytes=1_024))
    peer = await server.connect()
    await peer.send(ping_of(1_024, letter))
    assert (await peer.receive())["type"] == "pong"
    await peer.send(ping_of(1_024 + len(letter.encode()), letter))
    assert (await peer.closed())[0] == 1009


@pytest.mark.parametrize("payload", [{}, {"at": 1, "deep": [{"a": None}]}], ids=["empty", "nested"])
async def test_a_pong_echoes_the_payload_of_its_ping(server, payload):
    peer = await server.connect()
    await peer.send({"type": "ping", "payload": payload})
    assert await peer.receive() == {"type": "pong", "payload": payload}


@pytest.mark.parametrize("ping", [{"type": "ping"}, {"type": "ping", "payload": None}], ids=["absent", "null"])
async def test_a_ping_without_payload_has_a_pong_without_payload(server, ping):
    peer = await server.connect()
    await peer.send(ping)
    assert await peer.receive() == {"type": "pong"}


async def test_half_an_emoji_becomes_the_replacement_character(server):
    peer = await server.connect()
    await peer.send(r'{"type":"ping","payload":{"a":"\ud83d \uDE00 \ud83d\ude00 \\ud83d \"\ud83d\u0041"}}')
    text = '\ufffd \ufffd \N{GRINNING FACE} \\ud83d "\ufffdA'
    assert await peer.receive() == {"type": "pong", "payload": {"a": text}}


async def test_a_pong_from_the_client_has_no_answer(server):
    peer = await server.connect()
    await peer.send({"type": "pong", "payload": {"a": 1}})
    await peer.send({"type": "pong"})
    assert await peer.is_alive()


async def test_the_completion_of_an_unknown_operation_is_ignored(server):
    peer = await server.connect()
    await peer.complete("never heard of")
    assert await peer.is_alive()


async def test_nulls_and_unknown_members_are_ignored(server):
    peer = await server.connect()
    payload = {
        "query": "query hello",
        "variables": None,
        "operationName": None,
        "extensions": None,
        "more": 1,
    }
    await peer.send({"id": "1", "type": "subscribe", "payload": payload, "more": [1]})
    assert (await peer.receive())["type"] == "next"
    assert await peer.receive() == {"id": "1", "type": "complete"}


async def test_junk_does_not_accumulate(server):
    """Thousands of frames that ask for nothing leave nothing behind."""
    peer = await server.connect()
    junk = [orjson.dumps({"id": f"junk {n}", "type": "complete", "more": "x" * 100}).decode() for n in range(4_000)]

    async def send(frames):
        # Pings in between, so that the server never has too much to catch up with.
        for start in range(0, len(frames), 500):
            for frame in frames[start : start + 500]:
                await peer.send(frame)
                await peer.send('{"type":"pong","payload":{"a":1}}')
            assert await peer.is_alive()

    await send(junk[:500])
    tasks = len(asyncio.all_tasks())
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await send(junk[500:])
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 80_000
    assert len(asyncio.all_tasks()) == tasks

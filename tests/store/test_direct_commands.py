"""Commands to MongoDB that bypass the driver's layers: connections that fail, cancelled callers, a new primary."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Any

import bson
import pytest
from pymongo.asynchronous.pool import Pool
from pymongo.errors import AutoReconnect, NetworkTimeout, NotPrimaryError

from store.base.errors import Unreachable
from store.mongo.client import Mongo
from store.mongo.direct_commands import DirectCommands
from store.mongo.direct_connection import DirectConnection, PendingCommand, encode_command
from store.mongo.read_queue import ReadQueue
from tests.waiting import TIMEOUT_SECONDS


@pytest.fixture
async def mongo(mongo_url: str, mongo_database_name: str) -> AsyncIterator[Mongo]:
    mongo = Mongo(mongo_url, mongo_database_name)
    await mongo.insert_many("things", [{"_id": number, "text": "x" * 2_000} for number in range(200)])
    yield mongo
    await mongo.close()


@pytest.fixture
def direct(mongo: Mongo) -> DirectCommands:
    assert mongo._direct is not None
    return mongo._direct


async def _one_connection(mongo: Mongo, direct: DirectCommands) -> DirectConnection:
    await mongo.find("things", {"_id": 1})
    (connection,) = direct._connections
    return connection


def _put_in_flight(connection: DirectConnection) -> PendingCommand:
    """Let a connection wait for the reply to a command that was never sent."""
    message, number = encode_command("test", {"ping": 1})
    pending = PendingCommand(message, number, asyncio.get_running_loop())
    connection._pending = pending
    return pending


def _reply(request_id: int, document: dict[str, Any]) -> bytes:
    body = bson.encode(document)
    return struct.pack("<iiiiIb", 21 + len(body), 7, request_id, 2013, 0, 0) + body


async def test_a_reply_may_arrive_in_any_pieces(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    pending = _put_in_flight(connection)
    for byte in _reply(pending.request_id, {"ok": 1.0, "a": 1}):
        connection.data_received(bytes([byte]))
    assert await pending.reply == {"ok": 1.0, "a": 1}
    assert connection.is_usable


async def test_a_cancelled_caller_takes_no_reply_from_the_next(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    leaving = asyncio.create_task(mongo.find("things", {}))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert [row["_id"] for row in await mongo.find("things", {"_id": 7})] == [7]
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not connection.is_usable:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_many_commands_at_once_are_all_answered(mongo: Mongo, direct: DirectCommands) -> None:
    rows = await asyncio.gather(*(mongo.find("things", {"_id": number % 200}) for number in range(500)))
    assert [found[0]["_id"] for found in rows] == [number % 200 for number in range(500)]
    assert len(direct._connections) <= 100


async def test_a_read_is_repeated_when_its_connection_is_lost(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    reading = asyncio.create_task(mongo.find("things", {"_id": 3}))
    await asyncio.sleep(0)
    assert not connection.is_usable
    connection._transport.abort()
    assert [row["_id"] for row in await reading] == [3]
    assert connection not in direct._connections


async def test_a_write_is_not_repeated_when_its_connection_is_lost(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    writing = asyncio.create_task(mongo.insert_each("things", [{"_id": 1_000}]))
    await asyncio.sleep(0)
    connection._transport.abort()
    with pytest.raises(Unreachable):
        await writing


async def test_idle_connections_that_were_lost_are_replaced(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    connection._transport.abort()
    await asyncio.sleep(0.01)
    assert await mongo.insert_each("things", [{"_id": 1_000}]) == []


async def test_a_former_primary_is_left_and_the_primary_is_found_again(mongo: Mongo, direct: DirectCommands) -> None:
    await asyncio.gather(*(mongo.find("things", {}) for _ in range(3)))
    connection, *_ = direct._idle
    direct._idle.remove(connection)
    pending = _put_in_flight(connection)
    connection.data_received(_reply(pending.request_id, {"ok": 0.0, "code": 10107, "errmsg": "not primary"}))
    with pytest.raises(NotPrimaryError):
        await pending.reply
    assert not direct._idle
    assert [row["_id"] for row in await mongo.find("things", {"_id": 7})] == [7]


async def test_commands_do_not_wait_for_a_server_that_is_no_longer_primary(
    mongo: Mongo, direct: DirectCommands
) -> None:
    connection = await _one_connection(mongo, direct)
    direct._idle.remove(connection)
    pending = _put_in_flight(connection)
    assert mongo._primary.on_change is not None
    mongo._primary.on_change({connection.connection.address})
    assert not pending.reply.done()
    mongo._primary.on_change({("another.example", 27017)})
    with pytest.raises(AutoReconnect):
        await pending.reply
    assert [row["_id"] for row in await mongo.find("things", {"_id": 7})] == [7]


async def test_a_reply_to_another_request_ends_the_connection(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    pending = _put_in_flight(connection)
    connection.data_received(_reply(pending.request_id + 1, {"ok": 1.0}))
    with pytest.raises(AutoReconnect):
        await pending.reply
    assert not connection.is_usable


async def test_a_missing_reply_ends_the_wait(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    direct._idle.remove(connection)
    connection._timeout_seconds = 0.05
    pending = _put_in_flight(connection)
    connection._timer = None
    connection._check_timeout()
    with pytest.raises(NetworkTimeout):
        await pending.reply


async def test_closing_fails_callers_and_ends_connections(mongo: Mongo, direct: DirectCommands) -> None:
    await _one_connection(mongo, direct)
    reading = [asyncio.create_task(mongo.find("things", {})) for _ in range(5)]
    await asyncio.sleep(0)
    await direct.close()
    assert all(isinstance(outcome, Unreachable) for outcome in await asyncio.gather(*reading, return_exceptions=True))
    assert not direct._connections


async def test_all_rows_of_a_cursor_come_over_the_connection_that_opened_it(
    mongo: Mongo, direct: DirectCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mongo.insert_many("large", [{"_id": number, "text": "x" * 100_000} for number in range(400)])
    await asyncio.gather(*(mongo.find("things", {"_id": 1}) for _ in range(5)))
    users: list[tuple[DirectConnection, bytes]] = []
    send = DirectConnection.send

    def record(connection: DirectConnection, pending: PendingCommand) -> None:
        users.append((connection, pending.message))
        send(connection, pending)

    monkeypatch.setattr(DirectConnection, "send", record)
    for rows in await asyncio.gather(*(mongo.find("large", {}, sort=[("_id", 1)]) for _ in range(4))):
        assert [row["_id"] for row in rows] == list(range(400))
    for connection in {connection for connection, _ in users}:
        verbs = ["getMore" if b"getMore" in message else "find" for user, message in users if user is connection]
        assert verbs == ["find", "getMore", "getMore"]


async def test_the_cursor_of_a_cancelled_caller_is_closed(mongo: Mongo, direct: DirectCommands) -> None:
    await mongo.insert_many("large", [{"_id": number, "text": "x" * 100_000} for number in range(200)])
    connection = await _one_connection(mongo, direct)
    leaving = asyncio.create_task(mongo.find("large", {}))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not connection.is_usable:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    listed = await mongo._client.admin.aggregate(
        [{"$currentOp": {"idleCursors": True}}, {"$match": {"ns": f"{direct.database}.large"}}]
    )
    assert await listed.to_list() == []


async def test_a_reply_that_cannot_be_decoded_fails_its_caller_alone(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    pending = _put_in_flight(connection)
    whole = bytearray(_reply(pending.request_id, {"ok": 1.0, "text": "abcd"}))
    whole[whole.index(b"abcd")] = 0xFF
    connection.data_received(bytes(whole))
    with pytest.raises(bson.errors.InvalidBSON):
        await asyncio.wait_for(pending.reply, TIMEOUT_SECONDS)
    assert connection.is_usable


async def test_a_server_that_accepts_and_does_not_answer_is_not_waited_for(
    mongo: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    direct = DirectCommands(mongo._client, "test", 0.05, ReadQueue())
    with monkeypatch.context() as patch:
        patch.setattr(Pool, "connect", never)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with pytest.raises(NetworkTimeout):
                await direct.read({"ping": 1})
    direct._timeout_seconds = TIMEOUT_SECONDS
    assert (await direct.read({"ping": 1}))["ok"] == 1
    await direct.close()


async def test_a_read_is_repeated_when_the_server_asks_for_it(
    mongo: Mongo, direct: DirectCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _one_connection(mongo, direct)
    received = DirectConnection.data_received

    def fail_once(connection: DirectConnection, data: bytes) -> None:
        monkeypatch.setattr(DirectConnection, "data_received", received)
        assert connection._pending is not None
        connection.data_received(_reply(connection._pending.request_id, {"ok": 0.0, "code": 134, "errmsg": ""}))

    monkeypatch.setattr(DirectConnection, "data_received", fail_once)
    assert [row["_id"] for row in await mongo.find("things", {"_id": 7})] == [7]


async def test_a_cancelled_read_counts_as_running_until_its_reply(mongo: Mongo, direct: DirectCommands) -> None:
    connection = await _one_connection(mongo, direct)
    ended: list[bool] = []
    message, number = encode_command("test", {"ping": 1})
    pending = PendingCommand(message, number, asyncio.get_running_loop(), lambda: ended.append(True))
    connection._pending = pending
    pending.reply.cancel()
    assert ended == []
    connection.data_received(_reply(number, {"ok": 1.0}))
    assert ended == [True]

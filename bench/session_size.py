"""The size of a session in MongoDB, its indexes included."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from bson import encode
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from bench.api_client import Asker
from bench.session_data import Row, insert_rows, multiply
from store.mongo.collections import SESSIONS
from tests.processes import ServerProcess

TARGET_BYTES = 280

# In 100 sessions, 60 are private and 40 of groups.
_WEIGHTS = {
    "p sent": 20, "p read": 26, "p unread": 8, "p pinned": 2, "p muted": 2, "p filed": 2,
    "g unread": 10, "g read": 20, "g muted": 5, "g pinned": 2, "g filed": 3,
}  # fmt: skip
_PIN = "mutation ($id: ID!) { pinSession(conversationId: $id, priority: 3) { id } }"
_MUTE = "mutation ($id: ID!) { muteSession(conversationId: $id, muted: true) { id } }"
_FILE = 'mutation ($id: ID!) { assignCategory(conversationIds: [$id], categoryId: "family") { id } }'
_READ = "mutation ($id: ID!) { markRead(conversationId: $id) { id } }"
_SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id conversationId } } }"
_GROUP = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }"
_CHANGES = {"read": _READ, "pinned": _PIN, "muted": _MUTE, "filed": _FILE}


async def measure_storage(server: ServerProcess, url: str, database: str, documents: int) -> None:
    """Print the size of a number of sessions, as inserted and after compaction."""
    samples = await _samples(server, url, database)
    with MongoClient[Row](url) as mongo:
        mongo[database][SESSIONS].delete_many({})
    began = time.monotonic()
    await asyncio.to_thread(insert_rows, url, database, _counted(multiply(samples, documents)))
    print(f"\n{documents:,} session rows inserted in {time.monotonic() - began:.0f} s; bytes a session:")
    mean = sum(weight * len(encode(row)) for weight, row in samples) / sum(weight for weight, _ in samples)
    print(f"  {'as BSON':<24} {mean:7.1f}")
    with MongoClient[Row](url) as mongo:
        settle(mongo)
        _print("as inserted", _stats(mongo, database))
        try:
            mongo[database].command({"compact": SESSIONS, "force": True})
            settle(mongo)
            _print("after compact", _stats(mongo, database))
        except OperationFailure as error:
            print(f"  compact is not possible here: {error}")


def _counted(rows: Iterator[Row]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        if number % 250_000 == 0:
            print(f"  {number:,} rows", flush=True)
        yield row


async def _samples(server: ServerProcess, url: str, database: str) -> list[tuple[int, Row]]:
    """Return one row of each kind, made through the API, with its weight."""
    owner, names = Asker(server, "u123456"), {}
    peers = [Asker(server, f"u{number}") for number in range(654_321, 654_321 + len(_WEIGHTS))]
    try:
        for asker in (owner, *peers):
            await asker.ask("{ me { id } }")
        for kind, peer in zip(_WEIGHTS, peers, strict=True):
            names[kind] = await _make_session(kind, owner, peer, peers)
    finally:
        for asker in (owner, *peers):
            await asker.close()
    await asyncio.sleep(1)
    with MongoClient[Row](url) as mongo:
        rows = mongo[database][SESSIONS]
        found = {kind: rows.find_one({"_id": f"u123456 {name}"}) for kind, name in names.items()}
    return [(_WEIGHTS[kind], row) for kind, row in found.items() if row is not None]


async def _make_session(kind: str, owner: Asker, peer: Asker, peers: list[Asker]) -> str:
    """Make a session of a kind. Return its conversation."""
    form, _, state = kind.partition(" ")
    if form == "g":
        given: dict[str, Any] = {"name": kind, "memberIds": [peer.user, peers[0].user, peers[-1].user]}
        conversation: str = (await owner.ask(_GROUP, input=given))["id"]
        await peer.ask(_SEND, input={"conversationId": conversation, "content": "hello"})
    else:
        sent = await peer.ask(_SEND, input={"toUserId": owner.user, "content": "hello"})
        conversation = sent["message"]["conversationId"]
    if state == "sent":
        await owner.ask(_SEND, input={"conversationId": conversation, "content": "hello"})
    elif state in _CHANGES:
        if state != "read":
            await owner.ask(_READ, id=conversation)
        await owner.ask(_CHANGES[state], id=conversation)
    return conversation


def settle(mongo: MongoClient[Row]) -> None:
    """Wait until all writes are in the files, and replaced blocks are free."""
    for _ in range(3):
        mongo.admin.command("fsync")
        time.sleep(2)


def _stats(mongo: MongoClient[Row], database: str) -> Row:
    return dict(mongo[database].command("collStats", SESSIONS))


def _print(when: str, stats: Row) -> None:
    count = stats["count"]
    storage, indexes = stats["storageSize"] / count, stats["totalIndexSize"] / count
    verdict = "within" if storage + indexes < TARGET_BYTES else "OVER"
    print(
        f"  {when:<24} {storage + indexes:7.1f} = documents {storage:.1f} + indexes {indexes:.1f} "
        f"({verdict} the target of {TARGET_BYTES})",
        flush=True,
    )

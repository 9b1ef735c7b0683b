"""Messages that expire: how soon they are invisible, how fast they are removed, and what other senders notice.

`python -m bench.retention --messages 1000000` starts MongoDB, Redis and three services in this process, on loopback.
Old messages of one channel are written to MongoDB directly. A member sends into another channel, one message at a time,
before `updateWorkspace` and during the removal. `--seconds` ends the removal early.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from pymongo import MongoClient

from bench.api_client import InsideAsker
from bench.session_data import Row
from server.embedded import EmbeddedServers
from server.services import Services, open_services
from server.settings import UNLIMITED, load_settings
from store.base.ids import ConversationId, MessageId, UserId, bucket_of
from store.base.snowflakes import first_id_at
from store.messages.message import Message, MessageKind
from store.mongo.collections import CONVERSATIONS, EXPIRED, MESSAGES

_NAME = "bench_retention"
_BATCH = 10_000
_DAY_MS = 24 * 3_600_000
_OLD_DAYS, _KEPT_DAYS = 60, 30
_BEFORE_SECONDS = 20.0

_CREATE = "mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { id } }"
_CREATE_CHANNEL = "mutation ($input: CreateChannelInput!) { createChannel(input: $input) { id } }"
_UPDATE = """mutation ($id: ID!, $days: Int) {
    updateWorkspace(workspaceId: $id, input: { retentionDays: $days }) { retentionDays } }"""
_SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { seq } } }"
_HISTORY = "query ($id: ID!) { messages(conversationId: $id, last: 50) { edges { node { seq } } } }"


def insert_old(database: object, channel: ConversationId, sender: UserId, messages: int) -> None:
    """Write old messages of a channel, as servers would have stored them."""
    rows = database[MESSAGES]  # type: ignore[index]
    begin_ms = int(time.time() * 1000) - _OLD_DAYS * _DAY_MS
    text = "an old message of ordinary length, about a walk in the hills"
    fields = Message(MessageId(0), channel, sender, MessageKind.TEXT, text).to_fields()
    for start in range(0, messages, _BATCH):
        seqs = range(start + 1, min(start + _BATCH, messages) + 1)
        rows.insert_many(
            [{"_id": first_id_at(begin_ms + s) + s % 4096, "b": bucket_of(s), "s": s, "n": s, **fields} for s in seqs]
        )
    written = {"$set": {"s": messages, "n": messages}}
    database[CONVERSATIONS].update_one({"_id": channel}, written)  # type: ignore[index]


async def send_until(asker: InsideAsker, channel: str, ended: asyncio.Event, times: list[float]) -> None:
    """Send one message after the other, and note how long each took (s)."""
    while not ended.is_set():
        began = time.perf_counter()
        await asker.ask(_SEND, input={"conversationId": channel, "content": "hello"})
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.01)


def show(name: str, times: Sequence[float]) -> None:
    """Print the median and the 99th percentile."""
    shares = statistics.quantiles(times, n=100)
    print(f"{name}: {len(times)} sends, median {shares[49] * 1000:.1f} ms, p99 {shares[98] * 1000:.1f} ms")


async def measure(all_services: Sequence[Services], database: object, messages: int, seconds: float) -> None:
    """Measure a deployment of three services."""
    first = all_services[0]
    asker = InsideAsker(first, "owner")
    workspace = (await asker.ask(_CREATE, input={"name": "Bench"}))["id"]
    old, other = [
        (await asker.ask(_CREATE_CHANNEL, input={"workspaceId": workspace, "name": name}))["id"]
        for name in ("old", "other")
    ]
    await asyncio.to_thread(insert_old, database, old, UserId("owner"), messages)
    await first.app.store.conversations.drop(ConversationId(old))
    askers = [InsideAsker(services, "owner") for services in all_services]
    assert all([len((await each.ask(_HISTORY, id=old))["edges"]) == 50 for each in askers])

    ended, before = asyncio.Event(), list[float]()
    task = asyncio.create_task(send_until(asker, other, ended, before))
    await asyncio.sleep(_BEFORE_SECONDS)
    ended.set()
    await task
    show("before", before)

    began = time.perf_counter()
    await asker.ask(_UPDATE, id=workspace, days=_KEPT_DAYS)
    answered = time.perf_counter()
    pages = await asyncio.gather(*(each.ask(_HISTORY, id=old) for each in askers))
    seen = sum(len(page["edges"]) for page in pages)
    print(f"updateWorkspace: {(answered - began) * 1000:.0f} ms; then {seen} expired messages visible on 3 servers")

    # The removal would wait for a minute.
    due = {"$set": {"at": 0}}
    await asyncio.to_thread(database[EXPIRED].update_many, {"at": {"$exists": True}}, due)  # type: ignore[index]
    ended, during = asyncio.Event(), list[float]()
    task = asyncio.create_task(send_until(asker, other, ended, during))
    began = time.perf_counter()
    removal = asyncio.create_task(first.app.store.expired_removal.run())
    await asyncio.wait({removal}, timeout=seconds)
    elapsed = time.perf_counter() - began
    left = await asyncio.to_thread(database[MESSAGES].count_documents, {"c": old})  # type: ignore[index]
    ended.set()
    await task
    removal.cancel()
    show("during the removal", during)
    removed = messages - left
    print(f"removed: {removed:,} of {messages:,} messages in {elapsed:.0f} s, {removed / elapsed:,.0f} a second")


async def run(folder: Path, messages: int, seconds: float) -> None:
    """Start the databases and three services, and measure."""
    with EmbeddedServers(folder / "databases") as databases:
        settings = load_settings(
            **UNLIMITED,
            mongo_url=databases.mongo_url,
            redis_url=databases.redis_url,
            mongo_database=_NAME,
            log_level="ERROR",
        )
        async with AsyncExitStack() as stack:
            services = [
                await stack.enter_async_context(open_services(settings, start_wait_seconds=60)) for _ in range(3)
            ]
            with MongoClient[Row](databases.mongo_url) as mongo:
                await measure(services, mongo[_NAME], messages, seconds)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000, help="old messages")
    parser.add_argument("--seconds", type=float, default=600.0, help="most time for the removal")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="confab-retention-"))
    try:
        asyncio.run(run(folder, arguments.messages, arguments.seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

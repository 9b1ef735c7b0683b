"""The size of stored data, and the capacity of one hot conversation or user.

`python -m bench.footprint [--chat day.jsonl …]` starts MongoDB and Redis. Bytes in MongoDB are data and indexes on disk
after compaction; bytes in Redis are MEMORY USAGE of all keys.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from pymongo import MongoClient
from redis import Redis

from bench.session_data import Row, insert_owner, insert_people
from bench.session_size import settle
from resolvers.groups.group_creation import NewGroup, create_group
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from server.embedded import EmbeddedServers
from server.services import Services, open_services
from server.settings import load_settings
from store.base.ids import ConversationId, MessageId, UserId, group_id, private_id
from store.base.snowflakes import first_id_at
from store.messages.message import Message, MessageKind
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, MESSAGES, ORIGINS, RECEIPTS
from store.mongo.indexes import ensure_indexes
from store.receipts.receipt_marks import ReceiptKind, ReceiptMark, mark_row

_MESSAGES = 300_000
_SESSIONS = 1_000
_BATCH = 5_000
_IN_FLIGHT, _SECONDS = 60, 4.0


def texts(chats: Sequence[Path]) -> list[str]:
    """Return texts of messages."""
    rows = [orjson.loads(line) for chat in chats for line in chat.read_bytes().splitlines()]
    return [row["text"] for row in rows if row["kind"] == "message"] or [
        "A text message whose length is a common average"
    ]


def insert_messages(url: str, database: str, contents: Sequence[str]) -> None:
    """Insert messages of pairs and groups in the order of time: all conversations mixed."""
    rng = random.Random(1)
    people = [f"u{number:06}" for number in range(20_000)]
    at = 1_800_000_000_000
    talks: list[tuple[ConversationId, list[str]]] = []
    for number in range(_MESSAGES // 30):
        participants = rng.sample(people, 2 if number % 4 else 6)
        name = (
            private_id(UserId(participants[0]), UserId(participants[1]))
            if number % 4
            else group_id(first_id_at(at) | number)
        )
        talks.append((name, participants))
    seqs = dict.fromkeys((name for name, _ in talks), 0)
    with MongoClient[Row](url) as mongo:
        db = mongo[database]
        rows: dict[str, list[Row]] = {name: [] for name in (MESSAGES, RECEIPTS, ORIGINS)}
        for number in range(_MESSAGES):
            name, participants = talks[min(int(rng.paretovariate(0.5)) - 1, len(talks) - 1)]
            seqs[name] += 1
            at += rng.randrange(20)
            sender, seq = UserId(rng.choice(participants)), seqs[name]
            snowflake = MessageId(first_id_at(at) | number % 4096)
            message = Message(snowflake, name, sender, MessageKind.TEXT, rng.choice(contents), seq, seq)
            rows[MESSAGES].append(message.to_document())
            rows[RECEIPTS].append(mark_row(ReceiptMark(name, sender, ReceiptKind.READ, seq), at))
            rows[ORIGINS].append({"_id": int(snowflake), "c": name})
            if len(rows[MESSAGES]) == _BATCH:
                for collection, documents in rows.items():
                    db[collection].insert_many(documents, ordered=False)
                    documents.clear()
        for start in range(0, len(talks), _BATCH):
            heads = [
                {"_id": name, "k": "P", "s": seqs[name], "n": seqs[name], "at": at, "w": at,
                 "r0": seqs[name], "d0": seqs[name],
                 "q0": seqs[name], "m0": seqs[name], "r1": 7, "d1": 7, "q1": 7, "m1": 7}
                for name, _ in talks[start : start + _BATCH]
            ]  # fmt: skip
            db[CONVERSATIONS].insert_many(heads, ordered=False)
        insert_people(db, people)


def print_mongo_sizes(url: str, database: str) -> None:
    with MongoClient[Row](url) as mongo:
        print("\nbytes of a row in MongoDB: BSON, data on disk, indexes")
        for collection in (MESSAGES, RECEIPTS, ORIGINS, CONVERSATIONS, "users"):
            mongo[database].command({"compact": collection, "force": True})
            settle(mongo)
            stats = mongo[database].command("collStats", collection)
            per = [stats[name] / stats["count"] for name in ("size", "storageSize", "totalIndexSize")]
            print(f"  {collection:<14} {stats['count']:>8,} rows: " + " ".join(f"{value:7.1f}" for value in per))


async def print_redis_sizes(services: Services, url: str, database: str) -> None:
    """Print the size of a user's loaded state and of the heads of their conversations."""
    with MongoClient[Row](url) as mongo:
        for sessions in (10, _SESSIONS):
            owner = insert_owner(mongo[database], f"owner{sessions}", sessions)
            user, store = UserId(owner.user), services.app.store
            await services.sign_in(Caller(user, CallerRole.USER, 2e9))
            for _ in await store.sessions.list_names(user, "m"):
                pass
            await store.conversations.find_many(ConversationId(c) for c in owner.conversations)
            with Redis.from_url(store.cache.url) as redis:
                for what, pattern, parts in (
                    ("a loaded state, of one of its sessions", f"*{{u:{user}}}*", sessions),
                    ("a head", "*head:*", None),
                ):
                    keys = list(redis.scan_iter(match=pattern, count=10_000))
                    size = sum(redis.memory_usage(key, samples=0) or 0 for key in keys)
                    print(f"  {what:<40} ({sessions:>5} sessions): {size / (parts or len(keys)):7.0f} bytes")


async def print_hot_rates(services: Services) -> None:
    """Send messages for some seconds at the highest possible rate."""
    people = [UserId(f"h{number}") for number in range(200)]
    for user in people:
        await services.sign_in(Caller(user, CallerRole.USER, 2e9))
    small = await create_group(services.app, people[0], NewGroup("small", None, tuple(people[1:3]), False, None))
    large = await create_group(services.app, people[0], NewGroup("large", None, tuple(people[1:]), False, None))
    name = {"small": small.head.conversation, "large": large.head.conversation}
    rng = random.Random(1)

    def send_private(user: UserId, peer: UserId) -> Awaitable[Any]:
        return send_message(
            services.app, user, NewMessage(peer, None, "A text message whose length is a common average")
        )

    def send_to_group(group: str, user: UserId) -> Awaitable[Any]:
        return send_message(services.app, user, NewMessage(None, name[group], "Some message"))

    def send_random_pair() -> Awaitable[Any]:
        pair = rng.randrange(len(people) // 2)
        return send_private(people[2 * pair], people[2 * pair + 1])

    cases: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
        ("100 pairs", send_random_pair),
        ("one pair", lambda: send_private(people[0], people[1])),
        ("200 people to one", lambda: send_private(rng.choice(people[1:]), people[0])),
        ("one group of 3", lambda: send_to_group("small", rng.choice(people[:3]))),
        ("one group of 200, all states cached", lambda: send_to_group("large", rng.choice(people))),
    ]
    print(
        f"\nmessages, {_IN_FLIGHT} in flight, one server process: per second; CPU of Redis (µs per message); "
        "messages a second per core of Redis"
    )
    for title, send in cases:
        await _measure(services, send, 2.5)
        count, seconds, redis_us = await _measure(services, send, _SECONDS)
        print(f"  {title:<36} {count / seconds:6.0f} {redis_us / count:6.0f} {count * 1e6 / redis_us:8,.0f}")


async def _measure(services: Services, send: Callable[[], Awaitable[Any]], seconds: float) -> tuple[int, float, float]:
    count = 0
    with Redis.from_url(services.app.store.cache.url) as redis:
        before, began = _cpu(redis), time.monotonic()

        async def worker() -> None:
            nonlocal count
            while time.monotonic() - began < seconds:
                await send()
                count += 1

        await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))
        return count, time.monotonic() - began, 1e6 * (_cpu(redis) - before)


def _cpu(redis: Redis) -> float:
    stats: Any = redis.info("cpu")
    return float(stats["used_cpu_user_main_thread"] + stats["used_cpu_sys_main_thread"])


async def _run(url: str, redis_url: str, contents: Sequence[str]) -> None:
    mongo = Mongo(url, "bench_sizes")
    await ensure_indexes(mongo)
    await mongo.close()
    await asyncio.to_thread(insert_messages, url, "bench_sizes", contents)
    await asyncio.to_thread(print_mongo_sizes, url, "bench_sizes")
    async with open_services(
        load_settings(mongo_url=url, redis_url=redis_url, mongo_database="bench_rates"), start_wait_seconds=60
    ) as services:
        print("\nin Redis:")
        await print_redis_sizes(services, url, "bench_rates")
        await print_hot_rates(services)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.footprint", description=__doc__)
    parser.add_argument("--chat", type=Path, nargs="*", default=[], help="chat logs to take texts from (JSON lines)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder) as servers:
            assert servers.mongo_url is not None and servers.redis_url is not None
            asyncio.run(_run(servers.mongo_url, servers.redis_url, texts(options.chat)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""The cost of sessions by the number of a user's sessions, and the size of their rows.

`python -m bench.sessions` starts MongoDB, Redis and a server and sends operations over HTTP. `--documents 0` skips
the sizes, `--sizes` without values skips the costs.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from redis.asyncio import Redis

from bench.api_client import Asker
from bench.meter import Cost, Meter
from bench.session_data import Owner, Row, insert_owner, insert_people, peer_name
from bench.session_size import measure_storage
from server.embedded import EmbeddedServers
from tests.processes import ServerProcess, serving_processes

SIZES = (50, 1_000, 7_000, 50_000)

_SHOWN = """{ id unreadCount writeTs activeTs conversation { id title }
    lastMessage { content sender { displayName } } }"""
_PAGE = f"""query ($after: String) {{
  sessions(first: 50, after: $after) {{ cursor totalUnread edges {{ node {_SHOWN} }} }} }}"""
_SYNC = f"""query ($since: Cursor) {{ syncSessions(since: $since, first: 100) {{
    cursor hasMore totalUnread reset sessions {_SHOWN} }} }}"""
_READ = f"mutation ($id: ID!) {{ markRead(conversationId: $id) {_SHOWN} }}"
_SEND = (
    'mutation ($id: ID!) { sendMessage(input: {conversationId: $id, content: "What arrives"}) { message { id seq } } }'
)

_CHANGES = 3
_SYNC_OP, _ARRIVING = f"sync of {_CHANGES} changes", "message arriving"


class Bench:
    """One user with a number of sessions."""

    def __init__(self, owner: Owner, server: ServerProcess, meter: Meter, redis: Redis, prefix: str) -> None:
        self.owner = owner
        self.meter = meter
        self.redis = redis
        self.asker = Asker(server, owner.user)
        self.senders = [Asker(server, peer) for peer in owner.peers[:_CHANGES]]
        self.costs: dict[str, Cost] = {}
        self._pattern = f"{prefix}*{{u:{owner.user}}}:*"
        self._cursor: str | None = None

    async def run(self) -> dict[str, Cost]:
        try:
            await self._run()
        finally:
            for asker in (self.asker, *self.senders):
                await asker.close()
        return self.costs

    async def _run(self) -> None:
        size = len(self.owner.conversations)
        self.costs["cold first page"] = await self.meter.measure(
            self._page, 5, before_each=self._forget, until_calm=True
        )
        self.costs["first page"] = await self.meter.measure(self._page, 25)
        self._cursor = (await self.asker.ask(_PAGE))["cursor"]
        for _ in range(2):
            await self._others_send(0)
        self._cursor = (await self._sync(self._cursor))["cursor"]
        self.costs[_SYNC_OP] = await self.meter.measure(self._sync_changes, 15, before_each=self._others_send)
        self.costs["full sync, pages of 100"] = await self.meter.measure(self._sync_all, 1)
        if size <= 10_000:
            self.costs["full sync again"] = await self.meter.measure(self._sync_all, 3 if size <= 1_000 else 1)
        unread = self.owner.unread[-15:]
        self.costs["markRead"] = await self.meter.measure(self._asking(lambda n: (_READ, unread[n])), len(unread))
        self.costs[_ARRIVING] = await self.meter.measure(self._arrive, 25)

    async def _forget(self, _number: int) -> None:
        keys = [key async for key in self.redis.scan_iter(match=self._pattern, count=10_000)]
        if keys:
            await self.redis.delete(*keys)

    def _asking(self, what: Callable[[int], tuple[str, str]]) -> Callable[[int], Any]:
        async def ask(number: int) -> int:
            query, conversation = what(number)
            before = self.asker.received
            await self.asker.ask(query, id=conversation)
            return self.asker.received - before

        return ask

    async def _page(self, _number: int) -> int:
        before = self.asker.received
        page = await self.asker.ask(_PAGE)
        assert len(page["edges"]) == 50
        return self.asker.received - before

    async def _others_send(self, _number: int) -> None:
        for place, sender in enumerate(self.senders):
            await sender.ask(_SEND, id=self.owner.conversations[2 * place])

    async def _sync(self, since: str | None) -> Any:
        return await self.asker.ask(_SYNC, since=since)

    async def _sync_changes(self, _number: int) -> int:
        before = self.asker.received
        delta = await self._sync(self._cursor)
        assert len(delta["sessions"]) == _CHANGES and not delta["reset"], delta
        self._cursor = delta["cursor"]
        return self.asker.received - before

    async def _sync_all(self, _number: int) -> int:
        before, found = self.asker.received, 0
        since: str | None = None
        while True:
            delta = await self._sync(since)
            since, found = delta["cursor"], found + len(delta["sessions"])
            if not delta["hasMore"]:
                break
        assert found == len(self.owner.conversations), found
        return self.asker.received - before

    async def _arrive(self, number: int) -> int:
        sender = self.senders[number % _CHANGES]
        before = sender.received
        await sender.ask(_SEND, id=self.owner.conversations[2 * (number % _CHANGES)])
        return sender.received - before


def _print_table(tables: dict[int, dict[str, Cost]]) -> None:
    print(
        f"\n{'sessions':>8}  {'operation':<24} {'wall ms':>9} {'CPU ms: server':>15} "
        f"{'MongoDB':>8} {'Redis':>8} {'bytes':>11}"
    )
    for size, costs in tables.items():
        for name, cost in costs.items():
            cpu = [1000 * cost.cpu[process] for process in ("server", "mongod", "valkey")]
            print(
                f"{size:>8,}  {name:<24} {1000 * cost.seconds:>9.1f} {cpu[0]:>15.2f} {cpu[1]:>8.2f} {cpu[2]:>8.3f} "
                f"{cost.size:>11,}"
            )
    least, most = min(tables), max(tables)
    for name in (_SYNC_OP, _ARRIVING) if least < most else ():
        few, many = tables[least][name], tables[most][name]
        growth = sum(many.cpu.values()) / sum(few.cpu.values())
        print(
            f"{name}, from {least:,} to {most:,} sessions: wall x {many.seconds / few.seconds:.2f}, CPU x {growth:.2f}"
        )


async def measure_costs(databases: EmbeddedServers, folder: Path, sizes: list[int]) -> None:
    """Print the cost of operations for users with different numbers of sessions."""
    name = "bench_sessions"
    async with serving_processes(databases, 1, folder, name) as (server,), Redis.from_url(databases.redis_url) as redis:
        began = time.monotonic()
        with MongoClient[Row](databases.mongo_url) as mongo:
            owners = [insert_owner(mongo[name], f"owner{size}", size) for size in sizes]
            people = [owner.user for owner in owners]
            insert_people(mongo[name], people + [peer_name(number) for number in range(max(3, max(sizes)))])
        print(
            f"inserted {sum(sizes):,} sessions with their conversations in {time.monotonic() - began:.0f} s", flush=True
        )
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        meter = Meter({"server": server.pid, "mongod": databases.mongo_pid, "valkey": databases.redis_pid})
        await asyncio.sleep(3)
        await meter.learn_idle()
        tables = {}
        for size, owner in zip(sizes, owners, strict=True):
            tables[size] = await Bench(owner, server, meter, redis, f"{name}:").run()
            print(f"  measured {size:,}", flush=True)
        _print_table(tables)


async def _main(arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            if arguments.sizes:
                await measure_costs(databases, folder, arguments.sizes)
            if arguments.documents:
                name = "bench_storage"
                async with serving_processes(databases, 1, folder, name) as (server,):
                    await measure_storage(server, databases.mongo_url, name, arguments.documents)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="sessions of a user")
    parser.add_argument("--documents", type=int, default=1_000_000, help="session rows whose room is measured")
    asyncio.run(_main(parser.parse_args()))

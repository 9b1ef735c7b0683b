"""The cost of idle connections: memory, and CPU for keep-alive and routes.

`python -m bench.idle --connections 10000 --users 2500` starts MongoDB, Redis and a server, and opens all
connections in three steps: acknowledged, then with messageEvents, then also with syncSession.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import tempfile
import time
from pathlib import Path

from pymongo import MongoClient

from bench.load_process import LoadProcess
from bench.memory import Memory, memory
from bench.meter import cpu_seconds
from bench.selections import MESSAGE_EVENTS, SYNC_SESSION
from bench.session_data import Row, insert_people
from server.embedded import EmbeddedServers
from tests.processes import ServerProcess, serving_processes

_NAME = "bench_idle"
_STAGES: tuple[tuple[str, list[str]], ...] = (
    ("acknowledged", []),
    ("with messageEvents", [MESSAGE_EVENTS]),
    ("with syncSession too", [SYNC_SESSION]),
)
_SETTLE_SECONDS = 3.0

_SPARE_FILES = 200
"""Files that a process has open in addition to its connections."""


class Bench:
    """Subscribers that connect to a server step by step."""

    def __init__(self, server: ServerProcess, valkey_pid: int, load_process: LoadProcess, connections: int) -> None:
        self._server = server
        self._valkey_pid = valkey_pid
        self._load_process = load_process
        self._connections = connections

    async def run(self, users: list[str], rest_seconds: float) -> None:
        await self._open("first", users[:1])
        await self._load_process.ask("subscribe", name="first", subscriptions=[MESSAGE_EVENTS, SYNC_SESSION])
        await self._load_process.ask("close", name="first")
        await asyncio.sleep(_SETTLE_SECONDS)
        idle = await self._rest(5)
        base = memory(self._server.pid)
        print(
            f"{len(users):,} connections of {len(set(users)):,} users; the server takes {base.rss / 1e6:.0f} MB before "
            f"and {100 * idle:.2f} % of a CPU\n\n{'per connection, and in total':<28} "
            f"{'KiB RSS':>8} {'KiB PSS':>8} {'MB RSS':>7} "
            f"{'s to get there':>15} {'CPU ms each':>12} {'CPU % at rest':>14} {'Redis MB':>9}",
            flush=True,
        )
        for stage, subscriptions in _STAGES:
            used = cpu_seconds(self._server.pid)
            if subscriptions:
                seconds = (await self._load_process.ask("subscribe", name="all", subscriptions=subscriptions))[
                    "seconds"
                ]
            else:
                seconds = await self._open("all", users)
            spent = cpu_seconds(self._server.pid) - used
            await asyncio.sleep(_SETTLE_SECONDS)
            self._print(stage, base, seconds, spent, await self._rest(rest_seconds))
        report = await self._load_process.ask("report", name="all")
        print(f"closed meanwhile: {report['closed'] or 'none'}; unexpected frames: {report['other']}")

    async def _open(self, name: str, users: list[str]) -> float:
        answer = await self._load_process.ask(
            "open", name=name, port=self._server.port, path="/graphql", users=users, subscriptions=[]
        )
        return float(answer["seconds"])

    async def _rest(self, seconds: float) -> float:
        """Return the share of a CPU that the server uses."""
        used, began = cpu_seconds(self._server.pid), time.perf_counter()
        await asyncio.sleep(seconds)
        return (cpu_seconds(self._server.pid) - used) / (time.perf_counter() - began)

    def _print(self, stage: str, base: Memory, seconds: float, spent: float, at_rest: float) -> None:
        now = memory(self._server.pid)
        rss, pss = (
            (after - before) / 1024 / self._connections for after, before in ((now.rss, base.rss), (now.pss, base.pss))
        )
        print(
            f"{stage:<28} {rss:>8.1f} {pss:>8.1f} {now.rss / 1e6:>7.0f} {seconds:>15.1f} "
            f"{1000 * spent / self._connections:>12.2f} {100 * at_rest:>14.2f} "
            f"{memory(self._valkey_pid).rss / 1e6:>9.0f}",
            flush=True,
        )


async def _main(arguments: argparse.Namespace) -> None:
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = arguments.connections + _SPARE_FILES
    if wanted > allowed:
        raise SystemExit(f"A process may open {allowed:,} files here, and {wanted:,} are needed.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    people = [f"u{number:06}" for number in range(arguments.users)]
    users = [people[number % len(people)] for number in range(arguments.connections)]
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            with MongoClient[Row](databases.mongo_url) as mongo:
                insert_people(mongo[_NAME], people)
            assert databases.redis_pid is not None
            async with serving_processes(databases, 1, folder, _NAME) as (server,), LoadProcess() as load_process:
                await Bench(server, databases.redis_pid, load_process, len(users)).run(users, arguments.rest)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=2_500, help="whose connections they are")
    parser.add_argument("--rest", type=float, default=30.0, help="seconds at rest, each time (pings come every 25)")
    asyncio.run(_main(parser.parse_args()))

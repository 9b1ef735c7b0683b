"""The databases and the server that a benchmark measures, and what they spend."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import redis
from pymongo import MongoClient

from bench.api_client import Asker
from bench.meter import Meter, cpu_seconds
from bench.session_data import Row
from server.embedded import EmbeddedServers, ports
from tests.processes import ServerProcess, start_server, until_ready

PROCESSES = ("server", "MongoDB", "Redis")
COUNTED = ("MongoDB commands", "rows written", "Redis commands")

_DATA_COMMANDS = (
    *("find", "aggregate", "getMore", "insert", "update", "delete", "findAndModify", "bulkWrite"),
    *("commitTransaction", "abortTransaction", "count", "distinct"),
)
_IDLE_SECONDS = 2.0

Spent = Mapping[str, float]
"""Microseconds of CPU by process, and numbers of COUNTED."""


class Stage:
    """A server with its databases, and connections of users to it."""

    def __init__(self, name: str, databases: EmbeddedServers, server: ServerProcess) -> None:
        self.databases = databases
        self.server = server
        self.mongo = MongoClient[Row](databases.mongo_url)
        self.database = self.mongo[name]
        self._redis = redis.Redis.from_url(databases.redis_url)
        self._askers: dict[str, Asker] = {}
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        pids = (server.pid, databases.mongo_pid, databases.redis_pid)
        self._pids = dict(zip(PROCESSES, pids, strict=True))
        self._idle = dict.fromkeys(PROCESSES, 0.0)
        self._calm = Meter(self._pids)

    async def ask(self, user: str, query: str, **variables: Any) -> Any:
        """Return the value of an operation's one field."""
        return await self.asker(user).ask(query, **variables)

    def asker(self, user: str) -> Asker:
        """Return a user's kept-alive connection."""
        return self._askers.get(user) or self._askers.setdefault(user, Asker(self.server, user))

    async def close(self) -> None:
        for asker in self._askers.values():
            await asker.close()
        self.mongo.close()
        self._redis.close()

    async def settle(self) -> None:
        """Wait until all work is done, and learn what the processes spend while nothing happens."""
        await self._calm.wait_until_idle()
        await self._calm.learn_idle(_IDLE_SECONDS)
        before = self._read()
        await asyncio.sleep(_IDLE_SECONDS)
        now = self._read()
        self._idle = {name: (now[name] - before[name]) / _IDLE_SECONDS for name in now}

    async def measure(self, act: Callable[[], Awaitable[object]], rest_seconds: float) -> Spent:
        """Return what an action spends, with the work of some time after it and without what is spent when idle."""
        loop = asyncio.get_running_loop()
        before, began = self._read(), loop.time()
        await act()
        await asyncio.sleep(rest_seconds)
        now, elapsed = self._read(), loop.time() - began
        return {
            name: now[name] - before[name] - (self._idle[name] * elapsed if name in PROCESSES else 0) for name in now
        }

    def _read(self) -> dict[str, float]:
        used = {name: 1e6 * cpu_seconds(pid) for name, pid in self._pids.items()}
        metrics = self.mongo.admin.command("serverStatus")["metrics"]
        commands: Any = self._redis.info("commandstats")
        rows = metrics["document"]
        counted = (
            sum(metrics["commands"][name]["total"] for name in _DATA_COMMANDS if name in metrics["commands"]),
            rows["inserted"] + rows["updated"] + rows["deleted"],
            sum(command["calls"] for name, command in commands.items() if name != "cmdstat_info"),
        )
        return used | dict(zip(COUNTED, counted, strict=True))


@asynccontextmanager
async def open_stage(
    name: str,
    prepare: Callable[[MongoClient[Row]], None],
    profile: Path | None = None,
    *,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Stage]:
    """Start databases and a server for the time of the block.

    prepare: writes data before the server starts. profile: where the server writes the statistics of cProfile.
    settings: of the server, by field name.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    ordinary = ["-m", "server.cli"]
    python = ["-m", "cProfile", "-o", str(profile), *ordinary] if profile else ordinary
    try:
        with EmbeddedServers(folder / "databases") as databases:
            with MongoClient[Row](databases.mongo_url) as mongo:
                prepare(mongo)
            log = folder / "server.log"
            server = start_server(databases, ports.pick_free(), log, name, settings=settings, python=python)
            try:
                await until_ready(server)
                print(f"a server with data after {time.monotonic() - began:.0f} s", flush=True)
                stage = Stage(name, databases, server)
                try:
                    yield stage
                finally:
                    await stage.close()
            finally:
                await asyncio.to_thread(server.stop)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Turns:
    """Costs of different actions, measured in turns in one run."""

    def __init__(self) -> None:
        self._spent: defaultdict[str, list[Spent]] = defaultdict(list)

    def add(self, name: str, spent: Spent, times: int = 1) -> None:
        """Add a turn in which an action was done a number of times."""
        self._spent[name].append({key: value / times for key, value in spent.items()})

    def medians(self, name: str) -> dict[str, float]:
        """Return the median over the turns, for each process and counter."""
        turns = self._spent[name]
        return {key: statistics.median(turn[key] for turn in turns) for key in turns[0]}

    def print_table(self, title: str, extra: Mapping[str, str] | None = None) -> None:
        """Print a line for each action."""
        print(f"\n{title:<48} {'CPU µs: server':>15} {'MongoDB':>9} {'Redis':>9} {'all':>9}  " + ", ".join(COUNTED))
        for name in self._spent:
            each = self.medians(name)
            cpu = [each[process] for process in PROCESSES]
            counts = ", ".join(f"{each[key]:,.1f}" for key in COUNTED)
            print(
                f"{name:<48} {cpu[0]:>15,.0f} {cpu[1]:>9,.0f} {cpu[2]:>9,.0f} {sum(cpu):>9,.0f}  {counts}"
                f"  {(extra or {}).get(name, '')}",
                flush=True,
            )

"""The cost of some operations, one at a time: round trips and CPU, and whether the round trips are within budget.

`python -m bench.budgets` takes about ten seconds, and ends with status 1 if an operation waits for more round trips
than the design allows. Times are printed and not judged. tests/api/requests/test_budgets.py has the exact numbers
of more operations; here the operations are those of a frontend, in a group of 200 and with a full page.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import uvloop
from pymongo import MongoClient

from bench.meter import cpu_seconds
from bench.session_data import Row, insert_people
from bench.suite.operations import Operation, people, prepare
from bench.suite.trips import Count, Trips, confab_inside, least_trips
from server.embedded import EmbeddedServers

BUDGETS: Mapping[str, Trips] = {
    "private": (1, 2),
    "group": (1, 2),
    # The third is the lock.
    "read": (1, 3),
    "pin": (1, 3),
    "mute": (1, 3),
    "sessions": (0, 2),
    "sync": (0, 2),
    "history": (1, 1),
}
"""Round trips that a warm request may wait for: to MongoDB, to Redis."""

_NAME = "bench_budgets"
_TIMES = 20


class Costs:
    """CPU of this process, which contains the server, and of the databases."""

    def __init__(self, databases: EmbeddedServers) -> None:
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        self._pids = (os.getpid(), databases.mongo_pid, databases.redis_pid)

    async def measure(self, operation: Operation) -> list[float]:
        """Return the seconds of an operation, by process."""
        spent = [0.0] * len(self._pids)
        for _ in range(_TIMES):
            if operation.before is not None:
                await operation.before()
                await asyncio.sleep(operation.settle_seconds)
            before = [cpu_seconds(pid) for pid in self._pids]
            await operation.act()
            await asyncio.sleep(operation.settle_seconds)
            for place, pid in enumerate(self._pids):
                spent[place] += cpu_seconds(pid) - before[place]
        return [used / _TIMES for used in spent]


async def measure(databases: EmbeddedServers) -> list[str]:
    """Print the table. Return the operations over budget."""
    over: list[str] = []
    costs = Costs(databases)
    print(f"{'':<34} {'MongoDB':>8} {'Redis':>6} {'budget':>7} {'CPU ms: server':>15} {'MongoDB':>8} {'Redis':>6}")
    async with confab_inside(databases, _NAME) as (ask, count):
        for operation in await prepare(ask, changes=("pin", "mute")):
            over += await _measure_one(operation, count, costs)
    return over


async def _measure_one(operation: Operation, count: Count, costs: Costs) -> list[str]:
    trips = await least_trips(operation, count)
    server, mongo, redis = (1000 * used for used in await costs.measure(operation))
    allowed = _format_trips(BUDGETS[operation.key])
    print(
        f"{operation.title:<34} {trips[0]:>8} {trips[1]:>6} {allowed:>7} {server:>15.2f} {mongo:>8.2f} {redis:>6.2f}",
        flush=True,
    )
    return judge(operation.key, operation.title, trips)


def judge(key: str, title: str, trips: Trips) -> list[str]:
    """Return a sentence about an operation that is over budget."""
    budget = BUDGETS[key]
    if trips[0] > budget[0] or trips[1] > budget[1]:
        return [f"{title} waits for {_format_trips(trips)} round trips, and {_format_trips(budget)} are allowed."]
    return []


def _format_trips(trips: Trips) -> str:
    return f"{trips[0]} + {trips[1]}"


def main() -> None:
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            with MongoClient[Row](databases.mongo_url) as mongo:
                insert_people(mongo[_NAME], people())
            over = uvloop.run(measure(databases))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"measured in {time.monotonic() - began:.0f} s")
    if over:
        sys.exit("\n".join(over))


if __name__ == "__main__":
    main()

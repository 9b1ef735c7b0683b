"""A server with more load than it can take: `python -m bench.overload`.

Finds the number of messages a second that one process takes, half over HTTP and half over WebSockets. Then it sends
1, 2 and 3 times as many without waiting for answers, and measures the service during and after it. Takes about
three minutes. Two processes make the load and share the machine with the server and its databases.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
from pymongo import MongoClient

from bench.load_process import LoadProcess
from bench.memory import memory
from bench.meter import cpu_seconds
from bench.session_data import Row, insert_people
from bench.suite.queries import SEND
from server.embedded import EmbeddedServers
from tests.processes import ServerProcess, serving_processes, token

_NAME = "bench_overload"
_PAIRS = 50
_CONNECTIONS = 1_500
_LOADS = 2
_TEXT = "What one says to another, as long as such a line usually is, more or less"
_STEPS = (0.6, 0.8, 1.0, 1.25, 1.6)
_KEEPS_UP = 0.97
_RECOVERED_SECONDS = 0.1
"""A recovered server answers a single message within this time."""


class LoadedServer:
    """A server and its clients."""

    def __init__(self, server: ServerProcess, workers: list[LoadProcess]) -> None:
        self._server = server
        self._loads = workers

    async def connect(self) -> None:
        """Connect all senders."""
        people = [f"from{number:03}" for number in range(_PAIRS)]
        tokens = [f"Bearer {token(user)}" for user in people]
        bodies = [
            json.dumps(
                {"query": SEND, "variables": {"input": {"toUserId": user.replace("from", "to"), "content": _TEXT}}}
            )
            for user in people
        ]
        for load in self._loads:
            await load.ask(
                "connect", port=self._server.port, tokens=tokens, bodies=bodies, connections=_CONNECTIONS // _LOADS
            )

    async def drive(self, rate: float, seconds: float, over_http: float = 0.5) -> dict[str, Any]:
        """Send a number of messages a second.

        Return the results of all load processes, and the server's use meanwhile.
        """
        used, began = cpu_seconds(self._server.pid), time.monotonic()
        watching = asyncio.create_task(self._watch())
        parts = await asyncio.gather(
            *(
                load.ask("drive", rate=rate / len(self._loads), seconds=seconds, over_http=over_http)
                for load in self._loads
            )
        )
        watching.cancel()
        codes: Counter[str] = Counter()
        for part in parts:
            codes.update(part["codes"])
        summed = ("asked", "served", "lost", "unanswered")
        worst = ("p50", "p99", "longest", "refused_p50", "refused_p99")
        return {
            **{name: sum(part[name] for part in parts) for name in summed},
            **{name: max(part[name] for part in parts) for name in worst},
            "codes": codes,
            "cpu": (cpu_seconds(self._server.pid) - used) / (time.monotonic() - began),
            "mb": memory(self._server.pid).rss / 1e6,
        } | await self._watched(watching)

    async def _watch(self) -> dict[str, float]:
        """Measure the duration of health checks meanwhile."""
        longest = 0.0
        async with httpx.AsyncClient(base_url=self._server.url, verify=False, timeout=30) as client:
            try:
                while True:
                    began = time.perf_counter()
                    with suppress(httpx.TransportError):
                        await client.get("/healthz")
                    longest = max(longest, time.perf_counter() - began)
                    await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                return {"health": longest}

    async def _watched(self, watching: asyncio.Task[dict[str, float]]) -> dict[str, float]:
        return await watching

    async def recovery(self) -> float:
        """Return the seconds until single messages are answered as before."""
        began = time.perf_counter()
        while True:
            result = await self.drive(20, 0.5)
            if result["served"] * 0.5 > 5 and result["p99"] < _RECOVERED_SECONDS and not result["codes"]:
                return time.perf_counter() - began - 0.5
            if time.perf_counter() - began > 30:
                return float("inf")


def _format_row(name: str, result: dict[str, Any]) -> str:
    codes = ", ".join(f"{code} {count:,}" for code, count in sorted(result["codes"].items())) or "none"
    return (
        f"{name:<14} {result['asked']:>7.0f} {result['served']:>7.0f} "
        f"{1000 * result['p50']:>8.0f} {1000 * result['p99']:>8.0f} "
        f"{1000 * result['longest']:>8.0f} {1000 * result['refused_p50']:>8.1f} {1000 * result['refused_p99']:>8.0f} "
        f"{result['mb']:>6.0f} {100 * result['cpu']:>5.0f} {1000 * result['health']:>7.0f}  {codes}"
        + (f"; lost {result['lost']}" if result["lost"] else "")
        + (f"; unanswered {result['unanswered']}" if result["unanswered"] else "")
    )


async def _capacity(loaded: LoadedServer, guess: float) -> float:
    """Return the highest rate of messages a second at which nearly all are served."""
    best = 0.0
    for share in _STEPS:
        result = await loaded.drive(guess * share, 5)
        print(_format_row(f"try {guess * share:.0f}", result), flush=True)
        best = max(best, result["served"])
        if result["served"] < _KEEPS_UP * result["asked"]:
            break
        await asyncio.sleep(0.5)
    return best


async def _measure(server: ServerProcess, workers: list[LoadProcess], arguments: argparse.Namespace) -> None:
    loaded = LoadedServer(server, workers)
    await loaded.connect()
    await loaded.drive(200, 3)
    print(
        f"{'':<14} {'asked/s':>7} {'served':>7} {'p50 ms':>8} {'p99':>8} {'longest':>8} "
        f"{'refused':>8} {'p99':>8} {'MB':>6} "
        f"{'CPU %':>5} {'health':>7}  refused as",
        flush=True,
    )
    capacity = arguments.capacity or await _capacity(loaded, arguments.guess)
    print(f"capacity: {capacity:.0f} messages a second", flush=True)
    for times in arguments.times:
        result = await loaded.drive(times * capacity, arguments.seconds, arguments.http)
        print(_format_row(f"{times:g} times", result), flush=True)
        print(f"{'':<14} recovered after {await loaded.recovery():.1f} s", flush=True)
    if arguments.storm:
        stormed, result = await asyncio.gather(
            workers[0].ask("storm", token=f"Bearer {token('from000')}", count=arguments.storm),
            longest_health_check(workers, server),
        )
        print(
            f"{arguments.storm} new WebSockets at once: {stormed['ends']}, within {stormed['elapsed']:.1f} s; "
            f"a health check took {1000 * result:.0f} ms at the most",
            flush=True,
        )


async def longest_health_check(workers: list[LoadProcess], server: ServerProcess) -> float:
    """Return the longest duration of a health check within three seconds."""
    loaded = LoadedServer(server, workers[1:])
    watching = asyncio.create_task(loaded._watch())
    await asyncio.sleep(3)
    watching.cancel()
    return (await watching)["health"]


async def _main(arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    people = [f"{side}{number:03}" for side in ("from", "to") for number in range(_PAIRS)]
    try:
        with EmbeddedServers(folder / "databases") as databases:
            with MongoClient[Row](databases.mongo_url) as mongo:
                insert_people(mongo[_NAME], people)
            settings = {"log_level": "WARNING", "ws_max_connections_per_user": "10000"}
            settings |= dict.fromkeys(("sends_per_minute", "connections_per_minute", "operations_per_minute"), "0")
            settings |= dict(pair.partition("=")[::2] for pair in arguments.set)
            async with AsyncExitStack() as stack:
                (server,) = await stack.enter_async_context(
                    serving_processes(databases, 1, folder, _NAME, settings=settings)
                )
                workers = [await stack.enter_async_context(LoadProcess("bench.overload_worker")) for _ in range(_LOADS)]
                await _measure(server, workers, arguments)
            if arguments.log:
                print((folder / f"{_NAME}-0.log").read_text()[-4000:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capacity", type=float, help="messages a second that it takes; found out if not given")
    parser.add_argument("--guess", type=float, default=500.0, help="where looking for it begins")
    parser.add_argument("--times", type=float, nargs="*", default=[1.0, 2.0, 3.0], help="the capacity")
    parser.add_argument("--seconds", type=float, default=15.0, help="each of those")
    parser.add_argument("--http", type=float, default=0.5, help="the share that goes over HTTP")
    parser.add_argument("--storm", type=int, default=0, help="then so many WebSockets at once")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="a setting of the server")
    parser.add_argument("--log", action="store_true", help="print the end of the server's log")
    asyncio.run(_main(parser.parse_args()))
